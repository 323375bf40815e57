//! What of the informers of a cache can be chosen, on each level.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::reflector::ReflectorConfig;
use informer_client::{HashShares, ReadOptions, StreamingLists};
use informer_core::{FieldSelector, LabelSelector, Object};

use crate::BoxError;

/// Changes an object before it is cached.
pub(super) type Transform<O> = dyn Fn(Arc<O>) -> Result<Arc<O>, BoxError> + Send + Sync;

/// How an informer selects, reads and tells. What is not set is inherited from the next level.
///
/// The levels, the nearest first: a namespace of a kind, the kind, a namespace of the cache, the cache. A value that is set
/// ends the search, also one that selects everything.
///
/// ```
/// use informer_runtime::InformerOptions;
///
/// let web = InformerOptions::default().labels("app=web".parse()?);
/// # let _ = web;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct InformerOptions {
    pub(super) labels: Option<LabelSelector>,
    pub(super) fields: Option<FieldSelector>,
    pub(super) shares: Option<HashShares>,
    pub(super) resync: Option<Duration>,
    pub(super) read: Option<ReadOptions>,
    pub(super) streaming: Option<StreamingLists>,
    pub(super) reflector: Option<ReflectorConfig>,
    /// By the form whose objects they change: an `Arc<Transform<O>>` under the `TypeId` of `O`.
    pub(super) transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl InformerOptions {
    /// Only objects with these labels; the server selects.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = Some(selector);
        self
    }

    /// Only objects with these fields; the server selects. One that demands a `metadata.namespace` makes an informer of that
    /// namespace.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = Some(selector);
        self
    }

    /// Only a share of the objects, by a hash: for replicas that each hold a part of a kind. The server selects, where it has the feature;
    /// elsewhere the rest is dropped as it arrives.
    pub fn shares(mut self, shares: HashShares) -> Self {
        self.shares = Some(shares);
        self
    }

    /// How often handlers that name no period of their own are told of every object again. Local: no request. By default
    /// never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// How answers are read, and what is cut out of each object before it is cached.
    pub fn read_options(mut self, read: ReadOptions) -> Self {
        self.read = Some(read);
        self
    }

    /// Whether lists are asked for as watches.
    pub fn streaming_lists(mut self, streaming: StreamingLists) -> Self {
        self.streaming = Some(streaming);
        self
    }

    /// How the server is listed and watched: page size, timeouts, backoff, bookmarks, the handler of errors.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = Some(config);
        self
    }

    /// Changes objects of the form `O` before they are cached. Objects of other forms pass as they are.
    ///
    /// A transform may make a new object of the JSON of another. Fields that a newer server has added and the client does not know
    /// are kept by updates even so.
    ///
    /// What a transform takes out of a *list* of an object is lost when a changed object is written back and the list is among
    /// the changes. To leave out whole members, cut them with [`Pruning`](informer_client::Pruning).
    pub fn transform<O: Object>(
        mut self,
        transform: impl Fn(Arc<O>) -> Result<Arc<O>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let transform: Arc<Transform<O>> = Arc::new(transform);
        self.transforms.insert(TypeId::of::<O>(), Arc::new(transform));
        self
    }

    /// The transform of a form.
    pub(super) fn transform_of<O: Object>(&self) -> Option<Arc<Transform<O>>> {
        self.transforms.get(&TypeId::of::<O>())?.downcast_ref::<Arc<Transform<O>>>().cloned()
    }

    /// These options, and where they say nothing the others.
    pub(super) fn or(mut self, other: &Self) -> Self {
        self.labels = self.labels.or_else(|| other.labels.clone());
        self.fields = self.fields.or_else(|| other.fields.clone());
        self.shares = self.shares.or_else(|| other.shares.clone());
        self.resync = self.resync.or(other.resync);
        self.read = self.read.or_else(|| other.read.clone());
        self.streaming = self.streaming.or(other.streaming);
        self.reflector = self.reflector.or_else(|| other.reflector.clone());
        for (form, transform) in &other.transforms {
            self.transforms.entry(*form).or_insert_with(|| Arc::clone(transform));
        }
        self
    }
}

impl fmt::Debug for InformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("shares", &self.shares)
            .field("resync", &self.resync)
            .field("transforms", &self.transforms.len())
            .finish_non_exhaustive()
    }
}

/// The options of one kind: its own, and those of its namespaces.
#[derive(Debug, Clone, Default)]
pub(super) struct KindOptions {
    pub(super) options: InformerOptions,
    /// `None`: the namespaces of the cache. Empty: all namespaces, whatever the cache has.
    pub(super) namespaces: Option<BTreeMap<String, InformerOptions>>,
}
