use std::sync::Arc;
use std::time::Duration;

use informer_core::{Object, ObjectKey};

use super::world::{Recorder, World, wait_bounds};
use crate::UndecodableLog;
use crate::reflector::{Reflector, ReflectorConfig, RelistReason};
use crate::source::{DynListWatch, KnownObjects, SourceContext};
use crate::testing::{ScriptedSource, TestObject, added, bookmark, initial_events_end, object};

struct Held(Arc<TestObject>);

impl KnownObjects<TestObject> for Held {
    fn get(&self, key: &str) -> Option<Arc<TestObject>> {
        (*self.0.key() == *key).then(|| Arc::clone(&self.0))
    }

    fn keys(&self) -> Vec<ObjectKey> {
        vec![self.0.key().clone()]
    }
}

/// Starts a reflector with a cache that contains the object `default/held` at version 7. A source may reuse
/// that object instead of decoding it, except in lists that must decode every object.
fn world_that_holds() -> World {
    let (source, server) = ScriptedSource::new();
    let queue = Recorder::new();
    let context =
        SourceContext::new(Some(Arc::new(Held(object("default/held", 7).into()))), UndecodableLog::default());
    let store: Arc<dyn crate::queue::ReflectorStore<TestObject>> = queue.clone();
    let reflector =
        Reflector::new(DynListWatch::new(source), store, ReflectorConfig::default()).with_context(context);
    World::run(reflector, server, queue)
}

fn sees_held(context: &SourceContext<TestObject>) -> bool {
    context.unchanged("default/held", "uid of default/held", &7.into()).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_last_version_is_replaced_by_a_consistent_read() {
    let mut world = world_that_holds();
    let watch = world.server.expect_sync([], 10).await;
    watch.send(bookmark(20)).gone();
    let lagging = world.server.expect_list().await.assert_version("20");
    assert!(sees_held(&lagging.request().context));
    world.told().await;
    world.lap();
    lagging.reply_page([object("default/old", 5)], 15);
    let consistent = world.server.expect_list().await.assert_version("").assert_limit(Some(500));
    assert_eq!(world.lap(), Duration::ZERO);
    assert!(!sees_held(&consistent.request().context), "cached objects may be from before the restore");
    assert_eq!(world.told().await, Vec::<String>::new());
    consistent.reply_page([object("default/new", 21)], 22);
    let watch = world.server.expect_watch().await.assert_version("22");
    assert!(sees_held(&watch.request().context));
    let _open = watch.accept();
    assert_eq!(world.told().await, ["Replaced[default/new @21] @22"]);
    let status = world.status();
    assert_eq!((status.stale_lists, status.rewound), (1, 0));
    assert_eq!(status.relists.get(RelistReason::StaleList), 1);
}

#[tokio::test(start_paused = true)]
async fn an_older_consistent_read_is_applied_as_the_state_of_a_restored_server() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_sync([object("default/a", 90)], 100).await.gone();
    world.server.expect_list().await.assert_version("100").reply_page([object("default/a", 40)], 50);
    world.server.expect_list().await.assert_version("").reply_page([object("default/a", 40)], 51);
    let watch = world.server.expect_watch().await.assert_version("51").accept();
    assert_eq!(world.told().await, ["Replaced[default/a @90] @100", "Replaced[default/a @40] @51 rewound"]);
    let status = world.status();
    assert_eq!((status.stale_lists, status.rewound), (1, 1));
    assert_eq!(status.last_version, "51");

    // After the consistent read, the reflector sends ordinary requests again, which contain the last version.
    watch.send(added(object("default/b", 52))).gone();
    world.server.expect_list().await.assert_version("52").reply_page([], 53);
    let _open = world.server.expect_watch().await.assert_version("53").accept();
    assert_eq!(world.status().rewound, 1);
}

#[tokio::test(start_paused = true)]
async fn an_older_consistent_read_that_reused_cached_objects_is_repeated() {
    let mut world = world_that_holds();
    world.server.expect_sync([], 100).await.gone();
    // A restored server rejects the requested version as too large. The consistent read that follows returns
    // an even older version.
    let list = world.server.expect_list().await.assert_version("100");
    list.fail_with(crate::source::SourceErrorKind::VersionTooLarge);
    let consistent = world.server.expect_list().await.assert_version("");
    assert!(sees_held(&consistent.request().context));
    consistent.reply_page([], 50);
    let again = world.server.expect_list().await.assert_version("");
    assert!(!sees_held(&again.request().context));
    again.reply_page([], 51);
    let _open = world.server.expect_watch().await.assert_version("51").accept();
    assert_eq!(world.told().await, ["Replaced[] @100", "Replaced[] @51 rewound"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_streaming_list_is_replaced_by_a_consistent_one() {
    let mut world = World::streaming(ReflectorConfig::default());
    world.server.expect_watch().await.send(initial_events_end(10)).gone();
    let watch = world.server.expect_watch().await.assert_version("10").assert_streaming_list();
    watch.send(initial_events_end(5)).dropped().await;
    let watch = world.server.expect_watch().await.assert_version("").assert_streaming_list();
    let watch = watch.send(initial_events_end(6));
    assert_eq!(world.told().await, ["Replaced[] @10", "Replaced[] @6 rewound"]);
    watch.send(bookmark(7)).close();
    let _open = world.server.expect_watch().await.assert_version("7").assert_plain();
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_not_numbers_are_never_older() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_sync([], "b").await.gone();
    world.server.expect_list().await.assert_version("b").reply_page([], "a");
    let _open = world.server.expect_watch().await.assert_version("a").accept();
    assert_eq!(world.status().stale_lists, 0);
}

#[tokio::test(start_paused = true)]
async fn a_requested_consistent_relist_is_delayed_by_the_backoff() {
    let mut world = world_that_holds();
    let mut watch = world.server.expect_sync([], 10).await;
    for nth in 0..4_u32 {
        world.told().await;
        world.lap();
        for _ in 0..100 {
            world.handle.request_consistent_relist();
        }
        watch.dropped().await;
        world.handle.request_consistent_relist();
        let list = world.server.expect_list().await.assert_version("");
        assert!(wait_bounds(nth).contains(&world.lap()), "request {nth}");
        assert!(!sees_held(&list.request().context));
        // A relist request while the requested consistent read is in flight has no effect, because it would
        // start the same read.
        world.handle.request_consistent_relist();
        world.told().await;
        list.reply_page([], 10);
        watch = world.server.expect_watch().await.assert_version("10").accept();
    }
    assert_eq!(world.status().relists.get(RelistReason::Requested), 4);
    assert_eq!(world.asked().0.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_requested_consistent_relist_ends_a_list_that_may_be_stale() {
    let mut world = World::start(ReflectorConfig::default());
    world.server.expect_sync([], 10).await.gone();
    let list = world.server.expect_list().await.assert_version("10").accept();
    world.handle.request_consistent_relist();
    list.dropped().await;
    let list = world.server.expect_list().await.assert_version("");
    list.reply_page([], 12);
    let _open = world.server.expect_watch().await.accept();
    assert_eq!(world.told().await, ["Replaced[] @10", "Replaced[] @12"]);
}

#[tokio::test(start_paused = true)]
async fn a_requested_consistent_relist_ends_a_watch_with_endless_events() {
    let mut world = World::start(ReflectorConfig::default());
    let watch = world.server.expect_sync([], 10).await;
    for version in 11..50_000_u64 {
        watch.send(bookmark(version));
    }
    world.handle.request_consistent_relist();
    watch.dropped().await;
    let last = world.status().last_version.as_u64();
    assert!(last < Some(49_999), "the request waited for the end of the events: {last:?}");
    let _open = world.server.expect_list().await.assert_version("");
}
