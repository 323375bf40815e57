//! Reflectors that write directly to stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_store::{ExpirationCache, Store, StoreBuilder, Ttl, UndeltaStore};
use tokio_util::sync::CancellationToken;

use crate::reflector::{ReflectedStore, Reflector, ReflectorConfig, ReflectorHandle};
use crate::source::{ListStream, WatchStream, list_watch};
use crate::testing::{
    ScriptedServer, ScriptedSource, TestObject, added, bookmark, deleted, modified, object,
};

struct Running {
    server: ScriptedServer<TestObject>,
    handle: ReflectorHandle,
    stop: CancellationToken,
}

fn run(store: impl ReflectedStore<TestObject>) -> Running {
    let (source, server) = ScriptedSource::new();
    let reflector = Reflector::into_store(source, store, ReflectorConfig::named("things"));
    let (handle, stop) = (reflector.handle(), CancellationToken::new());
    let token = stop.clone();
    tokio::spawn(async move { reflector.run(token).await });
    Running { server, handle, stop }
}

async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn keys(store: &Store<TestObject>) -> Vec<String> {
    let mut keys: Vec<String> = store.keys().iter().map(ToString::to_string).collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn a_reflector_feeds_a_store_with_lists_changes_and_bookmarks() {
    let store: Store<TestObject> = StoreBuilder::new().build();
    let mut running = run(store.clone());
    let watch = running.server.expect_sync([object("a", "1"), object("b", "2")], "5").await;
    running.handle.status_when(|status| status.synced).await;
    assert_eq!((keys(&store), store.resource_version()), (vec!["a".into(), "b".into()], "5".into()));
    watch.send(added(object("c", "6"))).send(modified(object("a", "7"))).send(deleted(object("b", "8")));
    watch.send(bookmark("9"));
    quiet().await;
    assert_eq!((keys(&store), store.resource_version()), (vec!["a".into(), "c".into()], "9".into()));
    watch.gone();
    running.server.expect_list().await.reply_page([object("c", "6")], "12");
    quiet().await;
    assert_eq!(keys(&store), ["c"], "a relist removes objects whose deletion was missed");
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_reflector_feeds_an_undelta_store_whose_callback_receives_each_state() {
    let sizes = Arc::new(AtomicUsize::new(usize::MAX));
    let seen = Arc::clone(&sizes);
    let store = UndeltaStore::new(StoreBuilder::new(), move |objects: Vec<Arc<TestObject>>| {
        seen.store(objects.len(), Ordering::Relaxed);
    });
    let mut running = run(store);
    let watch = running.server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    assert_eq!(sizes.load(Ordering::Relaxed), 1);
    watch.send(added(object("b", "6")));
    quiet().await;
    assert_eq!(sizes.load(Ordering::Relaxed), 2);
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_reflector_feeds_an_expiration_cache() {
    let cache = Arc::new(ExpirationCache::new(Ttl(Duration::from_secs(60))));
    let mut running = run(Arc::clone(&cache));
    let watch = running.server.expect_sync([object("a", "1")], "5").await;
    quiet().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    watch.send(modified(object("b", "6")));
    quiet().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let now = tokio::time::Instant::now().into_std();
    assert!(cache.get("a", now).is_none() && cache.get("b", now).is_some());
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn closures_are_a_source() {
    let store: Store<TestObject> = StoreBuilder::new().build();
    let source = list_watch::<TestObject, _, _, _, _>(
        "things",
        |_| async { Ok(ListStream::complete([object("a", "1")], "1")) },
        |_| async { Ok(WatchStream::new(futures_util::stream::pending())) },
    );
    let reflector = Reflector::into_store(source, store.clone(), ReflectorConfig::default());
    let (handle, stop) = (reflector.handle(), CancellationToken::new());
    let token = stop.clone();
    tokio::spawn(async move { reflector.run(token).await });
    handle.status_when(|status| status.synced).await;
    assert!(store.contains("a"));
    stop.cancel();
}
