//! Regression tests for known issues of other informer implementations.

use std::sync::Arc;
use std::time::Duration;

use informer_store::{Indexers, field, label};
use parking_lot::Mutex;

use super::{Log, SOON, informer, quiet};
use crate::handler::on_event;
use crate::metrics::{InformerMetrics, InformerProbe};
use crate::source::{SourceErrorKind, WatchEvent};
use crate::testing::{ScriptedSource, TestObject, added, deleted, modified, object};
use crate::{Event, SharedInformer, Undecodable};

#[tokio::test(start_paused = true)]
async fn an_event_older_than_the_cache_is_not_applied_and_leads_to_a_consistent_list() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "8")], "9").await;
    watch.send(modified(object("a", "3")));
    watch.dropped().await;
    server.expect_list().await.assert_version("").reply_page([object("a", "4")], "5");
    let _watch = server.expect_watch().await.assert_version("5").accept();
    quiet().await;
    assert_eq!(log.take(), ["added a @8 (initial)", "updated a @8 -> @4"], "the server was restored");
    let counters = informer.state().counters;
    assert_eq!((counters.stale, counters.rewound, informer.last_sync_resource_version()), (1, 1, "5".into()));
}

#[tokio::test(start_paused = true)]
async fn a_relist_announces_missed_deletes_with_the_last_known_state() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    watch.gone();
    server.expect_list().await.reply_page([object("b", "2")], "9");
    let _watch = server.expect_watch().await.accept();
    quiet().await;
    assert_eq!(log.take()[2..], ["deleted a @1 (last known)"]);
    assert!(!informer.indexer().contains("a"));
}

#[tokio::test(start_paused = true)]
async fn after_lost_events_a_relist_announces_one_update_and_one_add_that_are_not_initial() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    watch.gone();
    server.expect_list().await.reply_page([object("a", "7"), object("b", "8")], "9");
    let _watch = server.expect_watch().await.accept();
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "updated a @1 -> @7", "added b @8"]);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_with_the_same_name_is_a_delete_and_an_add() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1").with_uid("one")], "5").await;
    watch.send(modified(object("a", "6").with_uid("two")));
    quiet().await;
    assert_eq!(log.take()[1..], ["deleted a @1 (last known)", "added a @6"]);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_quarantined_and_others_are_delivered() {
    let (informer, mut server) = informer();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let broken = |key: &str, version: &str| {
        Undecodable::new(Some(key.parse().unwrap()), "spec.replicas is a string")
            .with_version("", version.into())
    };
    let _run = informer.start();
    let list = server.expect_list().await.accept();
    list.items([object("a", "1")]).undecodable(broken("b", "2")).end("5");
    let watch = server.expect_watch().await.accept();
    watch.send(WatchEvent::Undecodable(broken("a", "6"))).send(added(object("c", "7")));
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "added c @7"]);
    assert_eq!(informer.undecodable().len(), 2);
    assert!(informer.undecodable()[0].to_string().contains("spec.replicas is a string"));
    assert_eq!(informer.last_sync_resource_version(), "7", "the watch continues after it");
    watch.gone();
    let list = server.expect_list().await.accept();
    list.items([object("c", "7"), object("b", "9")]).undecodable(broken("a", "6")).end("10");
    let _watch = server.expect_watch().await.accept();
    quiet().await;
    assert_eq!(log.take(), ["added b @9"], "a relist does not delete it, and a decodable state adds it");
    assert_eq!((informer.undecodable().len(), informer.state().undecodable_total), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_objects_is_synced_too() {
    let (informer, mut server) = informer();
    let handler = informer.add_handler(Log::default().handler()).unwrap();
    let _run = informer.start();
    let _watch = server.expect_sync([], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rejected_list_reaches_the_error_handler() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let seen: Arc<Mutex<Vec<SourceErrorKind>>> = Arc::default();
    let errors = Arc::clone(&seen);
    let informer = SharedInformer::builder(source)
        .watch_error_handler(move |error| errors.lock().push(error.kind()))
        .build();
    let _run = informer.start();
    server.expect_list().await.fail_with(SourceErrorKind::Forbidden);
    quiet().await;
    assert_eq!(*seen.lock(), [SourceErrorKind::Forbidden]);
}

/// A metrics implementation that panics at every batch, which must not stop the informer.
struct Broken;

impl InformerMetrics for Broken {
    fn observe(&self, _: InformerProbe) {}

    fn processed(&self, _: &str, _: usize, _: Duration) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_that_panic_do_not_stop_the_informer() {
    let (source, mut server) = ScriptedSource::<TestObject>::new();
    let informer = SharedInformer::builder(source).metrics(Arc::new(Broken)).build();
    let log = Log::default();
    informer.add_handler(log.handler()).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    watch.send(added(object("b", "6")));
    quiet().await;
    watch.send(modified(object("a", "7")));
    quiet().await;
    assert_eq!(log.take(), ["added a @1 (initial)", "added b @6", "updated a @1 -> @7"]);
    assert_eq!((informer.is_stopped(), informer.state().panics), (false, 3));
}

#[tokio::test(start_paused = true)]
async fn when_a_handler_runs_the_cache_has_its_state_or_a_later_one() {
    let (informer, mut server) = informer();
    let cache = informer.indexer().clone();
    let told: Arc<Mutex<usize>> = Arc::default();
    let count = Arc::clone(&told);
    let handler = on_event(move |event: Event<TestObject>| {
        use informer_core::Object;
        *count.lock() += 1;
        let held = cache.get(event.key());
        let newer = held
            .is_some_and(|held| !held.resource_version().is_older_than(event.object().resource_version()));
        assert_ne!(newer, event.is_deleted(), "{event}");
    });
    let handler = informer.add_handler(handler).unwrap();
    let _run = informer.start();
    let watch = server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    watch.send(modified(object("a", "6"))).send(deleted(object("b", "7"))).send(added(object("c", "8")));
    quiet().await;
    assert_eq!((*told.lock(), handler.state().panics), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn an_added_index_contains_earlier_and_later_objects() {
    let (informer, mut server) = informer();
    let informer = informer.index("text", field("text"));
    let _run = informer.start();
    let labelled = |key, version, value| object(key, version).with_labels([("by", value)]).with_text("t");
    let watch = server.expect_sync([labelled("a", "1", "x"), labelled("b", "2", "y")], "5").await;
    informer.wait_for_sync(SOON).await.unwrap();
    informer.add_indexers(Indexers::new().index("by", label("by"))).unwrap();
    assert_eq!(informer.by_index("by", "x").unwrap().len(), 1);
    watch.send(added(labelled("c", "6", "x")));
    informer.wait_until(|cache| cache.contains("c")).await.unwrap();
    assert_eq!(informer.by_index("by", "x").unwrap().len(), 2);
    assert_eq!(informer.by_index("text", "t").unwrap().len(), 3);
    assert!(informer.add_indexers(Indexers::new().index("by", label("by"))).is_err());
    assert!(informer.by_index("none", "x").is_err());
}

#[tokio::test(start_paused = true)]
async fn the_state_describes_the_informer_and_contains_no_object_names() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    server.expect_list().await.fail_with(SourceErrorKind::NotFound);
    quiet().await;
    let state = informer.state();
    assert!(state.running && !state.synced && state.reflector.is_failing());
    let _watch = server.expect_sync([object("secret/secret", "1")], "5").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let state = informer.state();
    assert_eq!((state.objects, state.version.to_string()), (1, "5".to_owned()));
    assert_eq!(state.version_age(tokio::time::Instant::now().into_std()), Some(Duration::from_secs(3)));
    assert!(!format!("{state:?} {informer:?}").contains("secret"));
}
