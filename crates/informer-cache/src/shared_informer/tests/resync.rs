//! Tests of resyncs: local replays of the cached objects, for handlers that request them.

use std::time::Duration;

use super::{Log, SOON, informer, quiet};
use crate::source::SourceErrorKind;
use crate::testing::{ScriptedSource, TestObject, added, object};
use crate::{HandlerOptions, SharedInformer};

fn every(seconds: u64) -> HandlerOptions {
    HandlerOptions::new().resync(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_at_its_own_period() {
    let (informer, mut server) = informer();
    let (never, two, three) = (Log::default(), Log::default(), Log::default());
    informer.add_handler(never.handler()).unwrap();
    informer.add_handler_with(every(2), two.handler()).unwrap();
    informer.add_handler_with(every(3), three.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    let counts = || [&never, &two, &three].map(|log| log.0.lock().len() - 1);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(counts(), [0, 1, 0]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counts(), [0, 1, 1]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(counts(), [0, 3, 2]);
    watch.fail_with(SourceErrorKind::Connection);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(counts(), [0, 6, 4], "a resync needs no server");
}

#[tokio::test(start_paused = true)]
async fn the_resync_period_of_the_informer_is_the_default_of_its_handlers_and_zero_disables_it() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let informer = SharedInformer::builder(source).resync(Duration::from_secs(10)).build();
    let (default, never) = (Log::default(), Log::default());
    informer.add_handler(default.handler()).unwrap();
    informer.add_handler_with(HandlerOptions::new().resync(Duration::ZERO), never.handler()).unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!((default.take().len(), never.take().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn resync_periods_are_at_least_a_second_and_missed_ones_are_not_repeated() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let hasty = HandlerOptions::new().resync(Duration::from_millis(1));
    informer.add_handler_with(hasty, log.handler()).unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    tokio::time::advance(Duration::from_millis(10_500)).await;
    quiet().await;
    assert_eq!(log.take().len(), 2, "ten periods in one step are one resync");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_resync_is_due_for_the_time_in_which_the_informer_was_stopped() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler_with(every(5), log.handler()).unwrap();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    run.stop().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(log.take(), ["resync a @1"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_announces_only_changes_and_a_resync_all_objects() {
    let (informer, mut server) = informer();
    let (plain, resyncing) = (Log::default(), Log::default());
    informer.add_handler(plain.handler()).unwrap();
    informer.add_handler_with(every(60), resyncing.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("1", "1"), object("2", "2")], "5").await;
    quiet().await;
    watch.gone();
    server.expect_list().await.reply_page([object("1", "1"), object("2", "7"), object("3", "8")], "9");
    let watch = server.expect_watch().await.accept();
    quiet().await;
    assert_eq!(plain.take()[2..], ["updated 2 @2 -> @7", "added 3 @8"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut told = resyncing.take().split_off(4);
    told.sort();
    assert_eq!(told, ["resync 1 @1", "resync 2 @7", "resync 3 @8"]);
    watch.send(added(object("4", "10")));
    quiet().await;
    assert_eq!(plain.take(), ["added 4 @10"]);
}

#[tokio::test(start_paused = true)]
async fn an_infinite_resync_period_never_elapses() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler_with(HandlerOptions::new().resync(Duration::MAX), log.handler()).unwrap();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    tokio::time::sleep(Duration::from_secs(365 * 24 * 60 * 60)).await;
    assert!(informer.has_synced());
    assert_eq!(log.take(), ["added a @1 (initial)"]);
}
