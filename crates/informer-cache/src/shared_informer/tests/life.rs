//! Tests that start, stop and restart an informer.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{HANGS, Log, SOON, informer, quiet};
use crate::Event;
use crate::SharedInformer;
use crate::handler::on_event_async;
use crate::reflector::ReflectorConfig;
use crate::source::{
    ListRequest, ListSource, ListStream, ListWatch, SourceError, SourceErrorKind, WatchRequest, WatchSource,
    WatchStream,
};
use crate::testing::{ScriptedSource, TestObject, added, deleted, object};

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_reports_it_until_it_is_started_again() {
    let (informer, mut server) = informer();
    assert!(!informer.is_stopped() && !informer.state().running);
    let run = informer.start();
    assert!(!informer.is_stopped() && informer.state().running);
    let _watch = server.expect_sync([], "5").await;
    run.stop().await;
    assert!(informer.is_stopped() && !informer.state().running);
    let _run = informer.start();
    assert!(!informer.is_stopped() && informer.state().running);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_informer_is_not_synced_before_its_own_first_list() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let handler = informer.add_handler(log.handler()).unwrap();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    let _run = informer.start();
    assert!(!informer.has_synced() && !handler.has_synced(), "the restarted informer is not synced");
    assert!(informer.wait_for_sync(Duration::from_millis(10)).await.is_err());
    let _watch = server.expect_sync([object("a", "1")], "6").await;
    handler.wait_for_sync(SOON).await.unwrap();
    assert!(informer.has_synced());
    assert_eq!(log.take().len(), 1, "unchanged objects are not announced again");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_informer_never_goes_back_to_an_older_state() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "9")], "10").await;
    informer.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    let _run = informer.start();
    // The response comes from a lagging replica, whose list does not contain `a` yet.
    server.expect_list().await.assert_version("10").reply_page([object("old", "2")], "3");
    quiet().await;
    assert!(!informer.has_synced() && informer.indexer().contains("a"));
    server.expect_list().await.assert_version("").reply_page([object("a", "11")], "12");
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    assert_eq!(log.take(), ["added a @9 (initial)", "updated a @9 -> @11"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_added_to_a_stopped_informer_receives_all_objects_in_the_next_run() {
    let (informer, mut server) = informer();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    let log = Log::default();
    let late = informer.add_handler(log.handler()).unwrap();
    quiet().await;
    assert!(log.take().is_empty() && !late.has_synced());
    let _run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "6")], "7").await;
    late.wait_for_sync(SOON).await.unwrap();
    assert_eq!(log.take(), ["added a @1 (initial)", "added b @6 (initial)"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_call_in_flight_and_the_next_run_delivers_pending_events_first() {
    let (informer, mut server) = informer();
    let log = Log::default();
    let seen = log.clone();
    informer
        .add_handler(on_event_async(move |event: Event<TestObject>| {
            let seen = seen.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                seen.0.lock().push(event.to_string());
            }
        }))
        .unwrap();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    quiet().await;
    run.stop().await;
    assert_eq!(log.take(), ["added a @1 (initial)"]);
    let _run = informer.start();
    let _watch = server.expect_sync([object("b", "7")], "8").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.take(), ["added b @2 (initial)", "deleted a @1 (last known)", "updated b @2 -> @7"]);
}

#[tokio::test(start_paused = true)]
async fn no_task_is_left_after_a_stop() {
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for come in ["before", "after", "both"] {
        let (informer, mut server) = informer();
        if come != "after" {
            informer.add_handler(Log::default().handler()).unwrap();
        }
        let run = informer.start();
        let _watch = server.expect_sync([object("a", "1")], "5").await;
        if come != "before" {
            informer.add_handler(Log::default().handler()).unwrap();
        }
        informer.wait_for_sync(SOON).await.unwrap();
        assert!(alive() >= before + 3, "the pump, the reflector and a handler");
        run.stop().await;
        assert_eq!(alive(), before, "handlers were added {come} the start");
    }
    let (never_started, _server) = informer();
    never_started.add_handler(Log::default().handler()).unwrap();
    drop(never_started);
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_started_and_stopped_repeatedly_starts_again() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    for _ in 0..20 {
        drop(informer.start());
    }
    let run = informer.start();
    // The server first receives the list requests of the stopped runs. These were canceled, so their
    // responses have no effect. The test responds to each request until the last run has synced.
    loop {
        let list = server.expect_list().await;
        list.reply_page([object("a", "1")], "5");
        if informer.wait_for_sync(SOON).await.is_ok() {
            break;
        }
    }
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_stopped_informer_waits_for_the_next_run_and_ends_when_removed() {
    let (informer, mut server) = informer();
    let mut events = informer.events();
    let run = informer.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    run.stop().await;
    assert_eq!(events.next().await.unwrap().to_string(), "added a @1 (initial)");
    assert!(tokio::time::timeout(SOON, events.next()).await.is_err());
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "6").await;
    watch.send(added(object("b", "7")));
    assert_eq!(events.next().await.unwrap().to_string(), "added b @7");
    events.registration().remove();
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_stream_receives_every_event_and_a_dropped_next_loses_none() {
    let (informer, mut server) = informer();
    let mut events = informer.events();
    let _run = informer.start();
    let watch = server.expect_sync([], "5").await;
    for version in (6..54_u64).step_by(2) {
        let name = format!("o{version}");
        let changes = [(added(object(&name, version)), false), (deleted(object(&name, version + 1)), true)];
        for (change, is_deleted) in changes {
            assert!(tokio::time::timeout(Duration::from_millis(5), events.next()).await.is_err());
            watch.send(change);
            let event = events.next().await.unwrap();
            assert_eq!((event.key().as_str(), event.is_deleted()), (&*name, is_deleted));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_hook_is_counted_and_causes_no_request() {
    let (source, mut server) = ScriptedSource::new();
    let mut config = ReflectorConfig::named("things");
    config.on_version = Some(Arc::new(|_| panic!("on purpose")));
    let informer = SharedInformer::<TestObject>::builder(source).reflector(config).build();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    watch.send(added(object("b", "6")));
    quiet().await;
    assert_eq!((informer.indexer().len(), informer.state().panics), (2, 2));
    assert!(informer.state().running && informer.has_synced());
    assert_eq!(server.requests().len(), 2, "a list and a watch");
}

#[tokio::test(start_paused = true)]
async fn an_error_hook_that_always_panics_does_not_change_the_requests() {
    let (source, mut server) = ScriptedSource::new();
    let mut config = ReflectorConfig::named("things");
    config.on_error = Some(Arc::new(|_| panic!("on purpose")));
    let informer = SharedInformer::<TestObject>::builder(source).reflector(config).build();
    let _run = informer.start();
    for _ in 0..3 {
        server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
    }
    let watch = server.expect_sync([object("a", "1")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    assert_eq!(informer.state().panics, 3);
    watch.send(added(object("b", "6"))).fail_with(SourceErrorKind::Connection);
    let _watch = server.expect_watch().await.assert_version("6").accept();
    quiet().await;
    assert_eq!((informer.indexer().len(), informer.state().panics), (2, 4));
    assert!(informer.state().running && informer.has_synced());
}

/// A source that panics: either in its lists, or in its watches after a successful list.
struct Panicking {
    lists: Arc<Mutex<Vec<Instant>>>,
    in_watches: bool,
}

impl ListSource<TestObject> for Panicking {
    async fn list(&self, _: ListRequest<TestObject>) -> Result<ListStream<TestObject>, SourceError> {
        self.lists.lock().push(Instant::now());
        assert!(self.in_watches, "on purpose");
        Ok(ListStream::complete([object("a", "1")], "5"))
    }
}

impl WatchSource<TestObject> for Panicking {
    async fn watch(&self, _: WatchRequest<TestObject>) -> Result<WatchStream<TestObject>, SourceError> {
        Ok(WatchStream::new(futures_util::stream::poll_fn(|_| panic!("on purpose"))))
    }
}

impl ListWatch<TestObject> for Panicking {
    fn describe(&self) -> String {
        "things that panic".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_listed_at_growing_intervals() {
    for in_watches in [false, true] {
        let lists = Arc::<Mutex<Vec<Instant>>>::default();
        let informer = SharedInformer::new(Panicking { lists: Arc::clone(&lists), in_watches });
        let run = informer.start();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let state = informer.state();
        assert!(state.running && state.reflector.is_failing() || in_watches, "{state:?}");
        let error = state.reflector.last_error.as_ref().unwrap().to_string();
        assert!(error.contains("the source panicked: on purpose"), "{error}");
        let lists = std::mem::take(&mut *lists.lock());
        assert!(state.panics >= lists.len() as u64 - 1, "{state:?}");
        assert!((10..=30).contains(&lists.len()), "{} lists in ten minutes", lists.len());
        let waits: Vec<_> = lists.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let thirty = Duration::from_secs(30);
        assert!(waits[6..].iter().all(|wait| *wait >= thirty), "the backoff did not grow: {waits:?}");
        run.stop().await;
    }
}

/// Runs on two threads, so that handlers are added concurrently with starts and stops of the informer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_added_while_the_informer_starts_receive_all_objects() {
    for _ in 0..50 {
        let (informer, mut server) = informer();
        let adding = informer.clone();
        let adder = tokio::spawn(async move {
            let log = Log::default();
            let handler = adding.add_handler(log.handler()).unwrap();
            handler.wait_for_sync(HANGS).await.unwrap();
            log.take()
        });
        let _run = informer.start();
        let _watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
        let mut told = adder.await.unwrap();
        told.sort();
        assert_eq!(told, ["added a @1 (initial)", "added b @2 (initial)"]);
    }
}
