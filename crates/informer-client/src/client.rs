//! The HTTP side: one connection pool on kube's configuration, without a retry.

mod body;
mod connections;
mod error;
mod gzip;
mod stack;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use informer_core::{Gvk, Gvr};
use informer_schema::{Schema, SharedKind};
use kube_client::Config;
use parking_lot::Mutex;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::ResourceKind;

pub(crate) use body::BodyError;
pub use body::ResponseBody;
pub use error::{ClientError, RequestError};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxService = BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody>, BoxError>;

/// A client of one API server. Clones are cheap and share the connections.
///
/// Built on [`kube_client::Config`], of which it uses the authentication (exec plugins and token refresh included), the
/// TLS settings, the proxy and the headers, with an HTTP stack of its own: nothing is retried, HTTP/2 is spoken where the
/// server offers it, and a silent dead peer is noticed within 45 s on both HTTP versions.
///
/// It needs a tokio runtime when it sends, not when it is made.
///
/// # A client of kube
///
/// `Client::from` takes a [`kube_client::Client`] (and with it anything that is one, as a test service). Its own
/// layers stay in the way then: by default it retries 429, 503 and 504 up to 15 times, so that a reflector sees neither
/// these statuses nor their `Retry-After` before the retries are used up. Set `Config::default_retry = false` in such a
/// client, or use this one.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Transport,
    address: String,
    default_namespace: String,
    user_agent: HeaderValue,
    gzip: bool,
    /// The kinds whose streaming list this server refused.
    streaming_refusals: Mutex<HashSet<Gvr>>,
    /// The kinds that this server has not in protobuf, whole or as metadata alone.
    json_only: Mutex<HashSet<(Gvr, bool)>>,
    /// Kinds of which a split list failed.
    whole_lists: Mutex<HashSet<Gvr>>,
    /// The table of the built-in kinds, once it was needed.
    schema: OnceLock<Arc<Schema>>,
}

enum Transport {
    Own(BoxService),
    Kube(kube_client::Client),
}

/// What of a client can be chosen.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Asks for compressed answers. By default unless the server is on the loopback device, where compression costs
    /// more than it saves.
    pub gzip: Option<bool>,
    /// Speaks HTTP/2 without TLS, to a server that is known to understand it.
    pub http2_prior_knowledge: bool,
    /// The `User-Agent`. `informer/VERSION (OS/ARCHITECTURE)` by default.
    pub user_agent: Option<HeaderValue>,
}

impl Client {
    /// A client as the environment configures it: kubeconfig, or the service account inside a cluster.
    ///
    /// # Errors
    ///
    /// When there is no configuration, or it cannot be used.
    pub async fn try_default() -> Result<Self, ClientError> {
        Self::new(Config::infer().await.map_err(ClientError::infer)?)
    }

    /// A client of a configuration.
    ///
    /// # Errors
    ///
    /// When certificates, credentials or the proxy of the configuration cannot be used.
    pub fn new(config: Config) -> Result<Self, ClientError> {
        Self::with_options(config, ClientOptions::default())
    }

    /// A client of a configuration, with options.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_options(config: Config, options: ClientOptions) -> Result<Self, ClientError> {
        let gzip = options.gzip.unwrap_or_else(|| !stack::is_loopback(&config.cluster_url));
        let gzip = gzip && !config.disable_compression;
        let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let service = stack::service(&config, &options)?;
        Ok(Self::assemble(Transport::Own(service), address, namespace, gzip, options.user_agent))
    }

    /// A client of any service that answers as an API server does, in this process or elsewhere.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service.map_response(|response: Response<B>| response.map(ResponseBody::new));
        let transport = Transport::Own(BoxCloneSyncService::new(service.map_err(Into::into)));
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
        let user_agent = user_agent.unwrap_or_else(|| {
            let text = format!(
                "informer/{} ({}/{})",
                env!("CARGO_PKG_VERSION"),
                std::env::consts::OS,
                std::env::consts::ARCH
            );
            HeaderValue::try_from(text).expect("names of systems are plain text")
        });
        let inner = Inner {
            transport,
            address,
            default_namespace,
            user_agent,
            gzip,
            streaming_refusals: Mutex::default(),
            json_only: Mutex::default(),
            whole_lists: Mutex::default(),
            schema: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where the server is, as errors say it: a URL, or words where there is none.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// The namespace of the configuration; `default` where it has none.
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// Sends one request; its URI is path and query. The answer comes as it is, whatever its status, decompressed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the body ends the request.
    ///
    /// # Errors
    ///
    /// When no answer comes: no connection, no credentials.
    pub async fn request(&self, mut request: Request<Bytes>) -> Result<Response<ResponseBody>, RequestError> {
        let inner = &self.inner;
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert_with(|| inner.user_agent.clone());
        // kube's own decompression reads one gzip member only; a watch has one for each event.
        let encoding = if inner.gzip { "gzip" } else { "identity" };
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static(encoding));
        let answer = match &inner.transport {
            Transport::Own(service) => service.clone().oneshot(request.map(Full::new)).await,
            Transport::Kube(client) => {
                let answer = client.send(request.map(kube_client::client::Body::from)).await;
                answer.map(|response| response.map(ResponseBody::new)).map_err(Into::into)
            }
        };
        let response = answer.map_err(|error| RequestError::new(&inner.address, error))?;
        Ok(decompressed(response))
    }

    /// True where a streaming list of the collection was refused before.
    pub(crate) fn refuses_streaming_lists(&self, gvr: &Gvr) -> bool {
        self.inner.streaming_refusals.lock().contains(gvr)
    }

    /// True where a split list of the collection failed before.
    pub(crate) fn wants_whole_lists(&self, gvr: &Gvr) -> bool {
        self.inner.whole_lists.lock().contains(gvr)
    }

    /// Remembers that a split list failed. The set is bounded by the number of kinds that are watched.
    pub(crate) fn remember_whole_lists(&self, gvr: Gvr) {
        self.inner.whole_lists.lock().insert(gvr);
    }

    /// Remembers that a streaming list was refused. The set is bounded by the number of kinds that are watched.
    pub(crate) fn remember_streaming_refusal(&self, gvr: Gvr) {
        self.inner.streaming_refusals.lock().insert(gvr);
    }
}

impl Client {
    /// What is known of the protobuf form of a kind, if the server may have one. Metadata has the same form for all kinds.
    pub(crate) fn protobuf_of(&self, kind: &ResourceKind, metadata_only: bool) -> Option<SharedKind> {
        if self.inner.json_only.lock().contains(&(kind.gvr(), metadata_only)) {
            return None;
        }
        let schema = self.inner.schema.get_or_init(|| Arc::new(Schema::builtin()));
        if metadata_only {
            return schema.shared_kind(&Gvk::new("meta.k8s.io", "v1", "PartialObjectMetadata"));
        }
        let resource = schema.resource(&kind.gvr())?;
        let answers = resource.response_kind();
        let is_ours = (answers.group, answers.version, answers.kind)
            == (&*kind.gvk().group, &*kind.gvk().version, kind.kind());
        is_ours.then(|| schema.shared_kind(kind.gvk())).flatten().filter(|found| found.kind().has_protobuf())
    }

    /// Remembers that a kind comes as JSON. The set is bounded by the number of kinds that are watched.
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
    /// The client of the `Api`; [`KubeListWatch::from_api`](crate::KubeListWatch::from_api) also takes its namespace.
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
