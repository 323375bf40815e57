use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{KeyError, ObjectKey};
use informer_store::{ExpirationCache, ExpirationPolicy, Ttl};

use crate::{Pod, bare, key, names, valued, values};

#[expect(
    clippy::disallowed_methods,
    reason = "there is no other constructor of Instant; only differences count"
)]
fn start() -> Instant {
    Instant::now()
}

const TTL: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_nanos(1);

#[test]
fn an_expired_object_is_missed_and_removed() {
    let (cache, now) = (ExpirationCache::new(Ttl(TTL)), start());
    cache.add(bare("a"), now).unwrap();
    assert_eq!(names(cache.get("a", now + TTL)), ["a"]);
    assert_eq!(cache.keys().len(), 1);
    assert!(cache.get("a", now + TTL + MOMENT).is_none());
    assert!(cache.keys().is_empty());
}

#[test]
fn an_object_added_again_is_seen_with_its_new_value() {
    let (cache, now) = (ExpirationCache::new(Ttl(TTL)), start());
    cache.add(valued("a", "old"), now).unwrap();
    let later = now + TTL + MOMENT;
    assert!(cache.get("a", later).is_none());
    cache.update(valued("a", "new"), later).unwrap();
    assert_eq!(values(&cache.get("a", later).unwrap()), ["new"]);
}

#[test]
fn an_object_added_while_its_old_one_is_found_expired_survives() {
    let now = start();
    let cache = Arc::new_cyclic(|own: &std::sync::Weak<ExpirationCache<Pod>>| {
        let own = own.clone();
        // The cache calls this policy under no lock, after it has read the entry and before it removes the
        // entry. The policy can therefore replace the entry in between, like a concurrent writer.
        ExpirationCache::new(move |pod: &Pod, _: Duration| {
            let old = values(pod) == ["old"];
            if old {
                own.upgrade().unwrap().add(valued("a", "new"), now).unwrap();
            }
            old
        })
    });
    cache.add(valued("a", "old"), now).unwrap();
    assert!(cache.get("a", now).is_none());
    assert_eq!(values(&cache.get("a", now).unwrap()), ["new"]);
}

#[test]
fn a_list_hides_and_removes_what_is_expired_and_keys_do_not() {
    let expires = |pod: &Pod, _: Duration| values(pod) == ["expired"];
    let (cache, now) = (ExpirationCache::new(expires), start());
    cache.replace([valued("a", "kept"), valued("b", "expired"), valued("c", "expired")], now).unwrap();
    assert_eq!(cache.keys().len(), 3);
    assert_eq!(names(cache.list(now)), ["a"]);
    assert_eq!(cache.keys(), ["a"]);
}

#[test]
fn a_time_to_live_ends_after_its_last_instant_and_zero_never_ends() {
    for (ttl, age, expired) in [
        (TTL, TTL, false),
        (TTL, TTL + MOMENT, true),
        (Duration::ZERO, 1000 * TTL, false),
        (Duration::ZERO, TTL, false),
    ] {
        assert_eq!(Ttl(ttl).is_expired(&(), age), expired, "{ttl:?} {age:?}");
    }
}

#[test]
fn a_replacement_is_of_one_age_and_exactly_the_new_set() {
    let (cache, now) = (ExpirationCache::new(Ttl(TTL)), start());
    cache.add(bare("old"), now).unwrap();
    cache.replace([bare("a"), bare("b")], now + TTL).unwrap();
    assert_eq!(names(cache.list(now + 2 * TTL)), ["a", "b"]);
    cache.delete(&bare("a")).unwrap();
    cache.delete(&bare("a")).unwrap();
    assert_eq!(cache.keys(), ["b"]);
    cache.purge(now + 2 * TTL + MOMENT);
    assert!(cache.keys().is_empty());
    cache.resync();
}

#[test]
fn an_entry_from_the_future_is_young() {
    let (cache, now) = (ExpirationCache::new(Ttl(TTL)), start());
    cache.add(bare("a"), now + TTL).unwrap();
    assert!(cache.get("a", now).is_some());
}

#[test]
fn an_object_without_a_key_is_refused_and_the_cache_is_as_before() {
    let no_key = |_: &Pod| -> Result<ObjectKey, KeyError> { Err(KeyError::new("pod x", "no key today")) };
    let (cache, now) = (ExpirationCache::new(Ttl(TTL)).with_key(no_key), start());
    assert_eq!(cache.add(bare("a"), now).unwrap_err().object(), "pod x");
    assert!(cache.delete(&bare("a")).is_err() && cache.replace([bare("a")], now).is_err());
    assert!(cache.list(now).is_empty() && !cache.keys().contains(&key("a")));
}
