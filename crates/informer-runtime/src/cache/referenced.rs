//! [`Referenced`] caches the metadata of all objects of a kind, and the bodies of those that the program
//! refers to. The body of an object is the complete object.
//!
//! # Invariants
//!
//! 1. The metadata is observed under the lock of `inner`, so that the state receives its states in order.
//! 2. One task per kind, the driver, sends all requests. It runs while the cache runs.
//!
//! # Lock order
//!
//! The lock of a [`ReferenceSet`] is taken before the lock of `inner`. No user code runs under them, and no
//! other lock is taken.
//!
//! # Shutdown
//!
//! The driver ends when the cache stops or the informer of the metadata is removed. Requests in flight are
//! cancelled, and later reads fail.

mod driver;
mod set;
mod state;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use informer_cache::handler::on_event;
use informer_cache::source::SourceError;
use informer_cache::{AddHandlerError, Event, HandlerOptions};
use informer_client::{KubeListWatch, Lazy, Metadata};
use informer_core::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::informer::ErasedInformer;
use super::options::Transform;
use super::{Cache, CacheInformer, CacheRegistration, InformerScope};
use crate::clock::now;
use crate::kind::scoped_key;
use crate::{KubeObject, ReadError, ResourceKind};
pub(super) use driver::ErasedBodies;
pub use set::ReferenceSet;
use state::{BodiesConfig, BodiesState, Observation, ReadProgress, Version};

/// The number of bodies that are requested at the same time.
pub const MAX_BODY_FETCHES: usize = 8;

/// The time for which the body of an object is held after its last read, if the object is not referenced.
pub const BODY_LEASE: Duration = Duration::from_secs(600);

/// The maximum number of bodies that are held because of reads. References are not limited.
pub const MAX_BODY_LEASES: usize = 1024;

/// The first and the longest wait after a failed request for a body, without jitter. The jitter adds at most
/// the same time again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// Caches the metadata of all objects of a kind, and the bodies of those that the program refers to. The body
/// of an object is the complete object. [`Cache::referenced`] returns this cache.
///
/// Use it for kinds with many objects of which the program needs few, such as Secrets and ConfigMaps: the
/// memory is that of the [metadata](Cache::metadata), and of the bodies in use.
///
/// This type is a cheap handle; clones share the bodies.
///
/// # Contract
///
/// - *Which bodies are held.* The body of an object is held while it is referenced, by a [`BodyReference`] or
///   a [`ReferenceSet`]. A read of another object holds its body for [`BODY_LEASE`] after the last read; at
///   most [`MAX_BODY_LEASES`] bodies are held for this reason.
/// - *Requests.* A body is requested when it is first referenced or read. When the metadata shows another
///   version, the body of a referenced object is requested immediately, and any other at its next read. At
///   most [`MAX_BODY_FETCHES`] requests are in flight, those that a read waits for first, and at most one for
///   each object. An object that the metadata does not contain is never requested.
/// - *Staleness.* [`get`](Self::get) returns a state of the object that is not older than the metadata in the
///   cache when the read began. A [`CachedClient`](crate::CachedClient) also waits for the program's own
///   writes, as for other kinds: see [`CacheBuilder::referenced`](super::CacheBuilder::referenced). After a
///   restore of the server from a backup, all bodies are requested again.
/// - *Deletion.* The body is dropped when the metadata shows the deletion. A body of a deleted object is
///   never returned for an object that was re-created with the same name.
/// - *Failures.* A failed request fails the reads that wait for it. It is repeated with growing waits from
///   0.8 s to 30 s; reads in between fail with the last error. [`held`](Self::held) still returns the last
///   body.
/// - *Events.* Changes of referenced objects are events of [`metadata`](Self::metadata). A controller watches
///   the metadata and maps an object to those that refer to it with [`ReferenceSet::owners`].
/// - *Options.* The selectors, namespaces, the prefilter and the filter of [`Metadata`] decide which objects
///   exist. The other [`ReadOptions`](informer_client::ReadOptions) and the transform of [`Lazy`] apply to
///   bodies.
/// - *Permissions.* The program needs `list` and `watch` on the kind for the metadata, and `get` for the
///   bodies.
///
/// ```no_run
/// # async fn example(cache: informer_runtime::Cache) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Secret;
///
/// let secrets = cache.referenced::<Secret>()?;
/// let credentials = secrets.reference(&"default/db-credentials".parse()?);
/// if let Some(secret) = credentials.get().await? {
///     println!("{} keys", secret.get()?.data.as_ref().map_or(0, |data| data.len()));
/// }
/// # Ok(()) }
/// ```
pub struct Referenced<K: KubeObject> {
    cache: Cache,
    bodies: Arc<Bodies<K>>,
}

/// A count of the bodies of a kind and of the reasons for which they are held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferencedState {
    /// The number of objects with at least one reference. Objects that do not exist are included.
    pub referenced: usize,
    /// The number of objects that are held because they were read recently.
    pub leased: usize,
    /// The number of bodies in memory.
    pub bodies: usize,
    /// The size of these bodies in bytes.
    pub body_bytes: usize,
    /// The number of requests in flight.
    pub in_flight: usize,
    /// The number of objects whose last request failed or found no object. They are requested again later.
    pub failing: usize,
}

type State<K> = BodiesState<Arc<Lazy<K>>, Arc<SourceError>>;

pub(super) struct Bodies<K: KubeObject> {
    kind: ResourceKind,
    metadata: CacheInformer<Metadata<K>>,
    sources: Vec<BodySource<K>>,
    inner: Mutex<BodiesInner<K>>,
    /// The registration of the handler that observes the metadata.
    registration: OnceLock<CacheRegistration<Metadata<K>>>,
    /// Notified when a request may have to be sent or a deadline may have changed.
    work: Notify,
}

/// The source of the bodies in one scope of the kind, and the transform that is applied to them.
pub(super) struct BodySource<K> {
    pub(super) scope: InformerScope,
    pub(super) source: KubeListWatch<Lazy<K>>,
    pub(super) transform: Option<Arc<Transform<Lazy<K>>>>,
}

struct BodiesInner<K> {
    state: State<K>,
    /// The number of reads that wait for each object, and the signal that wakes them.
    readers: HashMap<ObjectKey, (usize, Arc<Notify>)>,
}

impl<K: KubeObject> Referenced<K> {
    pub(super) fn new(cache: Cache, bodies: Arc<Bodies<K>>) -> Self {
        Self { cache, bodies }
    }

    /// Returns the informer of the metadata of all objects.
    pub fn metadata(&self) -> &CacheInformer<Metadata<K>> {
        &self.bodies.metadata
    }

    /// Adds a reference to an object. Its body is requested in the background, and held and kept current
    /// until the returned guard is dropped. The object need not exist.
    pub fn reference(&self, key: &ObjectKey) -> BodyReference<K> {
        let key = self.bodies.scoped(key);
        self.bodies.add_reference(&key);
        BodyReference { key, referenced: self.clone() }
    }

    /// Returns an empty set of references, for a controller whose objects refer to objects of this kind.
    pub fn references(&self) -> ReferenceSet<K> {
        ReferenceSet::new(Arc::clone(&self.bodies))
    }

    /// Returns one object; `None` if it does not exist. Waits until the metadata has synced and the body is
    /// current, at most for the [read timeout](super::CacheBuilder::read_timeout) of the cache.
    ///
    /// # Errors
    ///
    /// Returns an error if the cache is not started or was stopped, the informer of the metadata does not
    /// sync or was removed, the namespace is not cached, or the body cannot be fetched.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only ends the wait. A request in flight continues.
    pub async fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        self.cache.synced(&self.bodies.metadata).await?;
        // No object has an invalid key.
        let Ok(key) = ObjectKey::try_from(scoped_key(&self.bodies.kind, key.as_ref())) else {
            return Ok(None);
        };
        self.bodies.metadata.informer_for(key.namespace())?;
        self.bodies.read(&key, self.cache.shared.read_timeout).await
    }

    /// Returns the body that is in memory, without waiting. It may be older than the metadata. `None` if no
    /// body is held, or if it belongs to a deleted object with the same name.
    pub fn held(&self, key: &(impl AsRef<str> + ?Sized)) -> Option<Arc<Lazy<K>>> {
        self.bodies.inner.lock().state.held(scoped_key(&self.bodies.kind, key.as_ref()))
    }

    /// Returns how many bodies are held, and why.
    pub fn state(&self) -> ReferencedState {
        self.bodies.state()
    }
}

/// A reference to an object, which keeps its body in memory and current until it is dropped.
/// [`Referenced::reference`] returns it.
#[must_use = "dropping the reference releases the body"]
pub struct BodyReference<K: KubeObject> {
    key: ObjectKey,
    referenced: Referenced<K>,
}

impl<K: KubeObject> BodyReference<K> {
    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the object, as [`Referenced::get`] does.
    ///
    /// # Errors
    ///
    /// The same errors as [`Referenced::get`].
    pub async fn get(&self) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        self.referenced.get(&self.key).await
    }

    /// Returns the body that is in memory, as [`Referenced::held`] does.
    pub fn held(&self) -> Option<Arc<Lazy<K>>> {
        self.referenced.held(&self.key)
    }
}

impl<K: KubeObject> Drop for BodyReference<K> {
    fn drop(&mut self) {
        self.referenced.bodies.remove_reference(&self.key);
    }
}

impl<K: KubeObject> Bodies<K> {
    pub(super) fn new(
        kind: ResourceKind,
        metadata: CacheInformer<Metadata<K>>,
        sources: Vec<BodySource<K>>,
    ) -> Arc<Self> {
        let config = BodiesConfig {
            max_fetches: MAX_BODY_FETCHES,
            lease: BODY_LEASE,
            max_leases: MAX_BODY_LEASES,
            backoff: BACKOFF,
        };
        let inner = BodiesInner { state: BodiesState::new(config), readers: HashMap::new() };
        let (inner, registration, work) = (Mutex::new(inner), OnceLock::new(), Notify::new());
        Arc::new(Self { kind, metadata, sources, inner, registration, work })
    }

    /// Adds the handler that observes the metadata.
    pub(super) fn follow(self: &Arc<Self>) -> Result<(), AddHandlerError> {
        let bodies = Arc::downgrade(self);
        // Events are not merged: the buffer for merging remembers the key of each object, and this handler is
        // fast enough to keep an ordinary buffer empty.
        let options = HandlerOptions::for_work_queue().name("referenced bodies").resync(Duration::ZERO);
        let handler = on_event(move |event: Event<Metadata<K>>| {
            if let Some(bodies) = Weak::upgrade(&bodies) {
                bodies.observe(event.key());
            }
        });
        let registration = self.metadata.add_handler_with(options, handler)?;
        if let Err(second) = self.registration.set(registration) {
            second.remove();
        }
        Ok(())
    }

    pub(super) fn is_removed(&self) -> bool {
        self.metadata.is_removed()
    }

    /// Returns the state of an object in the metadata cache. The store is read before the count of rewinds,
    /// because an informer that follows a restored server changes its store first.
    fn observation(&self, key: &ObjectKey) -> Observation {
        let held = self.metadata.get(key).ok().flatten();
        let seen = held
            .map(|object| Version { uid: object.uid().into(), version: object.resource_version().clone() });
        Observation { seen, epoch: self.metadata_epoch() }
    }

    /// Returns how often the metadata cache has followed a restored server.
    fn metadata_epoch(&self) -> u64 {
        ErasedInformer::rewinds(&self.metadata)
    }

    /// Removes the namespace from a key of a cluster-scoped kind.
    fn scoped(&self, key: &ObjectKey) -> ObjectKey {
        ObjectKey::try_from(scoped_key(&self.kind, key.as_str())).unwrap_or_else(|_| key.clone())
    }

    fn observe(&self, key: &ObjectKey) {
        let mut inner = self.inner.lock();
        if inner.state.contains(key.as_str()) {
            inner.state.observe(key, self.observation(key));
            inner.wake(key);
            self.work.notify_one();
        }
    }

    fn add_reference(&self, key: &ObjectKey) {
        let mut inner = self.inner.lock();
        let observation = self.observation(key);
        inner.state.add_reference(key, observation);
        inner.wake(key);
        self.work.notify_one();
    }

    fn remove_reference(&self, key: &ObjectKey) {
        self.inner.lock().state.remove_reference(key);
        self.work.notify_one();
    }

    async fn read(&self, key: &ObjectKey, timeout: Duration) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        let reading = Reading::begin(self, key);
        let done = async {
            loop {
                let changed = reading.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                match reading.progress() {
                    ReadProgress::Pending => changed.await,
                    ReadProgress::Done(body) => return Ok(body),
                    ReadProgress::Failed(cause, until) => {
                        let retry_in = until.saturating_duration_since(now());
                        return Err(self.failed(key, cause, retry_in));
                    }
                }
            }
        };
        tokio::select! {
            biased;
            read = done => read,
            () = self.metadata.removed() => Err(ReadError::Removed { kind: self.kind.to_string() }),
            () = tokio::time::sleep(timeout) => Err(ReadError::BodyTimeout {
                kind: self.kind.to_string(),
                key: key.to_string(),
                waited: timeout,
            }),
        }
    }

    fn failed(&self, key: &ObjectKey, cause: Arc<SourceError>, retry_in: Duration) -> ReadError {
        ReadError::Body { kind: self.kind.to_string(), key: key.to_string(), retry_in, cause }
    }

    fn state(&self) -> ReferencedState {
        let inner = self.inner.lock();
        let counts = inner.state.counts();
        ReferencedState {
            referenced: counts.referenced,
            leased: counts.leased,
            bodies: counts.bodies,
            body_bytes: inner.state.bodies().map(|body| body.held_bytes()).sum(),
            in_flight: counts.in_flight,
            failing: counts.failing,
        }
    }
}

impl<K> BodiesInner<K> {
    fn wake(&self, key: &ObjectKey) {
        if let Some((_, changed)) = self.readers.get(key) {
            changed.notify_waiters();
        }
    }
}

/// A read in progress. Dropping it ends the read.
struct Reading<'a, K: KubeObject> {
    bodies: &'a Bodies<K>,
    key: &'a ObjectKey,
    wanted: u64,
    changed: Arc<Notify>,
}

impl<'a, K: KubeObject> Reading<'a, K> {
    fn begin(bodies: &'a Bodies<K>, key: &'a ObjectKey) -> Self {
        let mut inner = bodies.inner.lock();
        let observation = bodies.observation(key);
        let wanted = inner.state.begin_read(key, observation, now());
        let (readers, changed) = inner.readers.entry(key.clone()).or_default();
        *readers += 1;
        let changed = Arc::clone(changed);
        // The observation may have shown a change for which other reads wait.
        changed.notify_waiters();
        drop(inner);
        bodies.work.notify_one();
        Self { bodies, key, wanted, changed }
    }

    fn progress(&self) -> ReadProgress<Arc<Lazy<K>>, Arc<SourceError>> {
        self.bodies.inner.lock().state.poll_read(self.key, self.wanted)
    }
}

impl<K: KubeObject> Drop for Reading<'_, K> {
    fn drop(&mut self) {
        let mut inner = self.bodies.inner.lock();
        inner.state.end_read(self.key);
        if let Some((readers, _)) = inner.readers.get_mut(self.key) {
            *readers -= 1;
            if *readers == 0 {
                inner.readers.remove(self.key);
            }
        }
        drop(inner);
        self.bodies.work.notify_one();
    }
}

impl<K: KubeObject> Clone for Referenced<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), bodies: Arc::clone(&self.bodies) }
    }
}

impl<K: KubeObject> fmt::Debug for Referenced<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Referenced")
            .field("kind", &self.bodies.kind)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl<K: KubeObject> fmt::Debug for BodyReference<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BodyReference").field(&self.key).finish()
    }
}
