//! Tests with sources whose versions are numbers without an order, like those of some aggregated APIs.

use std::time::Duration;

use super::{Log, informer, quiet};
use crate::testing::{added, deleted, modified, object};

#[tokio::test(start_paused = true)]
async fn objects_with_unordered_versions_stop_causing_lists() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let mut watch = server.expect_sync([], "1000").await;
    let mut held = Vec::new();
    // The source counts the versions of each object separately. The first event of an object is therefore
    // older than the cache, and only a list can show whether it arrived late.
    for number in 1..=3_u64 {
        watch.send(added(object(&format!("o{number}"), number)));
        held.push(object(&format!("o{number}"), number));
        let list = server.expect_list().await;
        assert!(list.request().version.is_empty(), "a consistent list");
        list.reply_page(held.clone(), 1000 + number);
        watch = server.expect_watch().await.assert_version(1000 + number).accept();
    }
    quiet().await;
    assert!(informer.state().reflector.unordered);
    for number in 4..=9_u64 {
        watch.send(added(object(&format!("o{number}"), number)));
    }
    watch.send(modified(object("o9", "2"))).send(deleted(object("o1", "1")));
    server.expect_silence(Duration::from_secs(60)).await;
    assert_eq!((informer.indexer().len(), log.take().len()), (8, 11));
    assert_eq!(*informer_core::Object::resource_version(&*informer.indexer().get("o9").unwrap()), "2");
    watch.close();
    let _watch = server.expect_watch().await.assert_version("1").accept();
}

#[tokio::test(start_paused = true)]
async fn late_events_that_no_list_confirms_do_not_disable_the_comparison_of_versions() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    let mut watch = server.expect_sync([], "1000").await;
    for number in 1..=10_u64 {
        watch.send(added(object(&format!("o{number}"), number)));
        server.expect_list().await.reply_page([], 1000 + number);
        watch = server.expect_watch().await.accept();
    }
    quiet().await;
    assert!(!informer.state().reflector.unordered);
    assert_eq!(informer.state().counters.stale, 10);
    watch.send(added(object("late", "11")));
    server.expect_list().await.reply_page([], "1011");
}
