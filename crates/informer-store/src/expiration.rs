//! A keyed cache whose entries grow old: client-go's `ExpirationCache`.
//!
//! # Invariants
//!
//! 1. Expiry is looked at on reads only; an entry that nobody reads stays until it is replaced or [purged].
//! 2. What a read found expired is removed only if it is still the same entry, so that a value that was added again
//!    meanwhile survives.
//!
//! [purged]: ExpirationCache::purge
//!
//! # Lock order
//!
//! `entries` only. The policy and the key function run outside of it, and so does `Drop` of objects.
//!
//! # Shutdown
//!
//! None: no task, no thread.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use informer_core::{KeyError, Object, ObjectKey};
use parking_lot::Mutex;

use crate::builder::Keys;

/// Says which entries are too old. A closure `Fn(&O, Duration) -> bool` is one, and so is [`Ttl`].
pub trait ExpirationPolicy<O>: Send + Sync + 'static {
    /// True where an object that was added `age` ago must not be seen any more. Called under no lock.
    fn is_expired(&self, object: &O, age: Duration) -> bool;
}

/// Entries live this long, the last instant included; for ever if it is zero.
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

/// Keyed objects that are not seen any more once a policy finds them too old.
///
/// Time is an argument of each call; it need not be the real one, but should not go backwards: an entry from the
/// future has age zero.
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
    entries: Mutex<HashMap<ObjectKey, Entry<O>, RandomState>>,
}

struct Entry<O> {
    object: Arc<O>,
    added: Instant,
}

impl<O: Object> ExpirationCache<O> {
    /// An empty cache, with keys as the objects tell them.
    pub fn new(policy: impl ExpirationPolicy<O>) -> Self {
        Self { keys: Keys::default(), policy: Box::new(policy), entries: Mutex::default() }
    }

    /// Sets the key function.
    pub fn with_key(
        mut self,
        key: impl Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync + 'static,
    ) -> Self {
        self.keys.set_key(key);
        self
    }

    /// Sets the object of its key, as young as can be.
    ///
    /// # Errors
    ///
    /// Those of the key function.
    pub fn add(&self, object: Arc<O>, now: Instant) -> Result<(), KeyError> {
        let key = self.keys.key_of(&object)?;
        let displaced = self.entries.lock().insert(key, Entry { object, added: now });
        drop(displaced);
        Ok(())
    }

    /// The same as [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// Those of the key function.
    pub fn update(&self, object: Arc<O>, now: Instant) -> Result<(), KeyError> {
        self.add(object, now)
    }

    /// Deletes the object of the same key, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the key function.
    pub fn delete(&self, object: &O) -> Result<(), KeyError> {
        let key = self.keys.key_of(object)?;
        let displaced = self.entries.lock().remove(&key);
        drop(displaced);
        Ok(())
    }

    /// The object of a key, unless it is expired; then it is removed.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized), now: Instant) -> Option<Arc<O>> {
        let (key, entry) = {
            let entries = self.entries.lock();
            let (key, entry) = entries.get_key_value(key.as_ref())?;
            (key.clone(), entry.clone())
        };
        self.keep_alive(vec![(key, entry)], now).pop()
    }

    /// The objects that are not expired; the others are removed.
    pub fn list(&self, now: Instant) -> Vec<Arc<O>> {
        self.keep_alive(self.entries(), now)
    }

    /// All keys, those of expired objects too as long as nobody read them.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.entries.lock().keys().cloned().collect()
    }

    /// Makes `objects` the whole content, all of one age.
    ///
    /// # Errors
    ///
    /// Those of the key function for any of them; the cache is as before.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<O>>, now: Instant) -> Result<(), KeyError> {
        let keyed = objects.into_iter().map(|object| {
            let key = self.keys.key_of(&object)?;
            Ok((key, Entry { object, added: now }))
        });
        let entries = keyed.collect::<Result<Vec<_>, KeyError>>()?.into_iter().collect();
        let displaced = std::mem::replace(&mut *self.entries.lock(), entries);
        drop(displaced);
        Ok(())
    }

    /// Removes what is expired. Worth a call now and then where objects expire that nobody reads.
    pub fn purge(&self, now: Instant) {
        self.list(now);
    }

    /// Does nothing: the cache has nobody to tell.
    pub fn resync(&self) {}

    fn entries(&self) -> Vec<(ObjectKey, Entry<O>)> {
        self.entries.lock().iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// The objects among `found` that are alive; removes the others.
    fn keep_alive(&self, found: Vec<(ObjectKey, Entry<O>)>, now: Instant) -> Vec<Arc<O>> {
        let is_expired = |(_, entry): &(ObjectKey, Entry<O>)| {
            self.policy.is_expired(&entry.object, now.saturating_duration_since(entry.added))
        };
        let (expired, alive): (Vec<_>, Vec<_>) = found.into_iter().partition(is_expired);
        if !expired.is_empty() {
            let mut entries = self.entries.lock();
            for (key, entry) in &expired {
                // `expired` holds the object on, so nothing is dropped under the lock.
                if entries.get(key).is_some_and(|held| held.is(entry)) {
                    entries.remove(key);
                }
            }
        }
        alive.into_iter().map(|(_, entry)| entry.object).collect()
    }
}

impl<O> Entry<O> {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.object, &other.object) && self.added == other.added
    }
}

impl<O> Clone for Entry<O> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), added: self.added }
    }
}

impl<O> fmt::Debug for ExpirationCache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirationCache").field("len", &self.entries.lock().len()).finish_non_exhaustive()
    }
}
