use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_cache::reflector::ReflectorConfig;
use informer_cache::{
    GenericInformer, InformerSet, InformerState, SharedInformer, SharedInformerBuilder, SyncError,
};
use informer_core::{FieldSelector, Gvr, LabelSelector};
use kube_core::Resource;

use crate::object::Representation;
use crate::{
    Client, Dynamic, KubeListWatch, Lazy, Metadata, ReadOptions, ResourceKind, StaticKind, StreamingLists,
    Typed,
};

/// Makes informers of one API server, one for each kind and form, and starts and stops them together.
///
/// A factory has one namespace and one pair of selectors. A clone may choose others: it makes informers of its own, and
/// starts and stops them together with those of the first.
///
/// Upstream: [`SharedInformerFactory`](https://pkg.go.dev/k8s.io/client-go/informers#SharedInformerFactory), and its
/// dynamic and metadata variants.
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
}

/// What all informers of a factory have in common.
#[derive(Clone, Default)]
struct Options {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    resync: Option<Duration>,
    read: ReadOptions,
    streaming: StreamingLists,
    reflector: ReflectorConfig,
    metrics: Option<Arc<dyn InformerMetrics>>,
}

impl Options {
    /// The name of an informer: its resource and, where not everything is selected, what is.
    fn name_of(&self, gvr: &Gvr) -> String {
        let mut name = gvr.to_string();
        let mut add = |what: &str, value: &dyn fmt::Display| {
            let _ = write!(name, " {what}={value}");
        };
        if let Some(namespace) = &self.namespace {
            add("namespace", namespace);
        }
        if !self.labels.is_everything() {
            add("labels", &self.labels);
        }
        if !self.fields.is_everything() {
            add("fields", &self.fields);
        }
        name
    }
}

impl SharedInformerFactory {
    /// Returns a factory of informers on all namespaces.
    pub fn new(client: impl Into<Client>) -> Self {
        Self { client: client.into(), set: InformerSet::new(), options: Arc::default() }
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(Arc::make_mut(&mut self.options));
        self
    }

    /// Restricts the informers to a namespace. As all options, it holds for informers that this handle makes
    /// later.
    ///
    /// [Cluster-scoped](ResourceKind::is_cluster_scoped) kinds are watched in the whole cluster. The scope is known for all types, for
    /// built-in kinds and for kinds that [`Client::resolve`] has found. For any other kind that is known at run time only, the informer
    /// looks it up in discovery if the server has no such collection in the namespace.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace = Some(namespace.into()))
    }

    /// Restricts the informers to objects with these labels. The server selects.
    pub fn labels(self, selector: LabelSelector) -> Self {
        self.with(|options| options.labels = selector)
    }

    /// Restricts the informers to objects with these fields. The server selects.
    pub fn fields(self, selector: FieldSelector) -> Self {
        self.with(|options| options.fields = selector)
    }

    /// How often handlers that name no period of their own are told of every object again.
    pub fn resync(self, period: Duration) -> Self {
        self.with(|options| options.resync = Some(period))
    }

    /// How answers are read: limits, pruning, timeouts; and how many bytes of typed views each informer
    /// keeps.
    pub fn read_options(self, read: ReadOptions) -> Self {
        self.with(|options| options.read = read)
    }

    /// Sets whether lists are requested as watches.
    pub fn streaming_lists(self, streaming: StreamingLists) -> Self {
        self.with(|options| options.streaming = streaming)
    }

    /// How the server is listed and watched: page size, timeouts, backoff.
    pub fn reflector(self, config: ReflectorConfig) -> Self {
        self.with(|options| options.reflector = config)
    }

    /// Where the informers show how they are.
    pub fn metrics(self, metrics: Arc<dyn InformerMetrics>) -> Self {
        self.with(|options| options.metrics = Some(metrics))
    }

    /// Returns the informer of `K`, in the lazy form: the bytes of each object, typed when it is first read.
    pub fn informer<K>(&self) -> SharedInformer<Lazy<K>>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.informer_as()
    }

    /// Returns the informer of `K`, compressed: a fraction of the memory, and a microsecond or two more on
    /// each access.
    #[cfg(feature = "packed")]
    pub fn packed<K>(&self) -> SharedInformer<crate::Packed<K>>
    where
        crate::Packed<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer of `K`, decoded when it arrives: several times the memory, and no decode on
    /// access.
    pub fn typed<K>(&self) -> SharedInformer<Typed<K>>
    where
        Typed<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer of the metadata of `K`; the server sends nothing else.
    pub fn metadata<K>(&self) -> SharedInformer<Metadata<K>>
    where
        Metadata<K>: Representation + StaticKind,
    {
        self.informer_as()
    }

    /// Returns the informer of a form whose kind is known from its type.
    pub fn informer_as<O: Representation + StaticKind>(&self) -> SharedInformer<O> {
        self.informer_of(O::resource_kind())
    }

    /// Returns the informer of a kind that is known at run time only.
    pub fn dynamic(&self, kind: impl Into<ResourceKind>) -> SharedInformer<Dynamic> {
        self.informer_of(kind)
    }

    /// Returns the informer of a kind in a form of your choice.
    pub fn informer_of<O: Representation>(&self, kind: impl Into<ResourceKind>) -> SharedInformer<O> {
        self.informer_with(kind, |informer| informer)
    }

    /// As [`informer_of`](Self::informer_of), with settings of its own: a transform, a resync period, an
    /// error handler. They hold where this call makes the informer; one that is there is returned as it is.
    pub fn informer_with<O: Representation>(
        &self,
        kind: impl Into<ResourceKind>,
        tweak: impl FnOnce(SharedInformerBuilder<O>) -> SharedInformerBuilder<O>,
    ) -> SharedInformer<O> {
        let kind = kind.into();
        let name = self.options.name_of(&kind.gvr());
        self.set.informer_for(name.clone(), || tweak(self.builder(name, kind)).build())
    }

    fn builder<O: Representation>(&self, name: String, kind: ResourceKind) -> SharedInformerBuilder<O> {
        let options = &*self.options;
        let mut source = KubeListWatch::<O>::of(self.client.clone(), kind)
            .labels(options.labels.clone())
            .fields(options.fields.clone())
            .read_options(options.read.clone())
            .streaming_lists(options.streaming);
        if let Some(namespace) = &options.namespace {
            source = source.namespace(namespace);
        }
        let mut informer = SharedInformer::builder(source).name(name).reflector(options.reflector.clone());
        if let Some(period) = options.resync {
            informer = informer.resync(period);
        }
        if let Some(metrics) = &options.metrics {
            informer = informer.metrics(Arc::clone(metrics));
        }
        informer
    }

    /// Returns the informer of a resource (`pods.v1`, `deployments.v1.apps`) that was made before, without
    /// its type.
    pub fn for_resource(&self, gvr: &Gvr) -> Option<GenericInformer> {
        self.set.generic(&self.options.name_of(gvr))
    }

    /// Starts the informers that were not started yet.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) {
        self.set.start();
    }

    /// Waits until every informer that was started is synced.
    ///
    /// # Errors
    ///
    /// After `timeout`: which informers are not, what each is doing, and its last error.
    pub async fn wait_for_cache_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        self.set.wait_for_cache_sync(timeout).await
    }

    /// Takes the informer of a form out of the factory; it stops unless somebody else runs it. Returns
    /// whether it was there.
    pub fn release<O: Representation>(&self, gvr: &Gvr) -> bool {
        self.set.release::<O>(&self.options.name_of(gvr))
    }

    /// Stops all informers, waits until their tasks have ended, and forbids further starts.
    pub async fn shutdown(&self) {
        self.set.shutdown().await;
    }

    /// Returns the states of all informers.
    pub fn states(&self) -> Vec<InformerState> {
        self.set.states()
    }

    /// Returns the client that the informers use.
    pub fn client(&self) -> &Client {
        &self.client
    }
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
