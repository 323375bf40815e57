//! The HTTP client of this crate: connection pools and TLS from kube's configuration. [`Client`] describes
//! which requests it repeats.

mod authenticated;
mod body;
mod connections;
mod connector;
mod credentials;
mod error;
mod gzip;
mod kubeconfig;
mod program;
mod server_version;
mod stack;
mod warnings;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use informer_core::{Gvk, Gvr};
use informer_schema::{Schema, SharedKindSchema};
use kube_client::Config;
use kube_client::config::Kubeconfig;
use parking_lot::Mutex;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::unknown_fields::{UnknownFields, UnknownFieldsLog};
use crate::{ResourceKind, TraceContext, TracePropagation};

pub(crate) use body::BodyError;
pub use body::ResponseBody;
pub use error::{ClientError, RequestError};
pub use program::program_name;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxService = BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody>, BoxError>;
type NewService = Arc<dyn Fn(Protocols) -> BoxService + Send + Sync>;

/// The HTTP versions that the connections of a service may use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Protocols {
    Negotiated,
    /// HTTP/1.1, which supports protocol upgrades.
    Http1,
}

/// A client for one API server. Clones are cheap and share connections.
///
/// The client takes authentication, TLS settings, proxy and headers from [`kube_client::Config`], but has its
/// own HTTP stack. It uses HTTP/2 if the server offers it, and detects an unresponsive server within 45 s.
///
/// # Retries
///
/// [`request`](Self::request), which informers use, repeats a request only if the credentials were outdated,
/// or if an HTTP/2 server closed the connection or the stream without processing the request.
/// [`call`](Self::call) also repeats idempotent requests that the server rejects with 429 or 5xx and
/// `Retry-After`, within the limits of [`CallRetries`](crate::CallRetries).
///
/// # Warnings
///
/// The API server sends warnings in `Warning` headers, for example if a request uses a deprecated API
/// version. The client logs each text once. It remembers 1,024 texts; clones share them.
///
/// # Credentials
///
/// Token files, client certificate files and key files are read again every minute. An exec plugin runs with
/// the first request, and again before its credentials expire. It has [a
/// timeout](ClientOptions::exec_timeout).
///
/// If the server responds with 401 or rejects the client certificate, the client reads the files or runs the
/// plugin immediately. It sends the request once more if the credentials changed. After a certificate change,
/// new requests use new connections; requests in flight, such as watches, finish on the old ones. If a file
/// or a plugin fails, the previous credentials stay in use until they expire.
///
/// Sending a request needs a tokio runtime; creating a client does not.
///
/// # Use with kube's client
///
/// `Client::from` accepts a [`kube_client::Client`], which can wrap any tower service, such as a mock. The
/// layers of that client stay active. By default it retries 429, 503 and 504 up to 15 times, so a reflector
/// sees these statuses and their `Retry-After` only after the last retry. Set `Config::default_retry = false`
/// for such a client, or create a client with [`Client::new`].
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    inner: Arc<Inner>,
    traces: Option<Arc<dyn TracePropagation>>,
}

/// State of a client that is shared by its clones and by the clients that
/// [`Client::with_separate_connections`] returns.
struct Inner {
    address: String,
    default_namespace: String,
    user_agent: HeaderValue,
    gzip: bool,
    /// The kinds for which the server rejected a streaming list (a watch with initial events). Later lists of
    /// these kinds are ordinary list requests.
    streaming_refusals: Mutex<HashSet<Gvr>>,
    /// The kinds that the server does not serve as protobuf, so that they are requested as JSON. The second
    /// element is true if the server rejected protobuf for metadata-only requests of the kind, and false if
    /// it rejected protobuf for whole objects.
    json_only: Mutex<HashSet<(Gvr, bool)>>,
    /// The kinds for which a split list failed. Lists of these kinds are no longer split by namespace.
    whole_lists: Mutex<HashSet<Gvr>>,
    server_version: server_version::Cached,
    /// The kinds for which the server sends fields that the built-in schema does not contain.
    unknown_fields: UnknownFieldsLog,
    warnings: warnings::Warnings,
}

pub(crate) enum Transport {
    /// An HTTP service, and the function that builds another service with separate connections if the client
    /// was created from a configuration.
    Own(BoxService, Option<NewService>),
    Kube(kube_client::Client),
}

/// Options of a [`Client`].
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Whether to request gzip-compressed responses. The default is true, except for servers on the loopback
    /// device, where compression costs more than it saves.
    pub gzip: Option<bool>,
    /// Whether to use HTTP/2 without TLS and without negotiation. The server must support HTTP/2 on plain
    /// connections.
    pub http2_prior_knowledge: bool,
    /// The `User-Agent` header of the client's requests. The default is `PROGRAM/unknown (OS/ARCHITECTURE)
    /// informer/VERSION`, with [`program_name`] as PROGRAM. An API server uses the part before the slash as
    /// the field manager of writes that set none.
    pub user_agent: Option<HeaderValue>,
    /// The timeout of an exec plugin, which is killed when it runs longer. The default is 60 s. A plugin that
    /// waits for the user, for example for a login in the browser, needs a longer timeout.
    pub exec_timeout: Option<Duration>,
}

impl Client {
    /// Creates a client from the environment: from the kubeconfig, or from the service account inside a
    /// cluster.
    ///
    /// The CA certificate file is read again every minute, so that the server's CA can be rotated. Clients of
    /// the other constructors read [`Config::root_cert_file`] again in the same way.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no configuration, or if it is invalid.
    pub async fn try_default() -> Result<Self, ClientError> {
        let authority = || Kubeconfig::read().ok().as_ref().and_then(kubeconfig::authority_file);
        let mut config = Config::infer().await.map_err(|cause| ClientError::infer(cause, authority))?;
        if config.root_cert_file.is_none() {
            config.root_cert_file = authority();
        }
        Self::new(config)
    }

    /// Creates a client from a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if certificates, credentials or the proxy of the configuration are invalid.
    pub fn new(config: Config) -> Result<Self, ClientError> {
        Self::with_options(config, ClientOptions::default())
    }

    /// Creates a client from a configuration, with options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn with_options(config: Config, options: ClientOptions) -> Result<Self, ClientError> {
        let gzip = options.gzip.unwrap_or_else(|| !stack::is_loopback(&config.cluster_url));
        let gzip = gzip && !config.disable_compression;
        let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let new_service = stack::service(&config, &options)?;
        let transport = Transport::Own(new_service(Protocols::Negotiated), Some(new_service));
        Ok(Self::assemble(transport, address, namespace, gzip, options.user_agent))
    }

    /// Returns a client with separate connections to the same server, and with the same credentials.
    ///
    /// Requests of the returned client neither queue behind requests of `self` nor fail with the connections
    /// of `self`. Leader election and shard membership use such a client by default. The returned client
    /// opens no connection before its first request.
    ///
    /// Returns a clone if `self` was created from a service or from a [`kube_client::Client`], because then
    /// there is no configuration to connect with.
    pub fn with_separate_connections(&self) -> Self {
        self.with_connections(Protocols::Negotiated)
    }

    /// Returns a client with separate connections on which protocols can be upgraded to WebSocket, if the
    /// feature `ws` is enabled. Returns a clone if this client was created from a service.
    pub(crate) fn with_upgradable_connections(&self) -> Self {
        self.with_connections(if cfg!(feature = "ws") { Protocols::Http1 } else { Protocols::Negotiated })
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    fn with_connections(&self, protocols: Protocols) -> Self {
        match &*self.transport {
            Transport::Own(_, Some(new_service)) => {
                let transport = Transport::Own(new_service(protocols), Some(Arc::clone(new_service)));
                Self { transport: Arc::new(transport), ..self.clone() }
            }
            Transport::Own(_, None) | Transport::Kube(_) => self.clone(),
        }
    }

    /// Creates a client from a tower service that responds like an API server, for example an in-process
    /// server.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service.map_response(|response: Response<B>| response.map(ResponseBody::new));
        let transport = Transport::Own(BoxCloneSyncService::new(service.map_err(Into::into)), None);
        Self::assemble(
            transport,
            "(a service in this process)".to_owned(),
            default_namespace.into(),
            false,
            None,
        )
    }

    fn assemble(
        transport: Transport,
        address: String,
        default_namespace: String,
        gzip: bool,
        user_agent: Option<HeaderValue>,
    ) -> Self {
        let user_agent = user_agent.unwrap_or_else(program::user_agent);
        let inner = Inner {
            address,
            default_namespace,
            user_agent,
            gzip,
            streaming_refusals: Mutex::default(),
            json_only: Mutex::default(),
            whole_lists: Mutex::default(),
            server_version: server_version::Cached::default(),
            unknown_fields: UnknownFieldsLog::default(),
            warnings: warnings::Warnings::default(),
        };
        Self { transport: Arc::new(transport), inner: Arc::new(inner), traces: None }
    }

    /// Sends the context of the current span in the headers `traceparent` and `tracestate` of each request,
    /// and lets controllers link reconciles to traces. This applies to this handle, and to its later clones
    /// and the managers and caches that are created with them.
    ///
    /// kube-apiserver continues the trace if its tracing is configured. Requests outside of a span, such as
    /// the lists and watches of informers, have no trace context.
    #[must_use = "the method returns the client with the propagation"]
    pub fn trace_propagation(self, traces: impl TracePropagation) -> Self {
        Self { traces: Some(Arc::new(traces)), ..self }
    }

    /// Returns the context of the current span; `None` outside of a trace, or without
    /// [`trace_propagation`](Self::trace_propagation). [`TraceContext::annotate`] stores it in an object.
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.traces.as_ref()?.current()
    }

    /// Links a span of this program to the span of another one; see
    /// [`TracePropagation::link`].
    pub fn link_trace(&self, span: &tracing::Span, to: &TraceContext) {
        if let Some(traces) = &self.traces {
            traces.link(span, to);
        }
    }

    /// Returns the server's address for error messages: its URL, or a description if the client has no URL.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Returns the default namespace of the client's configuration, or `default` if the configuration sets
    /// none.
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// Sends one request. The URI of `request` consists of path and query. Returns the decompressed response
    /// with any status.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the response body cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the server sends no response, for example because the connection fails or
    /// credentials cannot be obtained.
    pub async fn request(&self, mut request: Request<Bytes>) -> Result<Response<ResponseBody>, RequestError> {
        let inner = &self.inner;
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert_with(|| inner.user_agent.clone());
        // The client requests and decompresses gzip itself, because kube's decompression reads only one gzip
        // member, and a watch response has one member for each event.
        let encoding = if inner.gzip { "gzip" } else { "identity" };
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static(encoding));
        if let Some(context) = self.trace_context() {
            context.inject(headers);
        }
        let result = match &*self.transport {
            Transport::Own(service, _) => service.clone().oneshot(request.map(Full::new)).await,
            Transport::Kube(client) => {
                let result = client.send(request.map(kube_client::client::Body::from)).await;
                result.map(|response| response.map(ResponseBody::new)).map_err(Into::into)
            }
        };
        let response = result.map_err(|error| RequestError::new(&inner.address, error))?;
        inner.warnings.log(&inner.address, response.headers());
        Ok(decompressed(response))
    }

    pub(crate) fn refuses_streaming_lists(&self, gvr: &Gvr) -> bool {
        self.inner.streaming_refusals.lock().contains(gvr)
    }

    pub(crate) fn wants_whole_lists(&self, gvr: &Gvr) -> bool {
        self.inner.whole_lists.lock().contains(gvr)
    }

    /// Records that a split list of this kind failed, so that later lists of the kind are not split by
    /// namespace. The record is bounded by the number of watched kinds.
    pub(crate) fn remember_whole_lists(&self, gvr: Gvr) {
        self.inner.whole_lists.lock().insert(gvr);
    }

    /// Records that the server rejected a streaming list of this kind, so that later lists of the kind are
    /// ordinary list requests. The record is bounded by the number of watched kinds.
    pub(crate) fn remember_streaming_refusal(&self, gvr: Gvr) {
        self.inner.streaming_refusals.lock().insert(gvr);
    }
}

impl Client {
    /// Returns the kinds for which the server has sent fields that the built-in schema does not contain, in
    /// the order of their discovery. Such a server is newer than this library. Updates of these objects
    /// remain correct, but can need an additional request. A newer version of the library avoids this
    /// request.
    ///
    /// Objects that arrived as protobuf are checked when a read or an update depends on unknown fields. In
    /// addition, samples are checked on arrival: the first objects of each list and watch, and every 128th
    /// after them. Objects that arrived as JSON are not checked, because they contain all fields.
    pub fn kinds_with_unknown_fields(&self) -> Vec<Gvk> {
        self.inner.unknown_fields.found()
    }

    /// Registers an observer that is called once for each of the [kinds with unknown
    /// fields](Self::kinds_with_unknown_fields). The observer is called immediately for kinds that are
    /// already known, and for each further kind when it is found. The client keeps each observer until the
    /// client is dropped, and at most 1,024 observers; any further observer is called only for the kinds that
    /// are already known. An observer must not block. Any task can call an observer.
    pub fn observe_unknown_fields(&self, observer: impl Fn(&Gvk) + Send + Sync + 'static) {
        self.inner.unknown_fields.observe(Arc::new(observer));
    }

    pub(crate) fn unknown_fields_of(&self, kind: &ResourceKind, metadata_only: bool) -> Arc<UnknownFields> {
        self.inner.unknown_fields.of(kind, metadata_only)
    }

    /// Returns the protobuf schema of a kind, or `None` if the server does not serve the kind as protobuf.
    /// Metadata-only requests of all kinds have the schema of `PartialObjectMetadata`, which the server
    /// returns for them.
    pub(crate) fn protobuf_of(&self, kind: &ResourceKind, metadata_only: bool) -> Option<SharedKindSchema> {
        if self.inner.json_only.lock().contains(&(kind.gvr(), metadata_only)) {
            return None;
        }
        let schema = Schema::builtin();
        if metadata_only {
            return schema.shared_kind(&Gvk::new("meta.k8s.io", "v1", "PartialObjectMetadata"));
        }
        let resource = schema.resource(&kind.gvr())?;
        let response = resource.response_kind();
        let is_ours = (response.group, response.version, response.kind)
            == (&*kind.gvk().group, &*kind.gvk().version, kind.kind());
        is_ours.then(|| schema.shared_kind(kind.gvk())).flatten().filter(|found| found.kind().has_protobuf())
    }

    /// Records that the server does not serve this kind as protobuf, so that it is requested as JSON from now
    /// on. The record is bounded by twice the number of watched kinds.
    pub(crate) fn remember_json(&self, kind: &ResourceKind, metadata_only: bool) {
        self.inner.json_only.lock().insert((kind.gvr(), metadata_only));
    }
}

fn decompressed(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let gzipped = response.headers().get(CONTENT_ENCODING).is_some_and(|value| value.as_bytes() == b"gzip");
    if !gzipped {
        return response;
    }
    response.headers_mut().remove(CONTENT_ENCODING);
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    response.map(|body| ResponseBody::new(gzip::GzipBody::new(body)))
}

impl From<kube_client::Client> for Client {
    fn from(client: kube_client::Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        let address = "(the server of a kube client)".to_owned();
        Self::assemble(Transport::Kube(client), address, namespace, false, None)
    }
}

impl<K: kube_core::Resource> From<kube_client::Api<K>> for Client {
    /// Returns the client of a kube `Api`. [`KubeListWatch::from_api`](crate::KubeListWatch::from_api) also
    /// uses the namespace of the `Api`.
    fn from(api: kube_client::Api<K>) -> Self {
        Self::from(api.into_client())
    }
}

impl From<&Client> for Client {
    fn from(client: &Client) -> Self {
        client.clone()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.address).finish_non_exhaustive()
    }
}
