use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{Header, Object};
use informer_store::{MutationCache, StoreBuilder, ThreadSafeStore};

use crate::{Pod, key, names, values};

#[expect(
    clippy::disallowed_methods,
    reason = "there is no other constructor of Instant; only differences count"
)]
fn start() -> Instant {
    Instant::now()
}

const MINUTE: Duration = Duration::from_secs(60);

fn pod(uid: &str, version: &str) -> Arc<Pod> {
    of("ns/a", uid, version, "one")
}

fn of(name: &str, uid: &str, version: &str, values: &str) -> Arc<Pod> {
    let header = Header::new(key(name)).with_uid(uid).with_version(version);
    header.with_labels([("values", values)]).into()
}

fn backed() -> (ThreadSafeStore<Pod>, MutationCache<Pod>) {
    let store = StoreBuilder::new().index("values", values).thread_safe();
    let cache = MutationCache::new(store.indexer().clone());
    (store, cache)
}

fn put(store: &ThreadSafeStore<Pod>, pod: Arc<Pod>) {
    store.add(pod.key().clone(), pod);
}

fn version(found: Option<Arc<Pod>>) -> Option<String> {
    found.map(|pod| pod.resource_version().to_string())
}

#[test]
fn a_write_is_forgotten_by_an_event_as_new_as_it() {
    for (event, shown) in [("1", Some("2")), ("2", None), ("3", None)] {
        let (store, now) = (StoreBuilder::<Pod>::new().thread_safe(), start());
        let cache = MutationCache::new(store.indexer().clone()).include_adds();
        cache.mutation(pod("u", "2"), now);
        cache.on_add_or_update(&pod("u", event));
        assert_eq!(version(cache.get("ns/a", now)).as_deref(), shown, "event {event}");
    }
}

#[test]
fn a_write_is_forgotten_by_the_deletion_of_its_object() {
    for (uid, deleted, shown) in
        [("u", "1", None), ("other", "3", None), ("other", "2", None), ("other", "1", Some("2"))]
    {
        let (store, now) = (StoreBuilder::<Pod>::new().thread_safe(), start());
        let cache = MutationCache::new(store.indexer().clone()).include_adds();
        cache.mutation(pod("u", "2"), now);
        cache.on_delete(&pod(uid, deleted), now);
        assert_eq!(version(cache.get("ns/a", now)).as_deref(), shown, "{uid} {deleted}");
    }
}

#[test]
fn a_write_that_arrives_after_the_deletion_of_its_object_is_ignored() {
    let (store, now) = (StoreBuilder::<Pod>::new().thread_safe(), start());
    let cache = MutationCache::new(store.indexer().clone()).include_adds();
    cache.on_delete(&pod("u", "5"), now);
    for (uid, stale) in [("u", "4"), ("u", "6"), ("other", "4"), ("other", "5")] {
        cache.mutation(pod(uid, stale), now);
        assert!(cache.get("ns/a", now).is_none(), "{uid} {stale}");
    }
    cache.mutation(pod("other", "6"), now);
    assert_eq!(version(cache.get("ns/a", now)).as_deref(), Some("6"), "a new object of that name");
}

#[test]
fn a_write_that_arrives_after_a_new_object_of_its_name_is_ignored() {
    let ((store, cache), now) = (backed(), start());
    cache.on_delete(&pod("old", "5"), now);
    put(&store, pod("new", "7"));
    cache.on_add_or_update(&pod("new", "7"));
    cache.mutation(pod("old", "4"), now);
    assert_eq!(cache.get("ns/a", now).unwrap().uid(), "new");
    store.delete(&key("ns/a"));
    assert!(cache.get("ns/a", now).is_none(), "no old write is left");
}

#[test]
fn a_deletion_takes_a_stale_write_out_of_the_index() {
    let (store, now) = (StoreBuilder::new().index("values", values).thread_safe(), start());
    let cache = MutationCache::new(store.indexer().clone()).include_adds();
    cache.mutation(pod("u", "2"), now);
    assert_eq!(cache.by_index("values", "one", now).unwrap().len(), 1);
    cache.on_delete(&pod("u", "1"), now);
    assert_eq!(cache.by_index("values", "one", now).unwrap().len(), 0);
}

#[test]
fn the_newer_of_the_cached_and_the_written_object_is_shown() {
    let ((store, cache), now) = (backed(), start());
    cache.mutation(pod("u", "9"), now);
    assert!(cache.get("ns/a", now).is_none(), "additions are not shown unless asked for");
    put(&store, pod("u", "8"));
    assert_eq!(version(cache.get("ns/a", now)).as_deref(), Some("9"));
    put(&store, pod("u", "10"));
    assert_eq!(version(cache.get("ns/a", now)).as_deref(), Some("10"), "compared as numbers");
}

#[test]
fn versions_that_cannot_be_compared_hide_nothing_and_panic_nowhere() {
    let ((store, cache), now) = (backed(), start());
    put(&store, pod("u", "etcd-5"));
    cache.mutation(pod("u", "etcd-6"), now);
    assert_eq!(version(cache.get("ns/a", now)).as_deref(), Some("etcd-5"));
    cache.on_add_or_update(&pod("u", ""));
    cache.on_delete(&pod("other", "x"), now);
    assert_eq!(version(cache.get("ns/a", now)).as_deref(), Some("etcd-5"));
}

#[test]
fn an_index_lookup_shows_each_object_as_its_newest_version_has_it() {
    let (store, now) = (StoreBuilder::new().index("values", values).thread_safe(), start());
    for name in ["ns/a", "ns/b", "ns/c"] {
        put(&store, of(name, "u", "1", "one"));
    }
    let cache = MutationCache::new(store.indexer().clone()).include_adds();
    cache.mutation(of("ns/a", "u", "2", "one.two"), now);
    cache.mutation(of("ns/b", "u", "2", "two"), now);
    cache.mutation(of("ns/d", "u", "2", "two"), now);
    let found = |value| names(cache.by_index("values", value, now).unwrap());
    assert_eq!(found("one"), ["ns/a", "ns/c"], "b was removed from it");
    assert_eq!(found("two"), ["ns/a", "ns/b", "ns/d"], "b was added, d is not in the store");
    assert!(cache.by_index("no such index", "x", now).is_err());
    let without_adds = MutationCache::new(store.indexer().clone());
    without_adds.mutation(of("ns/d", "u", "2", "two"), now);
    assert!(without_adds.by_index("values", "two", now).unwrap().is_empty());
}

#[test]
fn a_write_is_shown_for_five_minutes() {
    let (store, now) = (StoreBuilder::<Pod>::new().thread_safe(), start());
    let cache = MutationCache::new(store.indexer().clone()).include_adds();
    cache.mutation(pod("u", "2"), now);
    assert!(cache.get("ns/a", now + 5 * MINUTE).is_some());
    assert!(cache.get("ns/a", now + 5 * MINUTE + Duration::from_nanos(1)).is_none());
    let cache = MutationCache::new(store.indexer().clone()).include_adds().with_ttl(MINUTE);
    cache.mutation(pod("u", "2"), now);
    assert!(cache.get("ns/a", now + 2 * MINUTE).is_none());
    let cache = MutationCache::new(store.indexer().clone()).include_adds().with_ttl(Duration::MAX);
    cache.mutation(pod("u", "2"), now);
    assert!(cache.get("ns/a", now + 1_000_000 * MINUTE).is_some(), "the write never expires");
}

#[test]
fn the_least_recently_used_of_a_hundred_writes_goes_first() {
    let (store, now) = (StoreBuilder::<Pod>::new().thread_safe(), start());
    let cache = MutationCache::new(store.indexer().clone()).include_adds();
    let name = |number: usize| format!("ns/pod-{number}");
    (0..100).for_each(|number| cache.mutation(of(&name(number), "u", "2", ""), now));
    assert!(cache.get(&name(0), now).is_some(), "the read marks it as used");
    cache.mutation(of(&name(100), "u", "2", ""), now);
    let shown = |number| cache.get(&name(number), now).is_some();
    assert_eq!([shown(0), shown(1), shown(2), shown(100)], [true, false, true, true]);
}
