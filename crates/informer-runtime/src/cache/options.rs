//! The options of a cache's informers, which can be set for the whole cache, for a namespace or for a kind.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::AnyObject;
use informer_cache::reflector::ReflectorConfig;
use informer_client::{
    AnyTransform, HashShares, ListOptionsTweak, ListWatchOptions, ReadOptions, Representation, StreamingLists,
};
use informer_core::{FieldSelector, Gvr, LabelSelector, Object};

use crate::BoxError;

pub(super) type Filter<O> = dyn Fn(&O) -> bool + Send + Sync;
pub(super) type Transform<O> = dyn Fn(Arc<O>) -> Result<Arc<O>, BoxError> + Send + Sync;

/// The options of an informer. Unset options are inherited from the next level.
///
/// The levels, in order of precedence, are: namespace of a kind, kind, namespace of the cache, cache. A value
/// that is set takes precedence even if it is a selector that matches every object.
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
    /// The predicates that objects must pass to be cached. Each representation `O` has at most one: an
    /// `Arc<Filter<O>>` under the `TypeId` of `O`.
    pub(super) filters: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The functions that change objects before they are cached. Each representation `O` has at most one: an
    /// `Arc<Transform<O>>` under the `TypeId` of `O`.
    pub(super) transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) default_transform: Option<AnyTransform>,
    pub(super) tweak: Option<ListOptionsTweak>,
    /// The query parameters that `tweak` has added.
    pub(super) parameters: Vec<(String, String)>,
}

impl InformerOptions {
    /// Restricts the informer to objects with these labels. The server evaluates the selector.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = Some(selector);
        self
    }

    /// Restricts the informer to objects with these fields. The server evaluates the selector. A selector
    /// that requires a `metadata.namespace` restricts the informer to that namespace.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = Some(selector);
        self
    }

    /// Restricts the informer to a share of the objects, by a hash of their uid or namespace. Replicas of a
    /// program can thus cache different parts of a kind. Servers with the feature `ShardedListAndWatch` send
    /// only the objects of the share; from other servers the client receives all objects and drops those of
    /// other shares.
    pub fn shares(mut self, shares: HashShares) -> Self {
        self.shares = Some(shares);
        self
    }

    /// Sets the period after which handlers without their own period get all objects again. A resync is local
    /// and causes no requests. By default there is no resync.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets how the responses to list and watch requests are read: limits, encodings, timeouts, a predicate
    /// on the received objects, and the fields that are removed from objects before they are cached.
    pub fn read_options(mut self, read: ReadOptions) -> Self {
        self.read = Some(read);
        self
    }

    /// Sets whether the initial list is requested as a streaming list (WatchList), which arrives as watch
    /// events.
    pub fn streaming_lists(mut self, streaming: StreamingLists) -> Self {
        self.streaming = Some(streaming);
        self
    }

    /// Configures the lists and watches of the informer: page size, timeouts, backoff, bookmarks, error
    /// handler.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.reflector = Some(config);
        self
    }

    /// Caches only the objects of the representation `O` for which the predicate returns true. Objects of
    /// other representations are not filtered.
    ///
    /// Use a filter for conditions that no label or field selector can express. A
    /// [`Prefilter`](informer_client::Prefilter) in the [`read_options`](Self::read_options) is cheaper,
    /// because it runs before the object is decoded. An object that fails the predicate does not exist for
    /// reads from the cache, handlers and controllers; if a cached object fails it after a change, they see a
    /// deletion. Reads still contain the program's own writes: after a write, a read waits until the cache
    /// has received that version, and then returns the object only if it passes.
    ///
    /// The predicate is called before a [transform](Self::transform).
    /// [`FilteredSource`](informer_cache::source::FilteredSource) has the requirements on it. Decoding a
    /// [`Lazy`](informer_client::Lazy) object in the predicate costs as much as decoding it later; its labels,
    /// its annotations and [`field`](informer_core::Object::field) are cheap.
    ///
    /// ```
    /// use informer_client::Lazy;
    /// use informer_core::Object;
    /// use informer_runtime::InformerOptions;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// // Pods that run, and that the program has not finished with.
    /// let options = InformerOptions::default()
    ///     .fields("status.phase=Running".parse()?)
    ///     .filter::<Lazy<Pod>>(|pod| pod.annotation("example.com/done").is_none());
    /// # let _ = options;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter<O: Object>(mut self, predicate: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        let predicate: Arc<Filter<O>> = Arc::new(predicate);
        self.filters.insert(TypeId::of::<O>(), Arc::new(predicate));
        self
    }

    /// Returns true if a predicate on the received bytes decides which objects are cached.
    pub(super) fn has_prefilter(&self) -> bool {
        self.read.as_ref().is_some_and(|read| read.prefilter.is_some())
    }

    pub(super) fn filter_of<O: Object>(&self) -> Option<Arc<Filter<O>>> {
        self.filters.get(&TypeId::of::<O>())?.downcast_ref::<Arc<Filter<O>>>().cloned()
    }

    /// Transforms objects of the representation `O` before they are cached. Objects of other representations
    /// are not transformed.
    ///
    /// A transform may create a new object from the JSON of the original one. An update that the program
    /// sends for the transformed object still keeps fields that a newer server has added and that the client
    /// does not know.
    ///
    /// If a transform removes data from a *list* of an object, that data is lost when a changed object is
    /// written back and the list is among the changes. To remove whole fields, use
    /// [`Pruning`](informer_client::Pruning) instead.
    pub fn transform<O: Object>(
        mut self,
        transform: impl Fn(Arc<O>) -> Result<Arc<O>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let transform: Arc<Transform<O>> = Arc::new(transform);
        self.transforms.insert(TypeId::of::<O>(), Arc::new(transform));
        self
    }

    /// Transforms objects of each kind and representation for which no [`transform`](Self::transform) is
    /// set, before they are cached: [`AnyTransform`]. On the level of the cache this is the
    /// `DefaultTransform` of controller-runtime.
    pub fn default_transform(
        mut self,
        transform: impl Fn(AnyObject) -> Result<AnyObject, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.default_transform = Some(AnyTransform::new(transform));
        self
    }

    /// Changes the selectors and query parameters of each informer when it is created, by its resource:
    /// [`ListOptionsTweak`]. The function gets the selectors that [`labels`](Self::labels) and
    /// [`fields`](Self::fields) have set.
    pub fn tweak_list_options(
        mut self,
        tweak: impl Fn(&Gvr, &mut ListWatchOptions) + Send + Sync + 'static,
    ) -> Self {
        self.tweak = Some(ListOptionsTweak::new(tweak));
        self
    }

    /// Returns these options with the changes of the tweak, if one is set.
    pub(super) fn tweaked(mut self, gvr: &Gvr) -> Self {
        let Some(tweak) = &self.tweak else { return self };
        let mut options = self.list_options();
        tweak.apply(gvr, &mut options);
        self.parameters = options.parameters().to_vec();
        (self.labels, self.fields) = (Some(options.labels), Some(options.fields));
        self
    }

    /// Returns the selectors and query parameters of the requests.
    pub(super) fn list_options(&self) -> ListWatchOptions {
        let (labels, fields) = (self.labels.clone(), self.fields.clone());
        let mut options = ListWatchOptions::new(labels.unwrap_or_default(), fields.unwrap_or_default());
        for (name, value) in &self.parameters {
            options.parameter(name, value);
        }
        options
    }

    /// Returns the transform of the representation `O`, or else the default transform.
    pub(super) fn transform_of<O: Representation>(&self) -> Option<Arc<Transform<O>>> {
        if let Some(transform) = self.transforms.get(&TypeId::of::<O>()) {
            let transform = transform.downcast_ref::<Arc<Transform<O>>>().cloned()?;
            return Some(Arc::new(move |object: Arc<O>| {
                let is_partial = object.is_partial();
                let transformed = transform(object)?;
                Ok(if is_partial { transformed.into_partial() } else { transformed })
            }));
        }
        let transform = self.default_transform.clone()?;
        Some(Arc::new(move |object| transform.apply(object)))
    }

    /// Takes each option that is not set here from `other`, the options of the next more general level, such
    /// as the whole cache.
    pub(super) fn or(mut self, other: &Self) -> Self {
        self.labels = self.labels.or_else(|| other.labels.clone());
        self.fields = self.fields.or_else(|| other.fields.clone());
        self.shares = self.shares.or_else(|| other.shares.clone());
        self.resync = self.resync.or(other.resync);
        self.read = self.read.or_else(|| other.read.clone());
        self.streaming = self.streaming.or(other.streaming);
        self.reflector = self.reflector.or_else(|| other.reflector.clone());
        self.default_transform = self.default_transform.or_else(|| other.default_transform.clone());
        self.tweak = self.tweak.or_else(|| other.tweak.clone());
        for (representation, filter) in &other.filters {
            self.filters.entry(*representation).or_insert_with(|| Arc::clone(filter));
        }
        for (representation, transform) in &other.transforms {
            self.transforms.entry(*representation).or_insert_with(|| Arc::clone(transform));
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
            .field("filters", &self.filters.len())
            .field("transforms", &self.transforms.len())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct KindOptions {
    pub(super) options: InformerOptions,
    /// The namespaces to which a kind is restricted, with the options of each. `None` stands for the
    /// namespaces of the cache. An empty map stands for all namespaces, even if the cache is restricted to
    /// some.
    pub(super) namespaces: Option<BTreeMap<String, InformerOptions>>,
}
