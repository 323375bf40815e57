//! A cache that also shows the caller's own writes before they reach the underlying cache, like client-go's
//! `MutationCache`.
//!
//! # Invariants
//!
//! 1. The result for a key is never older than the cached object.
//! 2. The overlay of own writes has at most [`MAX_OVERLAY_ENTRIES`] entries and evicts the least recently
//!    used one. An entry expires after its time to live.
//!
//! # Lock order
//!
//! There is one lock, `overlay`. Reads of the underlying cache, index functions and drops of objects happen
//! without it.
//!
//! # Shutdown
//!
//! A mutation cache needs no shutdown: it has no task and no thread.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::deadline::MAX_WAIT;
use informer_core::{Object, ResourceVersion};
use parking_lot::Mutex;

use crate::Indexer;
use crate::error::IndexError;

mod overlay;

use overlay::{Overlay, OverlayEntry};

/// The maximum number of own writes in the overlay, as in client-go. Own writes normally reach the cache
/// quickly, so few entries are needed.
pub(crate) const MAX_OVERLAY_ENTRIES: usize = 100;

/// The default time for which reads return an own write that never reaches the underlying cache, as in
/// client-go.
const TTL: Duration = Duration::from_secs(5 * 60);

/// Reads a cache, and shows the caller's own writes until the cache contains them.
///
/// Pass each object that a write returned to [`mutation`](Self::mutation), and each event of the informer to
/// [`on_add_or_update`](Self::on_add_or_update) or [`on_delete`](Self::on_delete).
///
/// # Contract
///
/// - Reads return the cached or the written object, whichever has the newer version. If the versions cannot
///   be compared, they return the cached object.
/// - A write is removed from the overlay when the cache contains it, when an event of its key is at least as
///   new, when its object was deleted, after five minutes ([`with_ttl`](Self::with_ttl)), or when 100 other
///   keys were used since.
/// - A write that is recorded after the deletion of its object is ignored. The deletion is remembered as long
///   as a write would be.
/// - Objects that were written but never cached are returned only with [`include_adds`](Self::include_adds).
pub struct MutationCache<O> {
    backing: Indexer<O>,
    include_adds: bool,
    ttl: Duration,
    overlay: Mutex<Overlay<O>>,
}

impl<O: Object> MutationCache<O> {
    /// Creates a cache that reads from a store and shows own writes on top of its objects.
    pub fn new(backing: Indexer<O>) -> Self {
        Self { backing, include_adds: false, ttl: TTL, overlay: Mutex::new(Overlay::default()) }
    }

    /// Makes reads also return written objects that the cache does not contain yet.
    pub fn include_adds(mut self) -> Self {
        self.include_adds = true;
        self
    }

    /// Sets how long reads return a write that the cache never receives; the default is five minutes.
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.min(MAX_WAIT);
        self
    }

    /// Records the object that the server returned for an own write, so that reads return it until the cache
    /// contains it.
    pub fn mutation(&self, object: Arc<O>, now: Instant) {
        if self.cached_is_as_new(&object) {
            return;
        }
        let key = object.key().clone();
        let entry = OverlayEntry::of(&*object, Some(object.clone()), now + self.ttl);
        let mut overlay = self.overlay.lock();
        let deleted = overlay.get(&key, now).is_some_and(|held| {
            held.object.is_none() && (held.uid == entry.uid || !newer(&entry.version, &held.version))
        });
        let displaced = if deleted { Vec::new() } else { overlay.put(key, entry, now) };
        drop(overlay);
        drop(displaced);
    }

    /// Returns the object with this key: the cached or the written one, whichever is newer.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized), now: Instant) -> Option<Arc<O>> {
        let written = self.written(key.as_ref(), now);
        self.newest(key.as_ref(), written)
    }

    /// Returns the objects that have this value in an index of the cache, including own writes.
    ///
    /// # Errors
    ///
    /// Returns an error if the cache has no index of this name, or if its function fails for a written
    /// object.
    pub fn by_index(&self, name: &str, value: &str, now: Instant) -> Result<Vec<Arc<O>>, IndexError> {
        let cached = self.backing.index_keys(name, value)?;
        let written = self.overlay.lock().objects(now);
        let only_cached = cached.iter().filter(|key| !written.iter().any(|(written, _)| written == *key));
        let mut found: Vec<Arc<O>> = only_cached.filter_map(|key| self.backing.get(key)).collect();
        for (key, object) in written {
            let Some(newest) = self.newest(key.as_str(), Some(object)) else { continue };
            if self.backing.has_value(name, value, &newest)? {
                found.push(newest);
            }
        }
        Ok(found)
    }

    /// Handles an added or updated event of the informer: removes the own write of the same key from the
    /// overlay if the object of the event is at least as new as the written one.
    pub fn on_add_or_update(&self, object: &O) {
        let (key, version) = (object.key(), object.resource_version());
        let forgotten = self.overlay.lock().remove_if(key, |held| !newer(&held.version, version));
        drop(forgotten);
    }

    /// Handles a deleted event of the informer: removes the own write of the deleted object from the overlay.
    /// Writes of an older state of the object that are recorded later are ignored.
    pub fn on_delete(&self, last: &O, now: Instant) {
        let tombstone = OverlayEntry::of(last, None, now + self.ttl);
        let mut overlay = self.overlay.lock();
        let survives = overlay
            .get(last.key(), now)
            .is_some_and(|held| held.uid != tombstone.uid && newer(&held.version, &tombstone.version));
        let displaced = if survives { Vec::new() } else { overlay.put(last.key().clone(), tombstone, now) };
        drop(overlay);
        drop(displaced);
    }

    fn written(&self, key: &str, now: Instant) -> Option<Arc<O>> {
        self.overlay.lock().get(key, now)?.object.clone()
    }

    fn newest(&self, key: &str, written: Option<Arc<O>>) -> Option<Arc<O>> {
        match (self.backing.get(key), written) {
            (Some(cached), Some(written)) => {
                let shown = newer(written.resource_version(), cached.resource_version());
                Some(if shown { written } else { cached })
            }
            (Some(cached), None) => Some(cached),
            (None, written) => written.filter(|_| self.include_adds),
        }
    }

    fn cached_is_as_new(&self, object: &O) -> bool {
        let cached = self.backing.get(object.key());
        cached.is_some_and(|cached| !newer(object.resource_version(), cached.resource_version()))
    }
}

/// Returns true if both versions are comparable and the first one is greater.
fn newer(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    version.compare(than) == Some(Ordering::Greater)
}

impl<O: Object> fmt::Debug for MutationCache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutationCache")
            .field("backing", &self.backing)
            .field("include_adds", &self.include_adds)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
