//! A keyed cache whose entries expire, like client-go's `ExpirationCache`.
//!
//! # Invariants
//!
//! 1. Entries are checked for expiry only when they are read. An entry that is never read stays until it is
//!    replaced or [purged].
//! 2. A read removes an expired entry only if it was not replaced meanwhile, so a value that was added
//!    concurrently stays.
//!
//! [purged]: ExpirationCache::purge
//!
//! # Lock order
//!
//! There is one lock, `entries`. The policy, the key function and `Drop` of objects run without it.
//!
//! # Shutdown
//!
//! An expiration cache needs no shutdown: it has no task and no thread.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use informer_core::{KeyError, Object, ObjectKey};
use parking_lot::Mutex;

use crate::keys::Keys;

/// Decides which entries have expired. [`Ttl`] and closures of the form `Fn(&O, Duration) -> bool` implement
/// this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an expiration policy of `{O}`",
    label = "not an expiration policy",
    note = "use `Ttl(Duration::from_secs(60))`, or a closure `|object: &{O}, age: Duration| -> bool`"
)]
pub trait ExpirationPolicy<O>: Send + Sync + 'static {
    /// Returns true if an object that was added `age` ago has expired. The cache calls this method under no
    /// lock, so the method may use the cache.
    fn is_expired(&self, object: &O, age: Duration) -> bool;
}

/// A policy under which entries expire after this duration; an entry of exactly this age is still valid. With
/// a duration of zero entries never expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(pub Duration);

impl<O> ExpirationPolicy<O> for Ttl {
    fn is_expired(&self, _: &O, age: Duration) -> bool {
        !self.0.is_zero() && age > self.0
    }
}

impl<O, F: Fn(&O, Duration) -> bool + Send + Sync + 'static> ExpirationPolicy<O> for F {
    fn is_expired(&self, object: &O, age: Duration) -> bool {
        self(object, age)
    }
}

/// A cache of keyed objects that hides entries once a policy considers them expired.
///
/// Each call takes the current time as an argument. The time need not be real, but should not go backwards:
/// an entry that was added later than `now` has age zero.
///
/// ```
/// use std::time::{Duration, Instant};
/// use informer_core::Header;
/// use informer_store::{ExpirationCache, Ttl};
///
/// let (start, second) = (Instant::now(), Duration::from_secs(1));
/// let leases = ExpirationCache::new(Ttl(30 * second));
/// leases.add(Header::new("default/a".parse()?).into(), start)?;
/// assert!(leases.get("default/a", start + 30 * second).is_some());
/// assert!(leases.get("default/a", start + 31 * second).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExpirationCache<O> {
    keys: Keys<O>,
    policy: Box<dyn ExpirationPolicy<O>>,
    entries: Mutex<HashMap<ObjectKey, ExpiringEntry<O>, RandomState>>,
}

struct ExpiringEntry<O> {
    object: Arc<O>,
    added: Instant,
}

impl<O: Object> ExpirationCache<O> {
    /// Creates an empty cache that uses the objects' own keys and the given policy.
    pub fn new(policy: impl ExpirationPolicy<O>) -> Self {
        Self { keys: Keys::default(), policy: Box::new(policy), entries: Mutex::default() }
    }

    /// Sets the function that computes the keys under which objects are stored.
    pub fn with_key(
        mut self,
        key: impl Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync + 'static,
    ) -> Self {
        self.keys.set_key(key);
        self
    }

    /// Adds or replaces an object. The age of the entry starts at zero.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails.
    pub fn add(&self, object: Arc<O>, now: Instant) -> Result<(), KeyError> {
        let key = self.keys.key_of(&object)?;
        let displaced = self.entries.lock().insert(key, ExpiringEntry { object, added: now });
        drop(displaced);
        Ok(())
    }

    /// Adds or replaces an object, like [`add`](Self::add). Both methods exist because client-go's `Store`
    /// has both.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails.
    pub fn update(&self, object: Arc<O>, now: Instant) -> Result<(), KeyError> {
        self.add(object, now)
    }

    /// Deletes the stored object that has the key of `object`, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails.
    pub fn delete(&self, object: &O) -> Result<(), KeyError> {
        let key = self.keys.key_of(object)?;
        let displaced = self.entries.lock().remove(&key);
        drop(displaced);
        Ok(())
    }

    /// Returns the object with this key. If the object has expired, it is removed and `None` is returned.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized), now: Instant) -> Option<Arc<O>> {
        let (key, entry) = {
            let entries = self.entries.lock();
            let (key, entry) = entries.get_key_value(key.as_ref())?;
            (key.clone(), entry.clone())
        };
        self.keep_alive(vec![(key, entry)], now).pop()
    }

    /// Returns the objects that have not expired, and removes the expired ones.
    pub fn list(&self, now: Instant) -> Vec<Arc<O>> {
        self.keep_alive(self.entries(), now)
    }

    /// Returns all keys, including those of expired objects that were not removed yet.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.entries.lock().keys().cloned().collect()
    }

    /// Replaces the whole content with `objects`. The ages of their entries start at zero.
    ///
    /// # Errors
    ///
    /// Returns the first error of the key function; the cache is then unchanged.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<O>>, now: Instant) -> Result<(), KeyError> {
        let keyed = objects.into_iter().map(|object| {
            let key = self.keys.key_of(&object)?;
            Ok((key, ExpiringEntry { object, added: now }))
        });
        let entries = keyed.collect::<Result<Vec<_>, KeyError>>()?.into_iter().collect();
        let displaced = std::mem::replace(&mut *self.entries.lock(), entries);
        drop(displaced);
        Ok(())
    }

    /// Removes expired entries. Call this method from time to time if expired objects may never be read.
    pub fn purge(&self, now: Instant) {
        self.list(now);
    }

    /// Does nothing: a resync sends the cached objects to event handlers again, and this cache has no
    /// handlers. The method exists because client-go's `Store` has it.
    pub fn resync(&self) {}

    fn entries(&self) -> Vec<(ObjectKey, ExpiringEntry<O>)> {
        self.entries.lock().iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Returns the objects of those entries in `found` that have not expired. Removes each expired entry from
    /// the cache, unless it was replaced after `found` was read.
    fn keep_alive(&self, found: Vec<(ObjectKey, ExpiringEntry<O>)>, now: Instant) -> Vec<Arc<O>> {
        let is_expired = |(_, entry): &(ObjectKey, ExpiringEntry<O>)| {
            self.policy.is_expired(&entry.object, now.saturating_duration_since(entry.added))
        };
        let (expired, alive): (Vec<_>, Vec<_>) = found.into_iter().partition(is_expired);
        if !expired.is_empty() {
            let mut entries = self.entries.lock();
            for (key, entry) in &expired {
                // `expired` refers to the object until the lock is released, so removing the entry does not
                // drop the object. The `drop` of an object is user code and must not run under the lock.
                if entries.get(key).is_some_and(|held| held.is(entry)) {
                    entries.remove(key);
                }
            }
        }
        alive.into_iter().map(|(_, entry)| entry.object).collect()
    }
}

impl<O> ExpiringEntry<O> {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object) && self.added == other.added
    }
}

impl<O> Clone for ExpiringEntry<O> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), added: self.added }
    }
}

impl<O> fmt::Debug for ExpirationCache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirationCache").field("len", &self.entries.lock().len()).finish_non_exhaustive()
    }
}
