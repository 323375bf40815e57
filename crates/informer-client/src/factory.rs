use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_cache::reflector::ReflectorConfig;
use informer_cache::{
    AmbiguousInformer, AnyObject, GenericInformer, InformerLease, InformerSet, InformerState, SharedInformer,
    SharedInformerBuilder, SyncError,
};
use informer_core::{FieldSelector, Gvr, LabelSelector};

use crate::object::Representation;
use crate::{
    AnyTransform, Client, Dynamic, KubeListWatch, Lazy, ListOptionsTweak, ListWatchOptions, Metadata,
    ReadOptions, ResourceKind, StaticKind, StaticResource, StreamingLists, Typed,
};

/// Creates informers for one API server, one per kind and representation, and starts and stops them together.
///
/// A clone of a factory can set a different namespace, selectors, query parameters, resync period or
/// transform. The clone then creates separate informers, which are started and stopped together with the
/// informers of the original factory. The name of an informer, which is a label of its metrics, contains
/// these settings: `pods.v1 namespace=a resync=30s transform=1`. All other settings apply to the informers
/// that a factory creates, and do not tell informers apart.
///
/// Upstream: [`SharedInformerFactory`](https://pkg.go.dev/k8s.io/client-go/informers#SharedInformerFactory),
/// and its dynamic and metadata variants.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use informer_client::{Client, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
///
/// let factory = SharedInformerFactory::new(Client::try_default().await?).namespace("default");
/// let pods = factory.informer::<Pod>();
/// let config_maps = factory.metadata::<ConfigMap>();
/// factory.start();
/// factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
/// println!("{} pods, {} config maps", pods.indexer().len(), config_maps.indexer().len());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: Client,
    set: InformerSet,
    options: Arc<Options>,
    /// The number of transforms that this factory and its clones were given.
    transforms: Arc<AtomicUsize>,
}

#[derive(Clone, Default)]
struct Options {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    resync: Option<Duration>,
    /// The resync periods of single kinds, which take precedence over `resync`.
    resync_of: HashMap<Gvr, Duration>,
    transform: Option<NumberedTransform>,
    tweak: Option<ListOptionsTweak>,
    read: ReadOptions,
    streaming: StreamingLists,
    reflector: ReflectorConfig,
    metrics: Option<Arc<dyn InformerMetrics>>,
}

/// A transform, and its number among those of a factory and its clones. The number is part of the names of
/// informers, because functions cannot be compared.
#[derive(Clone)]
struct NumberedTransform {
    number: usize,
    transform: AnyTransform,
}

impl Options {
    /// Returns the selectors and query parameters of the informer of a resource.
    fn list_options(&self, gvr: &Gvr) -> ListWatchOptions {
        let mut options = ListWatchOptions::new(self.labels.clone(), self.fields.clone());
        if let Some(tweak) = &self.tweak {
            tweak.apply(gvr, &mut options);
        }
        options
    }

    /// Returns the resync period of the informer of a resource.
    fn resync(&self, gvr: &Gvr) -> Option<Duration> {
        self.resync_of.get(gvr).copied().or(self.resync)
    }

    /// Returns the name of an informer: its resource, followed by the namespace, the selectors, the query
    /// parameters, the resync period and the number of the transform if they are set.
    fn name_of(&self, gvr: &Gvr, options: &ListWatchOptions) -> String {
        let mut name = gvr.to_string();
        let mut add = |what: &str, value: &dyn fmt::Display| {
            let _ = write!(name, " {what}={value}");
        };
        if let Some(namespace) = &self.namespace {
            add("namespace", namespace);
        }
        if !options.labels.is_everything() {
            add("labels", &options.labels);
        }
        if !options.fields.is_everything() {
            add("fields", &options.fields);
        }
        for (parameter, value) in options.parameters() {
            add(parameter, value);
        }
        if let Some(period) = self.resync(gvr) {
            add("resync", &format_args!("{period:?}"));
        }
        if let Some(transform) = &self.transform {
            add("transform", &transform.number);
        }
        name
    }
}

impl SharedInformerFactory {
    /// Creates a factory whose informers watch all namespaces.
    pub fn new(client: impl Into<Client>) -> Self {
        Self {
            client: client.into(),
            set: InformerSet::new(),
            options: Arc::default(),
            transforms: Arc::default(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(Arc::make_mut(&mut self.options));
        self
    }

    /// Restricts the informers to a namespace. Like every option, it applies only to informers that this
    /// handle creates afterwards.
    ///
    /// [Cluster-scoped](ResourceKind::is_cluster_scoped) kinds are watched in the whole cluster. The scope of
    /// Rust types, of built-in cluster-scoped kinds and of kinds from [`Client::resolve`] is known. For any
    /// other dynamic kind, the informer looks up the scope in discovery if the server responds with 404 for
    /// the collection in the namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace = Some(namespace.into()))
    }

    /// Restricts the informers to objects that match a label selector, which the server evaluates.
    pub fn labels(self, selector: LabelSelector) -> Self {
        self.with(|options| options.labels = selector)
    }

    /// Restricts the informers to objects that match a field selector, which the server evaluates.
    pub fn fields(self, selector: FieldSelector) -> Self {
        self.with(|options| options.fields = selector)
    }

    /// Sets the resync period of handlers that do not set their own.
    pub fn resync(self, period: Duration) -> Self {
        self.with(|options| options.resync = Some(period))
    }

    /// Sets the resync periods of single kinds, instead of the one of [`resync`](Self::resync). Upstream:
    /// `WithCustomResyncConfig`.
    pub fn custom_resync_config(self, periods: impl IntoIterator<Item = (ResourceKind, Duration)>) -> Self {
        let periods = periods.into_iter().map(|(kind, period)| (kind.gvr(), period));
        self.with(|options| options.resync_of = periods.collect())
    }

    /// Sets a function that changes each object of any kind before it is stored: [`AnyTransform`]. A
    /// transform that [`informer_with`](Self::informer_with) sets replaces it for that informer. Upstream:
    /// `WithTransform`.
    ///
    /// Each call numbers its transform, also if the function is the same. Call this method once, and clone
    /// the factory, to share informers.
    pub fn transform(
        self,
        transform: impl Fn(AnyObject) -> Result<AnyObject, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        let number = self.transforms.fetch_add(1, Ordering::Relaxed) + 1;
        let transform = NumberedTransform { number, transform: AnyTransform::new(transform) };
        self.with(|options| options.transform = Some(transform))
    }

    /// Sets a function that changes the selectors and query parameters of each informer, by its resource:
    /// [`ListOptionsTweak`]. Upstream: `WithTweakListOptions`.
    ///
    /// ```no_run
    /// # async fn example(client: informer_client::Client) {
    /// use informer_client::SharedInformerFactory;
    ///
    /// let factory = SharedInformerFactory::new(client).tweak_list_options(|gvr, options| {
    ///     if gvr.resource == "pods" {
    ///         options.fields = "status.phase=Running".parse().expect("a valid selector");
    ///     }
    /// });
    /// # }
    /// ```
    pub fn tweak_list_options(
        self,
        tweak: impl Fn(&Gvr, &mut ListWatchOptions) + Send + Sync + 'static,
    ) -> Self {
        self.with(|options| options.tweak = Some(ListOptionsTweak::new(tweak)))
    }

    /// Sets how the informers read responses: limits, pruning, timeouts, and the size of the view cache of
    /// each informer.
    pub fn read_options(self, read: ReadOptions) -> Self {
        self.with(|options| options.read = read)
    }

    /// Sets whether the informers request lists as streaming lists (watches with initial events).
    pub fn streaming_lists(self, streaming: StreamingLists) -> Self {
        self.with(|options| options.streaming = streaming)
    }

    /// Sets the page size, timeouts and backoff of the informers' reflectors.
    pub fn reflector(self, config: ReflectorConfig) -> Self {
        self.with(|options| options.reflector = config)
    }

    /// Sets the metrics that the informers report to.
    pub fn metrics(self, metrics: Arc<dyn InformerMetrics>) -> Self {
        self.with(|options| options.metrics = Some(metrics))
    }

    /// Returns the informer for `K` in the [`Lazy`] representation, which keeps the bytes of each object and
    /// decodes them on first access.
    pub fn informer<K>(&self) -> SharedInformer<Lazy<K>>
    where
        K: StaticResource + Send + Sync + 'static,
    {
        self.informer_as()
    }

    /// Returns the informer for `K` in the [`Packed`](crate::Packed) representation, which compresses
    /// objects. They take a fraction of the memory of [`Lazy`], and each access takes one or two microseconds
    /// more.
    #[cfg(feature = "packed")]
    pub fn packed<K>(&self) -> SharedInformer<crate::Packed<K>>
    where
        crate::Packed<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer for `K` in the [`Typed`] representation, which decodes objects on arrival and
    /// takes several times the memory of [`Lazy`].
    pub fn typed<K>(&self) -> SharedInformer<Typed<K>>
    where
        Typed<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer for the metadata of `K`. The server sends no other fields of the objects.
    pub fn metadata<K>(&self) -> SharedInformer<Metadata<K>>
    where
        Metadata<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer for a representation whose kind is known at compile time.
    pub fn informer_as<O: Representation + StaticKind>(&self) -> SharedInformer<O> {
        self.informer_of(O::resource_kind())
    }

    /// Returns the informer for a kind that is known only at run time.
    pub fn dynamic(&self, kind: impl Into<ResourceKind>) -> SharedInformer<Dynamic> {
        self.informer_of(kind)
    }

    /// Returns the informer for a kind in any representation `O`.
    pub fn informer_of<O: Representation>(&self, kind: impl Into<ResourceKind>) -> SharedInformer<O> {
        self.informer_with(kind, |informer| informer)
    }

    /// Returns the informer for a kind. If this call creates the informer, it calls `tweak` to change the
    /// informer's settings, such as a transform, a resync period or an error handler. An existing informer is
    /// returned unchanged.
    pub fn informer_with<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
        tweak: impl FnOnce(SharedInformerBuilder<O>) -> SharedInformerBuilder<O>,
    ) -> SharedInformer<O> {
        let NamedKind { name, options, kind } = self.named(kind);
        self.set.informer_for(name.clone(), || tweak(self.builder(name, options, kind)).build())
    }

    /// Returns a lease of the informer for `K` in the [`Lazy`] representation. When the last lease is
    /// dropped, the factory [releases](Self::release) the informer, unless a method such as
    /// [`informer`](Self::informer) has also returned it. The next [`start`](Self::start) starts the
    /// informer.
    ///
    /// ```no_run
    /// # async fn example(factory: informer_client::SharedInformerFactory) {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = factory.lease::<Pod>();
    /// factory.start();
    /// println!("{} pods", pods.indexer().len());
    /// drop(pods); // stops the informer, since no other lease exists
    /// # }
    /// ```
    pub fn lease<K>(&self) -> InformerLease<Lazy<K>>
    where
        K: StaticResource + Send + Sync + 'static,
    {
        self.lease_of(ResourceKind::of::<K>())
    }

    /// Returns a lease of the informer for a kind in any representation `O`, as [`lease`](Self::lease) does.
    pub fn lease_of<O: Representation>(&self, kind: impl Into<ResourceKind>) -> InformerLease<O> {
        let NamedKind { name, options, kind } = self.named(kind);
        self.set.lease(name.clone(), || self.builder(name, options, kind).build())
    }

    fn named(&self, kind: impl Into<ResourceKind>) -> NamedKind {
        let kind = kind.into();
        let options = self.options.list_options(&kind.gvr());
        NamedKind { name: self.options.name_of(&kind.gvr(), &options), options, kind }
    }

    fn builder<O: Representation>(
        &self,
        name: String,
        list_options: ListWatchOptions,
        kind: ResourceKind,
    ) -> SharedInformerBuilder<O> {
        let options = &*self.options;
        let resync = options.resync(&kind.gvr());
        let mut source = KubeListWatch::<O>::of(self.client.clone(), kind)
            .list_options(list_options)
            .read_options(options.read.clone())
            .streaming_lists(options.streaming);
        if let Some(namespace) = &options.namespace {
            source = source.namespace(namespace);
        }
        let mut informer = SharedInformer::builder(source).name(name).reflector(options.reflector.clone());
        if let Some(period) = resync {
            informer = informer.resync(period);
        }
        if let Some(NumberedTransform { transform, .. }) = options.transform.clone() {
            informer = informer.transform(move |object: Arc<O>| transform.apply(object));
        }
        if let Some(metrics) = &options.metrics {
            informer = informer.metrics(Arc::clone(metrics));
        }
        informer
    }

    /// Returns the informer for a kind without its Rust type. If the factory has an informer for the kind in
    /// any representation, that one is returned. Otherwise a [`Dynamic`] informer is created, which the next
    /// [`start`](Self::start) starts.
    ///
    /// ```no_run
    /// # async fn example(factory: informer_client::SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
    /// let websites = factory.for_resource(factory.client().resolve("websites.example.com").await?)?;
    /// factory.start();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the factory has informers for the kind in several representations. The error names
    /// them; use [`informer_of`](Self::informer_of) to choose one.
    pub fn for_resource(&self, kind: impl Into<ResourceKind>) -> Result<GenericInformer, AmbiguousInformer> {
        let NamedKind { name, kind, .. } = self.named(kind);
        Ok(match self.set.generic(&name)? {
            Some(informer) => informer,
            None => self.dynamic(kind).into(),
        })
    }

    /// Returns the existing informer for a resource (`pods.v1`, `deployments.v1.apps`) without its Rust type.
    /// This method creates no informer, so it needs no kind.
    ///
    /// # Errors
    ///
    /// Returns an error if the factory has informers for the resource in several representations.
    pub fn existing(&self, gvr: &Gvr) -> Result<Option<GenericInformer>, AmbiguousInformer> {
        self.set.generic(&self.name_of(gvr))
    }

    fn name_of(&self, gvr: &Gvr) -> String {
        self.options.name_of(gvr, &self.options.list_options(gvr))
    }

    /// Starts all informers of the factory that have not been started.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) {
        self.set.start();
    }

    /// Waits until every started informer of the factory has synced.
    ///
    /// # Errors
    ///
    /// Returns an error after `timeout`. The error lists the informers that have not synced, with their state
    /// and last error.
    pub async fn wait_for_cache_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        self.set.wait_for_cache_sync(timeout).await
    }

    /// Removes an informer from the factory and returns true if the factory contained it. The informer stops
    /// unless another [`InformerRun`](informer_cache::InformerRun) for it exists.
    pub fn release<O: Representation>(&self, gvr: &Gvr) -> bool {
        self.set.release::<O>(&self.name_of(gvr))
    }

    /// Stops all informers of the factory, waits until their tasks have ended, and prevents informers from
    /// being started again.
    pub async fn shutdown(&self) {
        self.set.shutdown().await;
    }

    /// Returns the states of all informers of the factory.
    pub fn states(&self) -> Vec<InformerState> {
        self.set.states()
    }

    /// Returns the client that the informers use.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

/// A kind with the name and the list options of its informer.
struct NamedKind {
    name: String,
    options: ListWatchOptions,
    kind: ResourceKind,
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory")
            .field("namespace", &self.options.namespace)
            .field("labels", &self.options.labels)
            .field("fields", &self.options.fields)
            .field("informers", &self.set)
            .finish_non_exhaustive()
    }
}
