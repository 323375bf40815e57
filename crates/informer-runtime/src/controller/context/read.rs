//! Reads of watched kinds from the cache, in whichever representation the cache has them.

#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{DecodeError, Lazy, Metadata, Representation, Typed};

use super::Context;
use crate::{CacheInformer, Fetched, KubeObject, ListOptions, Owner, ReadError, ResourceKind};

/// The error of a method of [`Context`] that reads watched objects from the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The kind of the objects is not in the cache, or its informer has not synced.
    #[error(
        "{attempt}: the kind is not in the cache; let the controller watch it, or read it with `ctx.client`"
    )]
    NotWatched {
        /// A description of the failed operation for the message, for example `get Pod.v1 default/web-0`.
        attempt: String,
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// The owner whose objects were to be listed has no uid, so it was not read from the server and owns
    /// nothing.
    #[error("{attempt}: the owner has no uid; create it first, or pass the object that was read")]
    OwnerNotStored {
        /// A description of the failed operation for the message, for example `list Pod.v1 of Website
        /// default/web`.
        attempt: String,
    },
    /// The read from the cache failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The object in the cache cannot be decoded as the requested type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The representation in which the cache has a kind, in order of preference.
#[derive(Clone, Copy)]
enum Held {
    Lazy,
    Typed,
    #[cfg(feature = "packed")]
    Packed,
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
        let (kind, key, client) = (ResourceKind::of::<K>(), key.as_ref(), &self.client);
        if self.cache.is_referenced(kind.gvk()) && self.holds::<Metadata<K>>(&kind, false) {
            return Ok(client.get_referenced(&kind, key).await?);
        }
        let read = match self.held::<K>(&kind, || format!("get {kind} {key}"))? {
            Held::Lazy => client.get_as::<K, Lazy<K>>(&kind, key, Fetched::of_lazy).await,
            Held::Typed => client.get_as::<K, Typed<K>>(&kind, key, Fetched::of_typed).await,
            #[cfg(feature = "packed")]
            Held::Packed => client.get_as::<K, Packed<K>>(&kind, key, Fetched::of_packed).await,
        };
        Ok(read?)
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
        Err(LookupError::NotWatched { attempt: format!("get {kind} {key}"), kind: kind.to_string() })
    }

    /// Lists the selected objects of a watched kind from the cache, decoded and unordered.
    ///
    /// The list contains the program's own writes: like [`CachedClient::list`](crate::CachedClient::list), it
    /// waits until the cache contains the writes in the namespace of the list, or of the kind without a
    /// namespace, that have returned before. The wait, the choice of the representation and the requests are
    /// those of [`get`](Self::get). All selected objects are decoded. To list many and decode few of them,
    /// use [`CachedClient::list`](crate::CachedClient::list), which returns lazy objects.
    ///
    /// ```
    /// # use informer_runtime::{Context, ListOptions, Outcome, ReconcileError, Request};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    /// let in_namespace = ListOptions::default().namespace(request.namespace().unwrap_or_default());
    /// let maps = ctx.list::<ConfigMap>(&in_namespace.labels("app=web".parse()?)).await?;
    /// let entries: usize = maps.iter().flat_map(|map| &map.data).map(|data| data.len()).sum();
    /// println!("{entries} entries");
    /// # Ok(Outcome::Done) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`get`](Self::get). An object that cannot be decoded as the type fails the whole list.
    /// - [`LookupError::Read`] also for the errors of [`Cache::list`](crate::Cache::list): a selected field
    ///   without an index, or a field selector with an operator other than equality.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because this method only waits.
    pub async fn list<K: KubeObject>(&self, options: &ListOptions) -> Result<Vec<Fetched<K>>, LookupError> {
        let (kind, client) = (ResourceKind::of::<K>(), &self.client);
        let read = match self.held::<K>(&kind, || format!("list {kind}"))? {
            Held::Lazy => client.list_as::<K, Lazy<K>>(&kind, options, Fetched::of_lazy).await,
            Held::Typed => client.list_as::<K, Typed<K>>(&kind, options, Fetched::of_typed).await,
            #[cfg(feature = "packed")]
            Held::Packed => client.list_as::<K, Packed<K>>(&kind, options, Fetched::of_packed).await,
        };
        Ok(read?)
    }

    /// Lists the objects of a watched kind whose controller is `owner`, from the cache, decoded and
    /// unordered.
    ///
    /// An object is returned if its owner reference with `controller: true` has the uid of `owner`. Objects
    /// of an earlier owner of the same name are not returned, and neither are objects that have `owner` only
    /// as a further owner. Objects are searched in the namespace of `owner`; those of a cluster-scoped owner
    /// in all cached namespaces.
    ///
    /// The list contains the program's own writes, as in [`list`](Self::list): a child that the controller
    /// has just created is in it. The first call adds an index by the uid of the controller to the informer
    /// of the kind, so that later calls read only the returned objects.
    ///
    /// ```
    /// # use informer_runtime::{Context, Outcome, ReconcileError, Request};
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(request: Request, ctx: Context) -> Result<Outcome, ReconcileError> {
    /// let Some(web) = ctx.get::<Deployment>(&request.key).await? else { return Ok(Outcome::Done) };
    /// for map in ctx.owned::<ConfigMap>(&web).await?.iter().skip(1) {
    ///     // There is more than one child; delete the others.
    ///     if let Some(key) = map.key() {
    ///         ctx.client.delete::<ConfigMap>(&key).await?;
    ///     }
    /// }
    /// # Ok(Outcome::Done) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`get`](Self::get). An object that cannot be decoded as the type fails the whole list.
    /// - [`LookupError::OwnerNotStored`] if `owner` has no uid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on objects, because this method only waits.
    pub async fn owned<K: KubeObject>(
        &self,
        owner: impl Into<Owner>,
    ) -> Result<Vec<Fetched<K>>, LookupError> {
        let (kind, owner, client) = (ResourceKind::of::<K>(), owner.into(), &self.client);
        let attempt = || format!("list {kind} of {owner}");
        let held = self.held::<K>(&kind, attempt)?;
        let uid = owner.uid().ok_or_else(|| LookupError::OwnerNotStored { attempt: attempt() })?;
        let of = (uid, owner.namespace());
        let read = match held {
            Held::Lazy => client.owned_as::<K, Lazy<K>>(&kind, of, Fetched::of_lazy).await,
            Held::Typed => client.owned_as::<K, Typed<K>>(&kind, of, Fetched::of_typed).await,
            #[cfg(feature = "packed")]
            Held::Packed => client.owned_as::<K, Packed<K>>(&kind, of, Fetched::of_packed).await,
        };
        Ok(read?)
    }

    /// Returns the representation in which the kind is read. Synced informers are preferred; a read of
    /// another one waits until it has synced. Returns an error with the description `attempt` if the cache
    /// has no informer of the kind.
    fn held<K: KubeObject>(
        &self,
        kind: &ResourceKind,
        attempt: impl FnOnce() -> String,
    ) -> Result<Held, LookupError> {
        for synced in [true, false] {
            if self.holds::<Lazy<K>>(kind, synced) {
                return Ok(Held::Lazy);
            }
            if self.holds::<Typed<K>>(kind, synced) {
                return Ok(Held::Typed);
            }
            #[cfg(feature = "packed")]
            if self.holds::<Packed<K>>(kind, synced) {
                return Ok(Held::Packed);
            }
        }
        Err(LookupError::NotWatched { attempt: attempt(), kind: kind.to_string() })
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
