//! Reads: the informer of a kind, found or made and waited for, and what it has.

use std::any::TypeId;
use std::collections::HashSet;
use std::sync::Arc;

use informer_client::{Lazy, Representation};
use informer_core::{FieldOperator, FieldPath, FieldSelector, LabelSelector, Object, ObjectKey};
use informer_store::{AddIndexersError, IndexFn, Snapshot};

use super::{Cache, CacheInformer, MissingInformer, ReadError};
use crate::{KubeKind, ScopedKind};

/// Which objects a list answers. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: Option<usize>,
}

impl ListOptions {
    /// Only those of one namespace; an empty one means all. It says nothing about kinds without namespaces.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Only those with these labels.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Only those with these fields. A cache answers equality alone, of `metadata.name`, `metadata.namespace` and of fields that
    /// were [indexed](Cache::index_field); a server answers what it knows of the kind.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = selector;
        self
    }

    /// At most so many, of those that are selected. Which of them is not said.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// The name of the index of a field, apart from the names that users give their own.
fn index_name(field: &str) -> String {
    format!("field:{field}")
}

/// The last part of the name of a form, for errors.
pub(super) fn form_name<O>() -> &'static str {
    let whole = std::any::type_name::<O>();
    let form = whole.split('<').next().unwrap_or(whole);
    form.rsplit("::").next().unwrap_or(form)
}

impl Cache {
    /// One object of the lazy form; `None` where the cache does not have it. A key of a kind without namespaces may have one,
    /// which is ignored.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready), and when the namespace is not cached.
    pub async fn get<K: KubeKind>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<Lazy<K>>>, ReadError> {
        self.get_of(ScopedKind::of::<K>(), key).await
    }

    /// As [`get`](Self::get), of any kind and form.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn get_of<O: Representation>(
        &self,
        kind: impl Into<ScopedKind>,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Arc<O>>, ReadError> {
        self.ready(kind).await?.get(key)
    }

    /// The objects that are selected, in the lazy form and in no particular order.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and when a field is selected that has no index, or by something else than equality.
    pub async fn list<K: KubeKind>(&self, options: &ListOptions) -> Result<Vec<Arc<Lazy<K>>>, ReadError> {
        self.list_of(ScopedKind::of::<K>(), options).await
    }

    /// As [`list`](Self::list), of any kind and form.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_of<O: Representation>(
        &self,
        kind: impl Into<ScopedKind>,
        options: &ListOptions,
    ) -> Result<Vec<Arc<O>>, ReadError> {
        self.ready::<O>(kind).await?.select(options)
    }

    /// The synced informer of a kind and form: the one that is there, or a new one, as the cache is configured.
    ///
    /// # Errors
    ///
    /// When the kind is held in another form alone; when there is no informer and reads make none; when the cache is not
    /// started or was stopped; when the informer is removed meanwhile; and when it is not synced within the time that the
    /// cache gives reads, with what it is doing and its last error.
    ///
    /// # Cancel safety
    ///
    /// The informer is made when the future is first polled; dropping it after that only ends the wait.
    pub async fn ready<O: Representation>(
        &self,
        kind: impl Into<ScopedKind>,
    ) -> Result<CacheInformer<O>, ReadError> {
        let kind = kind.into();
        self.check_form::<O>(&kind)?;
        let informer = match (self.held::<O>(kind.gvk()), self.shared.missing) {
            (Some(held), _) => held,
            (None, MissingInformer::Refuse) => return Err(ReadError::NotCached { kind: kind.to_string() }),
            (None, MissingInformer::Start) => self.begin(&kind)?,
        };
        if informer.has_synced() {
            return Ok(informer);
        }
        if !self.is_started() {
            return Err(ReadError::NotStarted { kind: kind.to_string() });
        }
        tokio::select! {
            biased;
            synced = informer.wait_for_sync(self.shared.read_timeout) => match synced {
                Ok(()) => Ok(informer),
                Err(cause) => Err(ReadError::NotSynced { kind: kind.to_string(), cause }),
            },
            () = informer.removed() => Err(ReadError::Removed { kind: kind.to_string() }),
        }
    }

    /// The informer of a kind that nobody has asked for before.
    fn begin<O: Representation>(&self, kind: &ScopedKind) -> Result<CacheInformer<O>, ReadError> {
        if self.shared.table.lock().is_stopped() {
            return Err(ReadError::Stopped { kind: kind.to_string() });
        }
        tracing::info!(%kind, form = form_name::<O>(), "a read makes an informer of the whole kind");
        Ok(self.informer_of(kind))
    }

    /// Fails where the kind is pinned to another form.
    pub(crate) fn check_form<O: Representation>(&self, kind: &ScopedKind) -> Result<(), ReadError> {
        match self.shared.pinned.get(kind.gvk()) {
            Some((form, held)) if *form != TypeId::of::<O>() => {
                Err(ReadError::OtherForm { kind: kind.to_string(), asked: form_name::<O>(), held })
            }
            _ => Ok(()),
        }
    }

    /// Indexes a field of `K`, so that lists can select by it. The name is what selectors call it; the values are what the
    /// function says, which may be many: a selector chooses the objects of which one value is equal.
    ///
    /// Makes the informer of the kind, in the lazy form, and does not wait for it.
    ///
    /// # Errors
    ///
    /// When the field was indexed before.
    pub fn index_field<K: KubeKind>(
        &self,
        field: &str,
        function: impl IndexFn<Lazy<K>>,
    ) -> Result<(), AddIndexersError> {
        self.index_field_of(ScopedKind::of::<K>(), field, function)
    }

    /// As [`index_field`](Self::index_field), of any kind and form.
    ///
    /// # Errors
    ///
    /// As [`index_field`](Self::index_field).
    pub fn index_field_of<O: Representation>(
        &self,
        kind: impl Into<ScopedKind>,
        field: &str,
        function: impl IndexFn<O>,
    ) -> Result<(), AddIndexersError> {
        self.informer_of::<O>(kind).add_index(index_name(field), function)
    }
}

impl<O: Object> CacheInformer<O> {
    /// The objects that are selected, in no particular order.
    ///
    /// # Errors
    ///
    /// When the namespace is not cached; when a field is selected that has no index, or by something else than equality.
    pub fn select(&self, options: &ListOptions) -> Result<Vec<Arc<O>>, ReadError> {
        self.check_exact(&options.fields)?;
        let namespaced = options.namespace.as_deref().filter(|_| !self.kind().is_cluster_scoped());
        let mut selected = Vec::new();
        match namespaced {
            Some(namespace) => {
                let part = self.part_of(Some(namespace))?;
                selected = self.select_from(&part.snapshot(), Some(namespace), options)?;
            }
            None => {
                for part in self.parts() {
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

    /// From one version of a store.
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
