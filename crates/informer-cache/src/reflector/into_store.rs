//! Reflectors that write to a store instead of a queue.
//!
//! # Lock order
//!
//! The lock of the store is taken alone, to take the store out and to put it back. Methods of a store, which
//! may call code of the program, run without it.

use std::collections::HashMap;
use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey, ResourceVersion, Tombstone};
use informer_store::{ExpirationCache, Store, UndeltaStore};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Reflector, ReflectorConfig};
use crate::queue::{QueueClosed, ReflectorStore};
use crate::source::{DynListWatch, ListWatch, Listed};
use crate::{Change, Replacement};

/// A store to which a reflector can write: [`Store`], an [`ExpirationCache`] in an `Arc`, an
/// [`UndeltaStore`], or a store of the program.
pub trait ReflectedStore<O: Object>: Send + 'static {
    /// Adds or replaces an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the object has no key. The reflector logs it and continues.
    fn upsert(&mut self, object: Arc<O>) -> Result<(), KeyError>;

    /// Deletes an object. `last` is its final state, or the stored one if the deletion was missed.
    ///
    /// # Errors
    ///
    /// The same errors as [`upsert`](Self::upsert).
    fn remove(&mut self, last: Arc<O>) -> Result<(), KeyError>;

    /// Replaces the content by a complete list.
    ///
    /// # Errors
    ///
    /// The same errors as [`upsert`](Self::upsert).
    fn replace(&mut self, objects: Vec<Arc<O>>, version: &ResourceVersion) -> Result<(), KeyError>;

    /// Returns the stored object with a key.
    fn stored(&self, key: &ObjectKey) -> Option<Arc<O>>;

    /// Records that the source has reached a version without a change. The default implementation does
    /// nothing.
    fn bookmark(&mut self, version: &ResourceVersion) {
        let _ = version;
    }
}

impl<O: Object> ReflectedStore<O> for Store<O> {
    fn upsert(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.add(object).map(drop)
    }

    fn remove(&mut self, last: Arc<O>) -> Result<(), KeyError> {
        self.delete(last).map(drop)
    }

    fn replace(&mut self, objects: Vec<Arc<O>>, version: &ResourceVersion) -> Result<(), KeyError> {
        Self::replace(self, objects, version.clone())
    }

    fn stored(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.get(key)
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        Self::bookmark(self, version.clone());
    }
}

impl<O: Object> ReflectedStore<O> for UndeltaStore<O> {
    fn upsert(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.add(object)
    }

    fn remove(&mut self, last: Arc<O>) -> Result<(), KeyError> {
        self.delete(last)
    }

    fn replace(&mut self, objects: Vec<Arc<O>>, version: &ResourceVersion) -> Result<(), KeyError> {
        Self::replace(self, objects, version.clone())
    }

    fn stored(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.get(key)
    }
}

impl<O: Object> ReflectedStore<O> for Arc<ExpirationCache<O>> {
    fn upsert(&mut self, object: Arc<O>) -> Result<(), KeyError> {
        self.add(object, now())
    }

    fn remove(&mut self, last: Arc<O>) -> Result<(), KeyError> {
        self.delete(&last)
    }

    fn replace(&mut self, objects: Vec<Arc<O>>, _: &ResourceVersion) -> Result<(), KeyError> {
        ExpirationCache::replace(self, objects, now())
    }

    fn stored(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.get(key, now())
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

impl<O: Object> Reflector<O> {
    /// Returns a reflector that reads `source` and writes directly to a store, without a queue and without
    /// events. Keep a handle of the store to read it: a clone of a [`Store`], or of the `Arc` of an
    /// [`ExpirationCache`]; the callback of an [`UndeltaStore`] receives its content.
    ///
    /// A list replaces the content of the store. Objects that cannot be decoded keep their last state.
    /// Resyncs have no effect.
    ///
    /// Upstream: [`NewReflector`](https://pkg.go.dev/k8s.io/client-go/tools/cache#NewReflector) with a `Store`.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use informer_cache::reflector::{Reflector, ReflectorConfig};
    /// use informer_cache::testing::{StaticSource, TestObject, object};
    /// use informer_store::{Store, StoreBuilder};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let store: Store<TestObject> = StoreBuilder::new().build();
    /// let source = StaticSource::new([object("default/web", "1")], "1");
    /// let reflector = Reflector::into_store(source, store.clone(), ReflectorConfig::named("things"));
    /// let (handle, stop) = (reflector.handle(), CancellationToken::new());
    /// let running = tokio::spawn({ let stop = stop.clone(); async move { reflector.run(stop).await } });
    /// handle.status_when(|status| status.synced).await;
    /// assert!(store.contains("default/web"));
    /// stop.cancel();
    /// let _ = running.await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_store(
        source: impl ListWatch<O>,
        store: impl ReflectedStore<O>,
        config: ReflectorConfig,
    ) -> Self {
        let feed = StoreFeed { store: Mutex::new(Some(store)), name: Arc::clone(&config.name) };
        Self::new(DynListWatch::new(source), Arc::new(feed), config)
    }
}

/// Writes the changes of a reflector to a store. Only the reflector writes, so the store is absent only while
/// it writes, or after a method of the store has panicked.
struct StoreFeed<S> {
    store: Mutex<Option<S>>,
    name: Arc<str>,
}

impl<O: Object, S: ReflectedStore<O>> ReflectorStore<O> for StoreFeed<S> {
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        let taken = self.store.lock().take();
        let mut store = taken.ok_or(QueueClosed)?;
        for change in changes {
            if let Err(error) = apply(&mut store, change) {
                tracing::warn!(reflector = &*self.name, %error, "an object without a key is not stored");
            }
        }
        *self.store.lock() = Some(store);
        Ok(())
    }
}

fn apply<O: Object>(store: &mut impl ReflectedStore<O>, change: Change<O>) -> Result<(), KeyError> {
    match change {
        Change::Added(object) | Change::Updated(object) => store.upsert(object),
        Change::Deleted(tombstone) => match last_state(store, tombstone) {
            Some(last) => store.remove(last),
            None => Ok(()),
        },
        Change::Replaced(replacement) => {
            let version = replacement.version.clone();
            let objects = listed(store, replacement);
            store.replace(objects, &version)
        }
        Change::Bookmark(version) => {
            store.bookmark(&version);
            Ok(())
        }
        Change::Resync | Change::Undecodable(_) => Ok(()),
    }
}

fn last_state<O: Object>(store: &impl ReflectedStore<O>, tombstone: Tombstone<O>) -> Option<Arc<O>> {
    tombstone.last().cloned().or_else(|| store.stored(tombstone.key()))
}

/// Returns the objects of a list, and the stored states of those that could not be decoded.
fn listed<O: Object>(store: &impl ReflectedStore<O>, replacement: Replacement<O>) -> Vec<Arc<O>> {
    let undecodable = replacement.undecodable.iter().filter_map(|undecodable| undecodable.key());
    let mut objects: HashMap<ObjectKey, Arc<O>> =
        undecodable.filter_map(|key| Some((key.clone(), store.stored(key)?))).collect();
    let items = replacement.items.into_iter().map(Listed::into_object);
    objects.extend(items.map(|object| (object.key().clone(), object)));
    objects.into_values().collect()
}
