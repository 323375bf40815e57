//! List and watch requests for one kind over HTTP.

mod get;
mod list;
mod objects;
mod offload;
mod options;
mod pieces;
mod protobuf_watch;
pub(crate) mod query;
mod reader;
pub(crate) mod response;
mod shares;
mod split;
mod watch;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::ACCEPT;
use informer_cache::source::{
    ListRequest, ListSource, ListStream, ListWatch, SourceContext, SourceError, SourceErrorKind,
    VersionMatch, WatchRequest, WatchSource, WatchStream,
};
use informer_core::{FieldSelector, LabelSelector};
use informer_schema::SharedKindSchema;

use crate::memory::SourceMemory;
use crate::object::{Encoding, Interner, Origin, Views};
use crate::unknown_fields::UnknownFields;
use crate::{
    Client, Limits, MemoryBudget, Prefilter, Pruning, Representation, ResourceKind, ResourceScope, StaticKind,
};
pub use options::{ListOptionsTweak, ListWatchOptions};
use query::Accept;
use response::{EncodedBody, Opened};
pub use shares::{HashKey, HashShares, HashSharesError};
pub use split::SplitLists;

pub(crate) type Wire = SharedKindSchema;

/// Lists and watches one kind of a Kubernetes API server, in one namespace or in all, with selectors.
///
/// The type parameter is the representation of the objects: [`Lazy`](crate::Lazy), [`Typed`](crate::Typed),
/// [`Dynamic`](crate::Dynamic) or [`Metadata`](crate::Metadata).
///
/// ```no_run
/// use informer_client::{Client, KubeListWatch, Lazy};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::try_default().await?;
/// let pods = KubeListWatch::<Lazy<Pod>>::all(client).namespace("default").labels("app in (web, api)".parse()?);
/// # Ok(()) }
/// ```
///
/// # Wire
///
/// Built-in kinds are requested as protobuf, which is half the bytes and a third of the server's work; see
/// [`Encodings`]. Query parameters are those of client-go, sorted by name. `resourceVersion=0` and `limit`
/// are both sent if the request has both. This type does not retry; every error status is returned to the
/// caller.
///
/// A response body is decoded as it arrives: besides the objects already returned, memory holds one object
/// and one network frame. If data arrives faster than one task decodes it, on a multi-threaded runtime,
/// separate tasks decode batches of about 256 KiB, at most eight at once; objects and events keep the order
/// of the body. On a single-threaded runtime the task that reads the body also decodes it.
pub struct KubeListWatch<O> {
    client: Client,
    kind: Arc<ResourceKind>,
    selection: Selection,
    options: ReadOptions,
    streaming_lists: StreamingLists,
    split_lists: Option<SplitLists>,
    views: Option<Arc<Views>>,
    /// Stores equal labels, annotations and owner references only once for all objects that this source
    /// receives.
    interner: Arc<Interner>,
    unknown_fields: Arc<UnknownFields>,
    listed_protobuf: Arc<AtomicBool>,
    memory: Option<Arc<SourceMemory>>,
    #[cfg(feature = "packed")]
    packing: Arc<crate::object::Packing>,
    form: PhantomData<fn() -> O>,
}

#[derive(Debug, Clone, Default)]
struct Selection {
    namespace: Option<String>,
    /// The namespace is ignored if discovery has reported the kind as cluster-scoped.
    discovered: DiscoveredScope,
    /// True if requests must fail when discovery reports the kind as cluster-scoped.
    requires_namespaced: bool,
    labels: Option<String>,
    fields: Option<String>,
    shares: Option<HashShares>,
    /// Query parameters that the program adds to each request.
    parameters: Vec<(String, String)>,
}

impl Selection {
    /// Returns the namespace for request URLs; `None` to read all namespaces or a cluster-scoped kind.
    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|_| !self.discovered.is_cluster_scoped())
    }
}

/// The scope of a source's kind, as far as the source has learned it from discovery. A source looks the scope
/// up if the kind does not declare it and the collection does not exist in the namespace of the source.
///
/// Clones are handles to the same state.
#[derive(Debug, Clone, Default)]
pub struct DiscoveredScope(Arc<AtomicBool>);

impl DiscoveredScope {
    /// Returns true if discovery has reported the kind as cluster-scoped, and the source reads all objects.
    pub fn is_cluster_scoped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set_cluster_scoped(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Options for reading the responses to list and watch requests: limits, a prefilter, pruning, encodings and
/// timeouts.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The maximum sizes of a response and of the objects in it.
    pub limits: Limits,
    /// A predicate on the received bytes of each object of a list or watch. Objects that it rejects are
    /// neither decoded nor cached. `None`, the default, keeps all objects.
    pub prefilter: Option<Prefilter>,
    /// The fields that are removed from each received object before it is cached.
    pub pruning: Pruning,
    /// The encodings in which objects are requested: protobuf or JSON.
    pub encodings: Encodings,
    /// The timeout for the response headers of a list or watch. The default is 75 s, because API servers end
    /// requests after 60 s.
    pub response_timeout: Duration,
    /// The timeout between two network frames of the body of a list. The default is 60 s.
    pub list_idle_timeout: Duration,
    /// The time without any data from the server after which a watch fails, in addition to the
    /// `timeoutSeconds` of the watch request. The default is 30 s. A dead connection is detected earlier by
    /// keep-alive probes.
    pub watch_idle_margin: Duration,
    /// The memory budget, in bytes, for typed views that are kept after their last `Arc` was dropped, so that
    /// an object that is read repeatedly is decoded once. 0 by default: a view lives as long as a caller
    /// holds it.
    ///
    /// The limit covers all objects of a source in the representations [`Lazy`](crate::Lazy) and `Packed`.
    /// The size of a view is estimated: the size of the type and several times the bytes from which it is
    /// decoded. The oldest views are evicted first, except those in use. A view of an object that was changed
    /// or deleted stays until its space is needed.
    pub view_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            prefilter: None,
            pruning: Pruning::default(),
            encodings: Encodings::default(),
            response_timeout: Duration::from_secs(75),
            list_idle_timeout: Duration::from_secs(60),
            watch_idle_margin: Duration::from_secs(30),
            view_bytes: 0,
        }
    }
}

/// The encodings in which a client requests objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encodings {
    /// Objects are requested as protobuf if the kind is built in, its
    /// [representation](Representation::takes_protobuf) supports it and only managed fields are pruned; JSON
    /// otherwise. If the server has no protobuf for a kind, the client repeats the request as JSON
    /// immediately and requests the kind as JSON from then on.
    ///
    /// The fields of built-in kinds are those of the schema in `informer-schema`. If a newer server has more
    /// fields, objects received as protobuf lack them
    /// ([`Object::is_partial`](informer_core::Object::is_partial)). Once a read needs such a field (by its
    /// path, by its type, or for the JSON of a partial object), informers of the kind list again as JSON.
    #[default]
    Auto,
    /// Objects are always requested as JSON.
    Json,
}

/// Whether lists are requested as streaming lists, which are watches with initial events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamingLists {
    /// Lists are requested as streaming lists until the server rejects one. The client then requests ordinary
    /// lists of that kind.
    #[default]
    Auto,
    /// Lists are always requested as streaming lists.
    On,
    /// Lists are never requested as streaming lists.
    ///
    /// For kinds in JSON, such as custom resources, ordinary lists are faster. In measurements, a streaming
    /// list took 1.3 to 1.5 times as long, because kube-apiserver encodes each of its objects separately. In
    /// protobuf, no consistent difference was measured.
    ///
    /// A streaming list is a consistent read. The first ordinary list is only as new as the watch cache of
    /// the server, so a restarted program can receive an older state than before. Before Kubernetes 1.33,
    /// kube-apiserver also holds the whole response to a list in memory.
    Off,
}

impl<O: Representation + StaticKind> KubeListWatch<O> {
    /// Creates a source of all objects of the kind `O`, in all namespaces.
    pub fn all(client: impl Into<Client>) -> Self {
        Self::of(client, O::resource_kind())
    }

    /// Creates a source with the client and the namespace of a kube `Api`.
    pub fn from_api<K: kube_core::Resource>(api: kube_client::Api<K>) -> Self {
        let namespace = api.namespace().unwrap_or_default().to_owned();
        Self::all(api).namespace(namespace)
    }
}

impl<O: Representation> KubeListWatch<O> {
    /// Creates a source of all objects of a kind that is known only at run time, in all namespaces.
    pub fn of(client: impl Into<Client>, kind: impl Into<ResourceKind>) -> Self {
        let (client, kind) = (client.into(), kind.into());
        Self {
            unknown_fields: client.unknown_fields_of(&kind, O::METADATA_ONLY),
            listed_protobuf: Arc::default(),
            client,
            kind: Arc::new(kind),
            selection: Selection::default(),
            options: ReadOptions::default(),
            streaming_lists: StreamingLists::default(),
            split_lists: None,
            views: None,
            interner: Arc::default(),
            memory: None,
            #[cfg(feature = "packed")]
            packing: Arc::default(),
            form: PhantomData,
        }
    }

    /// Restricts the source to the objects of one namespace. A kind that is known to be
    /// [cluster-scoped](ResourceKind::is_cluster_scoped) has no objects in namespaces: all of its objects are
    /// read, as in the caches of controller-runtime. If the scope of the kind is unknown and the server has
    /// no such collection in the namespace (404), the client looks up the scope in discovery.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.selection.namespace = namespace.filter(|_| !self.kind.is_cluster_scoped());
        self
    }

    /// Makes requests fail if discovery reports the kind as cluster-scoped. A program with one source per
    /// namespace needs this if the scope of the kind is unknown, because each of these sources would
    /// otherwise read all objects.
    pub fn require_namespaced(mut self) -> Self {
        self.selection.requires_namespaced = true;
        self
    }

    /// Restricts the source to objects whose labels match the selector. The server evaluates the selector.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.selection.labels = (!selector.is_everything()).then(|| selector.to_string());
        self
    }

    /// Restricts the source to objects whose fields match the selector. The server evaluates the selector,
    /// and supports few fields of each kind.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.selection.fields = (!selector.is_everything()).then(|| selector.to_string());
        self
    }

    /// Sets the selectors and the additional query parameters of each request.
    pub fn list_options(mut self, options: ListWatchOptions) -> Self {
        self.selection.parameters = options.parameters().to_vec();
        self.labels(options.labels).fields(options.fields)
    }

    /// Counts the memory of the objects of this source in a budget, which decides whether
    /// [`Lazy`](crate::Lazy) objects are compressed. Call this method after those that set selectors, because
    /// the budget describes the source by its selectors.
    pub fn memory_budget(mut self, budget: &MemoryBudget) -> Self {
        let form = std::any::type_name::<O>().split('<').next().and_then(|name| name.rsplit("::").next());
        self.memory = Some(budget.source(format!("{} ({})", self.describe(), form.unwrap_or_default())));
        self
    }

    /// Restricts the source to a share of the objects, by a hash. Servers with the feature
    /// `ShardedListAndWatch` send only the objects of the share; from other servers the client receives all
    /// objects and drops the others.
    pub fn shares(mut self, shares: HashShares) -> Self {
        self.selection.shares = Some(shares);
        self
    }

    /// Sets how this source reads responses: limits, pruning, encodings, timeouts and the size of the view
    /// cache.
    pub fn read_options(mut self, options: ReadOptions) -> Self {
        self.views = Views::within(options.view_bytes);
        self.options = options;
        self
    }

    /// Sets the encodings in which this source requests objects.
    pub fn encodings(mut self, encodings: Encodings) -> Self {
        self.options.encodings = encodings;
        self
    }

    /// Sets whether this source requests lists as streaming lists.
    pub fn streaming_lists(mut self, streaming_lists: StreamingLists) -> Self {
        self.streaming_lists = streaming_lists;
        self
    }

    /// Splits a list of all namespaces into one list request for each namespace, several of which are sent in
    /// parallel. This is faster for servers with more than a few cores, because a server encodes each list on
    /// one core.
    ///
    /// A list is split if it covers all namespaces without selectors, the client may list namespaces, and the
    /// server returns the number of objects. Any other list is one request, and so is the list after a failed
    /// split list. A request with a limit, an exact version or a minimum version is never split; informers on
    /// such a source request lists without a limit. A split list is a consistent read; the server must still
    /// have the list's resourceVersion when the last namespace is requested, or the list fails.
    pub fn split_lists(mut self, split: SplitLists) -> Self {
        self.split_lists = Some(split);
        self
    }

    /// Returns how to split lists of this source by namespace; `None` if they must not be split.
    fn splits(&self) -> Option<SplitLists> {
        let Selection { namespace, labels, fields, shares, parameters, .. } = &self.selection;
        let whole = namespace.is_none() && labels.is_none() && fields.is_none() && shares.is_none();
        let whole = whole && parameters.is_empty();
        self.split_lists.filter(|_| whole && !self.client.wants_whole_lists(&self.kind.gvr()))
    }

    async fn list_whole(&self, request: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        let attempt = self.attempt("list");
        let accept = if O::METADATA_ONLY { query::METADATA_LIST } else { query::OBJECTS };
        let query = query::list(&self.selection, &request);
        let (response, wire) = self.open(&attempt, &query, accept).await?;
        self.listed_protobuf.store(response.encoding == Encoding::Protobuf, Ordering::Relaxed);
        let origin = self.origin(&request.context, wire);
        let list = list::read(attempt, response, origin, &self.options, request.context);
        Ok(match self.selection.shares.clone() {
            Some(shares) => shares.of_list(list),
            None => list,
        })
    }

    /// Returns a handle to what this source learns from discovery about the scope of its kind.
    pub fn discovered_scope(&self) -> DiscoveredScope {
        self.selection.discovered.clone()
    }

    /// Returns the kind that this source lists and watches.
    pub fn kind(&self) -> &ResourceKind {
        &self.kind
    }

    fn attempt(&self, verb: &str) -> String {
        format!("{verb} {}", self.describe())
    }

    /// Returns the protobuf schema of the source's kind; `None` if its objects are requested as JSON.
    fn wire(&self) -> Option<Wire> {
        let wanted = O::takes_protobuf()
            && self.options.encodings == Encodings::Auto
            && self.options.pruning.is_simple()
            && !self.unknown_fields.requires_json();
        wanted.then(|| self.client.protobuf_of(&self.kind, O::METADATA_ONLY)).flatten()
    }

    /// Sends a list or watch request that accepts the encodings that the kind supports. If the server has no
    /// protobuf, the request is repeated as JSON. If the server responds that the collection does not exist
    /// (404), and discovery reports the kind as cluster-scoped, the request is repeated without the
    /// namespace.
    async fn open(
        &self,
        attempt: &str,
        query: &str,
        accept: Accept,
    ) -> Result<(EncodedBody, Option<Wire>), SourceError> {
        match self.open_once(attempt, query, accept).await {
            Err(error)
                if error.kind() == SourceErrorKind::NotFound && self.is_found_cluster_scoped().await =>
            {
                if self.selection.requires_namespaced {
                    return Err(self.cluster_scoped_error(attempt));
                }
                self.selection.discovered.set_cluster_scoped();
                self.open_once(attempt, query, accept).await
            }
            opened => opened,
        }
    }

    /// Looks up the scope of the source's kind in discovery, unless the scope is known or the source reads
    /// all namespaces. Returns true if the kind is cluster-scoped.
    async fn is_found_cluster_scoped(&self) -> bool {
        if self.selection.namespace().is_none() || self.kind.scope().is_some() {
            return false;
        }
        matches!(self.client.scope_of(&self.kind.gvr()).await, Ok(Some(ResourceScope::Cluster)))
    }

    fn cluster_scoped_error(&self, attempt: &str) -> SourceError {
        let text = format!(
            "{attempt}: the kind {} is cluster-scoped, so it cannot be read per namespace; declare its scope \
             with `ResourceKind::cluster_scoped`",
            self.kind
        );
        SourceError::new(SourceErrorKind::Other, text)
    }

    async fn open_once(
        &self,
        attempt: &str,
        query: &str,
        accept: Accept,
    ) -> Result<(EncodedBody, Option<Wire>), SourceError> {
        let path = query::path(&self.kind.gvr(), self.selection.namespace());
        self.open_at(attempt, (&path, query), accept).await
    }

    async fn open_at(
        &self,
        attempt: &str,
        address: (&str, &str),
        accept: Accept,
    ) -> Result<(EncodedBody, Option<Wire>), SourceError> {
        let to_whom = (attempt, self.options.response_timeout);
        if let Some(wire) = self.wire() {
            let request = request(attempt, address, accept.protobuf)?;
            match response::open(&self.client, request, to_whom, Some(&wire)).await? {
                Opened::Body(response) => {
                    if response.encoding == Encoding::Json {
                        self.client.remember_json(&self.kind, O::METADATA_ONLY);
                    }
                    return Ok((response, Some(wire)));
                }
                Opened::NotAcceptable(_) => self.client.remember_json(&self.kind, O::METADATA_ONLY),
            }
        }
        let request = request(attempt, address, accept.json)?;
        match response::open(&self.client, request, to_whom, None).await? {
            Opened::Body(response) => Ok((response, None)),
            Opened::NotAcceptable(refusal) => Err(refusal),
        }
    }

    fn origin(&self, context: &SourceContext<O>, wire: Option<Wire>) -> Origin {
        let origin = Origin::new((*self.kind).clone(), context.undecodable().clone())
            .with_wire(wire)
            .with_views(self.views.clone())
            .with_unknown_fields(Arc::clone(&self.unknown_fields))
            .with_interner(Arc::clone(&self.interner))
            .with_memory(self.memory.clone());
        #[cfg(feature = "packed")]
        let origin = origin.with_packing(Arc::clone(&self.packing));
        origin
    }

    fn describe(&self) -> String {
        let Selection { labels, fields, shares, .. } = &self.selection;
        let mut text = self.kind.resource();
        if let Some(namespace) = self.selection.namespace() {
            text.push_str(" in namespace ");
            text.push_str(namespace);
        }
        let selectors = [("labels", labels), ("fields", fields)];
        for (word, selector) in selectors.into_iter().filter_map(|(word, it)| Some((word, it.as_ref()?))) {
            text.push_str(&format!(" with {word} {selector}"));
        }
        if let Some(shares) = shares {
            text.push_str(&format!(" in share {shares}"));
        }
        text
    }
}

fn request(
    attempt: &str,
    (path, query): (&str, &str),
    accept: &'static str,
) -> Result<http::Request<bytes::Bytes>, SourceError> {
    let mut request = http::Request::new(bytes::Bytes::new());
    *request.uri_mut() = query::address(path, query).map_err(|problem| {
        let text = format!("{attempt}: {problem}");
        SourceError::new(SourceErrorKind::Rejected, text)
    })?;
    request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(accept));
    Ok(request)
}

impl<O: Representation> ListSource<O> for KubeListWatch<O> {
    async fn list(&self, request: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        // Only a request for a complete list is split into one request per namespace. A request with a limit
        // or a condition on the resourceVersion is sent unchanged. For example, a reflector lists one object
        // to learn the server's version; split, that request would become a complete list.
        let is_complete = request.continue_token.is_none()
            && request.limit.is_none()
            && request.version_match == VersionMatch::Unset;
        if let Some(split) = self.splits().filter(|_| is_complete)
            && let Some(list) = split::list(self, split, &request.context).await
        {
            return Ok(list);
        }
        self.list_whole(request).await
    }
}

impl<O: Representation> WatchSource<O> for KubeListWatch<O> {
    async fn watch(&self, request: WatchRequest<O>) -> Result<WatchStream<O>, SourceError> {
        let attempt = self.attempt("watch");
        let streams_a_list = request.send_initial_events;
        if !streams_a_list
            && self.unknown_fields.requires_json()
            && self.listed_protobuf.load(Ordering::Relaxed)
        {
            return Err(protobuf_watch::encoding_changed(&attempt));
        }
        let accept = if O::METADATA_ONLY { query::METADATA } else { query::OBJECTS };
        let query = query::watch(&self.selection, &request);
        let (response, wire) = self.open(&attempt, &query, accept).await?;
        let origin = self.origin(&request.context, wire);
        let is_protobuf = response.encoding == Encoding::Protobuf;
        if streams_a_list {
            self.listed_protobuf.store(is_protobuf, Ordering::Relaxed);
        }
        let mut watch = watch::read(attempt.clone(), response, origin, &self.options, request);
        if is_protobuf {
            watch = protobuf_watch::until_json_is_required(watch, Arc::clone(&self.unknown_fields), attempt);
        }
        Ok(match self.selection.shares.clone() {
            Some(shares) => shares.of_watch(watch, streams_a_list),
            None => watch,
        })
    }
}

impl<O: Representation> ListWatch<O> for KubeListWatch<O> {
    fn describe(&self) -> String {
        KubeListWatch::describe(self)
    }

    fn supports_streaming_list(&self) -> bool {
        match self.streaming_lists {
            _ if self.splits().is_some() => false,
            StreamingLists::On => true,
            StreamingLists::Off => false,
            StreamingLists::Auto => !self.client.refuses_streaming_lists(&self.kind.gvr()),
        }
    }

    fn streaming_list_failed(&self) {
        self.client.remember_streaming_refusal(self.kind.gvr());
    }

    async fn server_version(&self) -> Option<Arc<str>> {
        self.client.server_version(&self.kind).await
    }

    /// Returns true if this source may split lists by namespace. The reflector then requests lists without a
    /// limit, because a list with a limit cannot be split.
    fn prefers_complete_lists(&self) -> bool {
        self.splits().is_some()
    }
}

impl<O> Clone for KubeListWatch<O> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            kind: Arc::clone(&self.kind),
            selection: self.selection.clone(),
            options: self.options.clone(),
            streaming_lists: self.streaming_lists,
            split_lists: self.split_lists,
            views: self.views.clone(),
            interner: Arc::clone(&self.interner),
            unknown_fields: Arc::clone(&self.unknown_fields),
            listed_protobuf: Arc::clone(&self.listed_protobuf),
            memory: self.memory.clone(),
            #[cfg(feature = "packed")]
            packing: Arc::clone(&self.packing),
            form: PhantomData,
        }
    }
}

impl<O> fmt::Debug for KubeListWatch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeListWatch")
            .field("kind", &self.kind)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}
