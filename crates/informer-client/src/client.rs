//! The HTTP client: connection pools on kube's configuration, without retries.

mod authenticated;
mod body;
mod connections;
mod credentials;
mod error;
mod gzip;
mod kubeconfig;
mod program;
mod server_version;
mod stack;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
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
use crate::{ListKeys, ResourceKind};

pub(crate) use body::BodyError;
pub use body::ResponseBody;
pub use error::{ClientError, RequestError};
pub use program::program_name;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxService = BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody>, BoxError>;
/// Makes a service that has its own connections.
type NewService = Arc<dyn Fn() -> BoxService + Send + Sync>;

/// A client of one API server. Clones are cheap and share the connections.
///
/// Built on [`kube_client::Config`], of which it uses the authentication, the TLS settings, the proxy and the headers, with
/// an HTTP stack of its own: only requests with outdated credentials are retried, HTTP/2 is used if the server offers it,
/// and a silent dead peer is noticed within 45 s on both HTTP versions.
///
/// # Credentials
///
/// Token files, client certificate files and their keys are read again every minute. An exec plugin runs with the first
/// request, and again before its credentials expire; it has [a time limit](ClientOptions::exec_timeout). When the server
/// answers 401, or rejects the client certificate, the client reads the files or runs the plugin at once, and sends the
/// request once more if the credentials changed. After a change of the certificate, new requests use new connections;
/// requests in flight, such as watches, end on the old ones. If a file or a plugin fails, the previous credentials stay
/// in use until they expire.
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
    transport: Arc<Transport>,
    inner: Arc<Inner>,
}

/// The state that clients of one configuration share, whatever their connections.
struct Inner {
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
    /// The last response of `/version`.
    server_version: server_version::Cached,
    /// The kinds of which the server sends fields that the table does not know.
    unknown_fields: UnknownFieldsLog,
}

enum Transport {
    /// The service and, if it was built from a configuration, the function that builds another one.
    Own(BoxService, Option<NewService>),
    Kube(kube_client::Client),
}

/// What of a client can be chosen.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Asks for compressed answers. By default unless the server is on the loopback device, where compression
    /// costs more than it saves.
    pub gzip: Option<bool>,
    /// Speaks HTTP/2 without TLS, to a server that is known to understand it.
    pub http2_prior_knowledge: bool,
    /// The `User-Agent`. By default `PROGRAM/unknown (OS/ARCHITECTURE) informer/VERSION`, with
    /// [`program_name`] as PROGRAM. API servers use the part before the slash as field manager of writes that
    /// name none.
    pub user_agent: Option<HeaderValue>,
    /// How long an exec plugin of the kubeconfig may run before it is killed. 60 s by default. A plugin that
    /// waits for a person, for example to log in with a browser, needs more.
    pub exec_timeout: Option<Duration>,
}

impl Client {
    /// Returns a client as the environment configures it: kubeconfig, or the service account inside a
    /// cluster.
    ///
    /// A file of the certificate authority is read again every minute, so that the server's authority can be rotated. Other
    /// constructors do that for [`Config::root_cert_file`].
    ///
    /// # Errors
    ///
    /// When there is no configuration, or it cannot be used.
    pub async fn try_default() -> Result<Self, ClientError> {
        let mut config = Config::infer().await.map_err(ClientError::infer)?;
        if config.root_cert_file.is_none() {
            let kubeconfig = Kubeconfig::read().ok();
            config.root_cert_file = kubeconfig.as_ref().and_then(kubeconfig::authority_file);
        }
        Self::new(config)
    }

    /// Returns a client of a configuration.
    ///
    /// # Errors
    ///
    /// When certificates, credentials or the proxy of the configuration cannot be used.
    pub fn new(config: Config) -> Result<Self, ClientError> {
        Self::with_options(config, ClientOptions::default())
    }

    /// Returns a client of a configuration, with options.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_options(config: Config, options: ClientOptions) -> Result<Self, ClientError> {
        let gzip = options.gzip.unwrap_or_else(|| !stack::is_loopback(&config.cluster_url));
        let gzip = gzip && !config.disable_compression;
        let (address, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let new_service = stack::service(&config, &options)?;
        let transport = Transport::Own(new_service(), Some(new_service));
        Ok(Self::assemble(transport, address, namespace, gzip, options.user_agent))
    }

    /// Returns a client of the same server, with the same credentials, that has its own connections.
    ///
    /// Its requests do not wait for a connection that the requests of `self` keep busy, and cannot fail with that
    /// connection. Leader election and shard membership use it by default. No connection is opened before the first
    /// request.
    ///
    /// A client that was made from a service or from a [`kube_client::Client`] has no configuration: the result is then a
    /// clone.
    pub fn with_separate_connections(&self) -> Self {
        match &*self.transport {
            Transport::Own(_, Some(new_service)) => {
                let transport = Transport::Own(new_service(), Some(Arc::clone(new_service)));
                Self { transport: Arc::new(transport), inner: Arc::clone(&self.inner) }
            }
            Transport::Own(_, None) | Transport::Kube(_) => self.clone(),
        }
    }

    /// Returns a client of any service that answers as an API server does, in this process or elsewhere.
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
            schema: OnceLock::new(),
            server_version: server_version::Cached::default(),
            unknown_fields: UnknownFieldsLog::default(),
        };
        Self { transport: Arc::new(transport), inner: Arc::new(inner) }
    }

    /// Where the server is, as errors say it: a URL, or words where there is none.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Returns the namespace of the configuration; `default` where it has none.
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// Sends one request; its URI is path and query. The answer comes as it is, whatever its status,
    /// decompressed.
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
        let answer = match &*self.transport {
            Transport::Own(service, _) => service.clone().oneshot(request.map(Full::new)).await,
            Transport::Kube(client) => {
                let answer = client.send(request.map(kube_client::client::Body::from)).await;
                answer.map(|response| response.map(ResponseBody::new)).map_err(Into::into)
            }
        };
        let response = answer.map_err(|error| RequestError::new(&inner.address, error))?;
        Ok(decompressed(response))
    }

    /// Returns true if a streaming list of the collection was refused before.
    pub(crate) fn refuses_streaming_lists(&self, gvr: &Gvr) -> bool {
        self.inner.streaming_refusals.lock().contains(gvr)
    }

    /// Returns true if a split list of the collection failed before.
    pub(crate) fn wants_whole_lists(&self, gvr: &Gvr) -> bool {
        self.inner.whole_lists.lock().contains(gvr)
    }

    /// Remembers that a split list failed. The set is bounded by the number of kinds that are watched.
    pub(crate) fn remember_whole_lists(&self, gvr: Gvr) {
        self.inner.whole_lists.lock().insert(gvr);
    }

    /// Remembers that a streaming list was refused. The set is bounded by the number of kinds that are
    /// watched.
    pub(crate) fn remember_streaming_refusal(&self, gvr: Gvr) {
        self.inner.streaming_refusals.lock().insert(gvr);
    }
}

impl Client {
    /// Returns the kinds of which the server has sent fields that the built-in table does not know, in the
    /// order in which they were found: the server is newer than this library. Updates of such objects remain
    /// correct, but may cost another request; a newer version of the library avoids it.
    ///
    /// Objects that are read from protobuf are examined when a read or an update depends on it. Of the others a
    /// sample is examined: the first objects of each list and watch, and one in 128 after them.
    pub fn kinds_with_unknown_fields(&self) -> Vec<Gvk> {
        self.inner.unknown_fields.found()
    }

    /// Calls `observer` once with each of the [kinds with unknown fields](Self::kinds_with_unknown_fields):
    /// those found before at once, the others when they are found. The client keeps the observer for its
    /// lifetime, and at most 1,024 of them; any further one receives only the kinds found before. An observer
    /// must not block, and may be called by any task.
    pub fn observe_unknown_fields(&self, observer: impl Fn(&Gvk) + Send + Sync + 'static) {
        self.inner.unknown_fields.observe(Arc::new(observer));
    }

    /// Returns the list map keys and merge keys of a built-in kind: the fields that identify the elements of
    /// its lists.
    pub fn list_keys(&self, kind: &Gvk) -> ListKeys {
        ListKeys::of_table(self.schema(), kind)
    }

    fn schema(&self) -> &Arc<Schema> {
        self.inner.schema.get_or_init(|| Arc::new(Schema::builtin()))
    }

    /// Returns the record of unknown fields of a kind.
    pub(crate) fn unknown_fields_of(&self, kind: &ResourceKind) -> Arc<UnknownFields> {
        self.inner.unknown_fields.of(kind)
    }

    /// What is known of the protobuf form of a kind, if the server may have one. Metadata has the same form
    /// for all kinds.
    pub(crate) fn protobuf_of(&self, kind: &ResourceKind, metadata_only: bool) -> Option<SharedKindSchema> {
        if self.inner.json_only.lock().contains(&(kind.gvr(), metadata_only)) {
            return None;
        }
        let schema = self.schema();
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
    /// Returns the client of the `Api`; [`KubeListWatch::from_api`](crate::KubeListWatch::from_api) also
    /// takes its namespace.
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
