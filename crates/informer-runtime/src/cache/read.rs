//! Reads of a cache: get or create the informer of a kind, wait until it has synced, and read its store.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::source::VersionMatch;
use informer_client::{Lazy, Representation};
use informer_core::{
    FieldOperator, FieldPath, FieldSelector, Gvk, LabelSelector, Object, ObjectKey, ResourceVersion,
};
use informer_store::{AddIndexersError, IndexFn, Snapshot};

use super::{Cache, CacheInformer, MissingInformer};
use crate::ReadError;
use crate::{KubeObject, ResourceKind};

/// The options of a list: its namespace, selectors and limit. By default all objects are selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
    pub(crate) version: Option<(ResourceVersion, VersionMatch)>,
    pub(crate) timeout: Option<Duration>,
}

impl ListOptions {
    /// Restricts the list to one namespace; an empty name means all namespaces. This option is ignored for
    /// cluster-scoped kinds.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Restricts the list to objects that match a label selector.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Restricts the list to objects that match a field selector. A cache supports only equality, of
    /// `metadata.name`, `metadata.namespace` and [indexed](Cache::index_field) fields; a live read supports
    /// the server's selectable fields of the kind.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = selector;
        self
    }

    /// Limits the list to `limit` of the selected objects. It is unspecified which of them are returned.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Accepts a state that is not older than this resourceVersion, which the server may return from its
    /// cache; [`ResourceVersion::any`] accepts any state. By default a live read returns the newest state.
    /// This option is ignored for reads from a cache.
    pub fn not_older_than(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = Some((version.into(), VersionMatch::NotOlderThan));
        self
    }

    /// Requests the state at exactly this resourceVersion. The server rejects it with 410 if it does not have
    /// that version any more. This option is ignored for reads from a cache.
    pub fn exactly(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = Some((version.into(), VersionMatch::Exact));
        self
    }

    /// Sets the time after which the server ends a live list (`timeoutSeconds`), in whole seconds and at
    /// least one. This option is ignored for reads from a cache.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.version, Some((_, VersionMatch::Exact)))
    }

    /// Returns these options without a resourceVersion, so that the server returns the newest state.
    pub(crate) fn newest(mut self) -> Self {
        self.version = None;
        self
    }
}

/// Returns the name under which a store keeps the index of a field. The prefix `field:` keeps it distinct
/// from the names of indexes that the program adds itself.
fn index_name(field: &str) -> String {
    format!("field:{field}")
}

/// Returns the name of a representation for error messages: the last segment of its type name, for example
/// `Lazy`.
pub(super) fn representation_name<O>() -> &'static str {
    let whole = std::any::type_name::<O>();
    let representation = whole.split('<').next().unwrap_or(whole);
    representation.rsplit("::").next().unwrap_or(representation)
}

impl Cache {
    /// Returns one object in the lazy representation; `None` if it is not in the cache. A namespace in the
    /// key of a cluster-scoped kind is ignored.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`ready`](Self::ready), and an error if the namespace is not cached.
    pub async fn get<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        self.get_of(ResourceKind::of::<K>(), key).await
    }

    /// Returns one object of any kind and representation, as [`get`](Self::get) does.
    ///
    /// # Errors
    ///
    /// The same errors as [`get`](Self::get).
    pub async fn get_of<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<O>>, ReadError> {
        self.ready(kind).await?.get(key)
    }

    /// Returns the selected objects in the lazy representation, unordered.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`get`](Self::get), and an error if a selected field has no index or the
    /// selector contains an operator other than equality.
    pub async fn list<K: KubeObject>(&self, options: &ListOptions) -> Result<Vec<Arc<Lazy<K>>>, ReadError> {
        self.list_of(ResourceKind::of::<K>(), options).await
    }

    /// Returns the selected objects of any kind and representation, as [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// The same errors as [`list`](Self::list).
    pub async fn list_of<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
        options: &ListOptions,
    ) -> Result<Vec<Arc<O>>, ReadError> {
        self.ready::<O>(kind).await?.select(options)
    }

    /// Returns the synced informer of a kind and representation. If it does not exist, it is created, unless
    /// the cache is configured to refuse that.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is pinned to another representation; if there is no informer and reads
    /// create none; if the cache is not started or was stopped; if the informer is removed meanwhile; and if
    /// it has not synced within the cache's read timeout. The last error contains the informer's activity and
    /// last error.
    ///
    /// # Cancel safety
    ///
    /// The informer is created when the future is first polled; dropping the future after that only ends the
    /// wait.
    pub async fn ready<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
    ) -> Result<CacheInformer<O>, ReadError> {
        let kind = kind.into();
        self.check_representation::<O>(&kind)?;
        let informer = match (self.existing_informer::<O>(kind.gvk()), self.shared.missing) {
            (Some(held), _) => held,
            (None, MissingInformer::Refuse) => return Err(ReadError::NotCached { kind: kind.to_string() }),
            (None, MissingInformer::Start) => self.begin(&kind)?,
        };
        self.synced(&informer).await?;
        Ok(informer)
    }

    /// Waits until an informer of this cache has synced, at most for the read timeout.
    pub(super) async fn synced<O: Object>(&self, informer: &CacheInformer<O>) -> Result<(), ReadError> {
        let kind = || informer.kind().to_string();
        if !informer.is_served() {
            return Err(ReadError::NotServed { kind: kind() });
        }
        if informer.has_synced() {
            return Ok(());
        }
        if !self.is_started() {
            return Err(ReadError::NotStarted { kind: kind() });
        }
        tokio::select! {
            biased;
            synced = informer.wait_for_sync(self.shared.read_timeout) => {
                synced.map_err(|cause| ReadError::NotSynced { kind: kind(), cause })
            }
            () = informer.removed() => Err(ReadError::Removed { kind: kind() }),
            () = informer.unserved() => Err(ReadError::NotServed { kind: kind() }),
        }
    }

    /// Returns whether clients read complete objects of the kind by [`referenced`](Self::referenced).
    pub(crate) fn is_referenced(&self, gvk: &Gvk) -> bool {
        self.shared.referenced.contains(gvk)
    }

    fn begin<O: Representation>(&self, kind: &ResourceKind) -> Result<CacheInformer<O>, ReadError> {
        if self.shared.table.lock().is_stopped() {
            return Err(ReadError::Stopped { kind: kind.to_string() });
        }
        tracing::info!(%kind, representation = representation_name::<O>(), "a read starts an informer of the whole kind");
        Ok(self.informer_of(kind))
    }

    pub(crate) fn check_representation<O: Representation>(
        &self,
        kind: &ResourceKind,
    ) -> Result<(), ReadError> {
        match self.shared.pinned.get(kind.gvk()) {
            Some((representation, pinned)) if *representation != TypeId::of::<O>() => {
                Err(ReadError::OtherRepresentation {
                    kind: kind.to_string(),
                    requested: representation_name::<O>(),
                    pinned,
                })
            }
            _ => Ok(()),
        }
    }

    /// Indexes a field of `K`, so that lists can select by this field. `field` is its name in selectors. The
    /// function returns the values of an object; a selector matches if one of these values equals the value
    /// in the selector.
    ///
    /// This method creates the informer of the kind in the lazy representation, if it does not exist, and
    /// does not wait for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the field is already indexed.
    pub fn index_field<K: KubeObject>(
        &self,
        field: &str,
        function: impl IndexFn<Lazy<K>>,
    ) -> Result<(), AddIndexersError> {
        self.index_field_of(ResourceKind::of::<K>(), field, function)
    }

    /// Indexes a field of any kind and representation, as [`index_field`](Self::index_field) does.
    ///
    /// # Errors
    ///
    /// The same errors as [`index_field`](Self::index_field).
    pub fn index_field_of<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
        field: &str,
        function: impl IndexFn<O>,
    ) -> Result<(), AddIndexersError> {
        self.informer_of::<O>(kind).add_index(index_name(field), function)
    }
}

impl<O: Object> CacheInformer<O> {
    /// Returns the cached objects that the options select, unordered.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace is not cached, or if a selected field has no index or the selector
    /// contains an operator other than equality.
    pub fn select(&self, options: &ListOptions) -> Result<Vec<Arc<O>>, ReadError> {
        self.check_exact(&options.fields)?;
        let namespaced = options.namespace.as_deref().filter(|_| !self.kind().is_cluster_scoped());
        let mut selected = Vec::new();
        match namespaced {
            Some(namespace) => {
                let part = self.informer_for(Some(namespace))?;
                selected = self.select_from(&part.snapshot(), Some(namespace), options)?;
            }
            None => {
                for part in self.scoped_informers() {
                    selected.extend(self.select_from(&part.informer.snapshot(), None, options)?);
                }
            }
        }
        selected.truncate(options.limit.unwrap_or(usize::MAX));
        Ok(selected)
    }

    fn check_exact(&self, fields: &FieldSelector) -> Result<(), ReadError> {
        let inexact =
            |requirement: &&informer_core::FieldRequirement| requirement.operator() != FieldOperator::Equals;
        match fields.requirements().iter().find(inexact) {
            Some(requirement) => {
                Err(ReadError::NotExact { kind: self.name(), requirement: requirement.to_string() })
            }
            None => Ok(()),
        }
    }

    /// Returns the objects of one informer that match the namespace and the options, in a snapshot of its
    /// store.
    fn select_from(
        &self,
        snapshot: &Snapshot<O>,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Vec<Arc<O>>, ReadError> {
        let mut own = Vec::new();
        let mut sets: Vec<HashSet<ObjectKey>> = Vec::new();
        for requirement in options.fields.requirements() {
            match requirement.field().parse::<FieldPath>() {
                Ok(path) if ["metadata.name", "metadata.namespace"].contains(&requirement.field()) => {
                    own.push((path, requirement.value()));
                }
                _ => sets.push(self.indexed(snapshot, requirement)?),
            }
        }
        sets.sort_by_key(HashSet::len);
        let candidates = match sets.split_first() {
            Some((fewest, _)) => fewest.iter().filter_map(|key| snapshot.get(key).cloned()).collect(),
            None => snapshot.select(namespace, &options.labels),
        };
        let chosen = |object: &Arc<O>| {
            let key = object.key();
            namespace.is_none_or(|namespace| key.namespace() == Some(namespace))
                && options.labels.matches(object.labels())
                && sets.iter().all(|set| set.contains(key))
                && own.iter().all(|(path, value)| object.header().field(path).as_deref() == Some(*value))
        };
        Ok(candidates.into_iter().filter(chosen).collect())
    }

    fn indexed(
        &self,
        snapshot: &Snapshot<O>,
        requirement: &informer_core::FieldRequirement,
    ) -> Result<HashSet<ObjectKey>, ReadError> {
        let keys = snapshot.index_keys(&index_name(requirement.field()), requirement.value());
        let keys = keys
            .map_err(|_| ReadError::NoIndex { kind: self.name(), field: requirement.field().to_owned() })?;
        Ok(keys.into_iter().collect())
    }
}
