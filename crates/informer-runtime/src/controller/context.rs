use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{DecodeError, Lazy, Representation, Typed};
use tokio_util::sync::CancellationToken;

use crate::{CacheInformer, Causes, Fetched, KubeObject, OwnedKey, ReadError, ResourceKind, Services};

/// The context of a reconcile: the [`Services`] of its manager, its id, and its cancellation.
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) shared: Arc<ControllerContext>,
    pub(super) id: ReconcileId,
    pub(super) owned_key: Option<Arc<OwnedKey>>,
    pub(super) causes: Option<Arc<Causes>>,
}

#[derive(Debug)]
pub(super) struct ControllerContext {
    pub(super) controller: Arc<str>,
    pub(super) services: Services,
    pub(super) cancel: CancellationToken,
}

#[cfg(feature = "testing")]
impl Context {
    /// Creates a context without a running controller, for [`TestContext`](crate::testing::TestContext).
    pub(crate) fn detached(controller: &str, services: Services) -> Self {
        let (controller, cancel) = (controller.into(), CancellationToken::new());
        let shared = Arc::new(ControllerContext { controller, services, cancel });
        Self { shared, id: ReconcileId { run: 0, number: 0 }, owned_key: None, causes: None }
    }

    /// Returns the context of another reconcile of the same controller.
    pub(crate) fn with_number(&self, number: u64) -> Self {
        let id = ReconcileId { number, ..self.id };
        Self { id, ..self.clone() }
    }
}

impl Context {
    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Returns the id of this reconcile, which is a field of its tracing span.
    pub fn reconcile_id(&self) -> ReconcileId {
        self.id
    }

    /// Returns the events that have enqueued this request, oldest first, for logs and debugging. The result is
    /// empty unless the controller [records causes](super::ControllerOptions::record_causes).
    ///
    /// A reconciler must not decide by them: they may be incomplete, and after a restart of the program every
    /// object is listed. A reconcile has no causes if an earlier one has already reported them, because an
    /// event arrived just as that one began.
    pub fn causes(&self) -> &Causes {
        static NONE: Causes = Causes::none();
        self.causes.as_deref().unwrap_or(&NONE)
    }

    /// Returns a token that is cancelled when the controller has stopped and its drain time
    /// ([`drain_within`](super::ControllerOptions::drain_within)) has elapsed. The reconcile then has some
    /// seconds to clean up before its future is dropped.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.cancel
    }
}

impl Context {
    /// Returns the key that this replica owns while the context exists, if the controller is
    /// [sharded](super::ControllerBuilder::sharded). `ctx.client` checks the key before each write. For other
    /// writes, call [`check`](OwnedKey::check) before each write, and send the returned fence (a fencing
    /// token) along if the target of the write can reject older tokens.
    pub fn owned_key(&self) -> Option<&OwnedKey> {
        self.owned_key.as_deref()
    }
}

/// The error of a method of [`Context`] that reads a watched object from the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The kind of the object is not in the cache, or its informer has not synced.
    #[error(
        "get {kind} {key}: the kind is not in the cache; let the controller watch it, or read it with `ctx.client.get`"
    )]
    NotWatched {
        /// The kind of the object that was to be read.
        kind: String,
        /// The key of the object that was to be read.
        key: String,
    },
    /// The read from the cache failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The object in the cache cannot be decoded as the requested type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl Context {
    /// Reads an object of a watched kind from the cache. Returns `None` if it does not exist.
    ///
    /// The returned object contains the program's own writes: like
    /// [`CachedClient::get`](crate::CachedClient::get), the read waits until the cache contains the writes to
    /// this object that have returned before. It waits at most for the
    /// [bound](crate::ClientBuilder::read_your_writes), usually for milliseconds, and not at all without such
    /// a write. It creates no informer, and sends no request unless the cache could not read all fields of
    /// the object. If the cache has several representations of the kind, the lazy one is preferred to the
    /// typed and the packed one.
    ///
    /// # Errors
    ///
    /// - [`LookupError::NotWatched`] if no informer of the cache has the kind in one of these
    ///   representations.
    /// - [`LookupError::Read`] for other errors, as in [`CachedClient::get`](crate::CachedClient::get): with
    ///   [`ReadError::Behind`] if the cache does not receive an own write within the bound.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because this method only waits.
    pub async fn get<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Fetched<K>>, LookupError> {
        let (kind, key) = (ResourceKind::of::<K>(), key.as_ref());
        for synced in [true, false] {
            if self.holds::<Lazy<K>>(&kind, synced) {
                return Ok(self.client.get_as::<K, Lazy<K>>(&kind, key, Fetched::of_lazy).await?);
            }
            if self.holds::<Typed<K>>(&kind, synced) {
                return Ok(self.client.get_as::<K, Typed<K>>(&kind, key, Fetched::of_typed).await?);
            }
            #[cfg(feature = "packed")]
            if self.holds::<Packed<K>>(&kind, synced) {
                return Ok(self.client.get_as::<K, Packed<K>>(&kind, key, Fetched::of_packed).await?);
            }
        }
        Err(LookupError::NotWatched { kind: kind.to_string(), key: key.to_owned() })
    }

    /// Reads an object of a watched kind from the cache without waiting. Returns `None` if the cache does not
    /// have it.
    ///
    /// The object may be older than this controller's own writes: an object that the controller has just
    /// created may be missing, and one that it has just changed may be returned in its old state.
    /// [`get`](Self::get) waits for own writes.
    ///
    /// # Errors
    ///
    /// - [`LookupError::NotWatched`] if no informer of the cache has the kind in one of these
    ///   representations, or it is not synced.
    /// - [`LookupError::Read`] if the namespace is not cached.
    /// - [`LookupError::Decode`] if the object cannot be decoded as the type.
    pub fn get_cached<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Fetched<K>>, LookupError> {
        let (kind, key) = (ResourceKind::of::<K>(), key.as_ref());
        if let Some(lazy) = self.synced::<Lazy<K>>(&kind) {
            return Ok(lazy.get(key)?.map(Fetched::of_lazy).transpose()?);
        }
        if let Some(typed) = self.synced::<Typed<K>>(&kind) {
            return Ok(typed.get(key)?.map(Fetched::of_typed).transpose()?);
        }
        #[cfg(feature = "packed")]
        if let Some(packed) = self.synced::<Packed<K>>(&kind) {
            return Ok(packed.get(key)?.map(Fetched::of_packed).transpose()?);
        }
        Err(LookupError::NotWatched { kind: kind.to_string(), key: key.to_owned() })
    }

    /// Returns true if the cache has an informer of the kind in this representation; if `synced` is true,
    /// only if that informer has synced.
    fn holds<O: Representation>(&self, kind: &ResourceKind, synced: bool) -> bool {
        self.cache.existing_informer::<O>(kind.gvk()).is_some_and(|informer| !synced || informer.has_synced())
    }

    fn synced<O: Representation>(&self, kind: &ResourceKind) -> Option<CacheInformer<O>> {
        self.cache.existing_informer::<O>(kind.gvk()).filter(CacheInformer::has_synced)
    }
}

impl Deref for Context {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.shared.services
    }
}

/// Identifies a reconcile by a random number for the run of the controller and a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReconcileId {
    pub(super) run: u64,
    pub(super) number: u64,
}

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.run, self.number)
    }
}

impl fmt::Debug for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
