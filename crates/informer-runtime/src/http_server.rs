//! HTTP servers for probes, metrics, debug pages and webhooks.
//!
//! # Invariants
//!
//! A server has at most [`MAX_CONNECTIONS`] connections. Each server has a limit for request bodies, and
//! reads no more bytes of a body than that. A peer (the client of a connection) has [`HEADER_TIMEOUT`] for
//! the TLS handshake, for a request head, and for the next request; [`REQUEST_TIMEOUT`] for the body and the
//! handler; [`RESPONSE_TIMEOUT`] to read the response; and [`STALLED_TIMEOUT`] to read the next part of a
//! stream. When the maximum number of connections is reached,
//! the one whose peer has been idle for the longest time is closed in favor of a new one.
//!
//! # Lock order
//!
//! The handler of a path is copied from the table of routes under its lock and runs without the lock.
//!
//! # Shutdown
//!
//! 1. The server accepts no more connections.
//! 2. Running requests have [`DRAIN_TIMEOUT`] to end. Then their connections are closed.

mod access;
#[cfg(feature = "prometheus")]
mod certificate_metrics;
mod response_body;
mod serve;
#[cfg(test)]
pub(crate) mod tests;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use access::Access;
#[cfg(feature = "console")]
pub(crate) use access::AuthenticatedUser;
#[cfg(feature = "prometheus")]
pub(crate) use certificate_metrics::CertificateMetrics;
#[doc(inline)]
pub use informer_http::{Tls, TlsError, TlsOptions, TlsOptionsError, TlsVersion};
#[cfg(feature = "console")]
pub(crate) use response_body::ResponseStream;
pub use tls::ServerTls;

use crate::{BoxError, Runnable, RunnableGroup};

/// The maximum number of connections to one HTTP server of a manager. Probes need two connections, and the
/// API server some dozens for webhooks. A higher limit would only use memory.
const MAX_CONNECTIONS: usize = 512;

/// The timeout for a client's TLS handshake, for the head of a request, and for the next request on a
/// connection. controller-runtime uses the same timeout for the head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// The timeout for reading the body of a request and for its handler. It is the longest time for which an API
/// server waits for a webhook.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for a client to read a response. controller-runtime has the same timeout for a whole request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout for a client to accept a part of a stream. Such a client has crashed, or has stopped reading
/// and holds one of the limited streams.
pub(crate) const STALLED_TIMEOUT: Duration = Duration::from_secs(15);

const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The default limit of request bodies in bytes. The limit is small, because requests for probes, metrics and
/// debug pages have no body.
const MAX_BODY_BYTES: usize = 64 << 10;

pub(crate) type RouteHandler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

#[derive(Clone)]
struct HttpRoute {
    handler: RouteHandler,
    /// True if the route needs no authorization, because its response is the same in every program.
    public: bool,
}

/// An HTTP server that a manager runs: for probes, metrics and debug pages, or for other routes.
///
/// The server binds its address when it runs, so that a port in use stops the manager with an error that
/// names the server. It is ready when it listens.
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use informer_runtime::HttpServer;
///
/// let server = HttpServer::at("127.0.0.1:8081")
///     .route("/version", |_| async { Response::new(Bytes::from_static(b"1.0")) });
/// # drop(server);
/// ```
#[must_use = "add it to a manager"]
pub struct HttpServer {
    pub(crate) name: String,
    pub(crate) group: RunnableGroup,
    address: Address,
    routes: Routes,
    tls: Transport,
    tls_options: Option<TlsOptions>,
    #[cfg(feature = "prometheus")]
    certificates: CertificateMetrics,
    access: Option<Arc<Access>>,
    pub(crate) body_max: usize,
    bound: watch::Sender<Option<SocketAddr>>,
}

/// How connections to a server are protected.
enum Transport {
    /// Plain HTTP, unless clients send tokens.
    Default,
    Plain,
    Tls(ServerTls),
}

enum Address {
    Text(String),
    Listener(TcpListener),
}

/// The handlers of an HTTP server by path. If a path ends with a slash, its handler also receives the
/// requests for all paths below it.
#[derive(Clone, Default)]
struct Routes(Arc<RwLock<BTreeMap<String, HttpRoute>>>);

impl Routes {
    /// Returns the handler of the requested path. If no handler has exactly this path, returns that of the
    /// longest path that ends with a slash and is a prefix of the requested one.
    fn find(&self, path: &str) -> Option<HttpRoute> {
        let routes = self.0.read();
        let prefixes = path.char_indices().rev().filter(|(_, c)| *c == '/').map(|(at, _)| &path[..=at]);
        let exact = routes.get(path.trim_end_matches('/')).or_else(|| routes.get(path));
        exact.or_else(|| prefixes.into_iter().find_map(|prefix| routes.get(prefix))).cloned()
    }
}

impl HttpServer {
    /// Creates an HTTP server that listens at an address with a port, for example `0.0.0.0:8081`, when its
    /// manager runs it.
    pub fn at(address: impl Into<String>) -> Self {
        Self::with(Address::Text(address.into()))
    }

    /// Creates an HTTP server on a listener that is already bound, for example one that was inherited from
    /// the process's parent.
    pub fn on(listener: TcpListener) -> Self {
        Self::with(Address::Listener(listener))
    }

    fn with(address: Address) -> Self {
        Self {
            name: "http server".to_owned(),
            group: RunnableGroup::HttpServers,
            address,
            routes: Routes::default(),
            tls: Transport::Default,
            tls_options: None,
            #[cfg(feature = "prometheus")]
            certificates: CertificateMetrics::default(),
            access: None,
            body_max: MAX_BODY_BYTES,
            bound: watch::Sender::new(None),
        }
    }

    /// Sets the name of this HTTP server in logs and errors.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes this server use HTTPS with the given certificate, instead of plain HTTP: [`Tls`] for PEM files,
    /// or another [`ServerTls`].
    pub fn tls(mut self, tls: impl Into<ServerTls>) -> Self {
        self.tls = Transport::Tls(tls.into());
        self
    }

    /// Sets the versions of TLS and the cipher suites that this server accepts.
    pub fn tls_options(mut self, options: TlsOptions) -> Self {
        self.tls_options = Some(options);
        self
    }

    /// Makes this server use plain HTTP although it [authorizes](Self::authorized_by) requests by tokens, for
    /// example behind a proxy in the same pod.
    pub fn plain_http(mut self) -> Self {
        self.tls = Transport::Plain;
        self
    }

    /// Accepts only requests that the API server allows. The API server authenticates the bearer token
    /// (TokenReview), and the user of the token needs permission for the verb and the path
    /// (`nonResourceURLs`, as in `get` on `/metrics`; SubjectAccessReview).
    ///
    /// Tokens are secrets, so the server uses TLS. Without a certificate from [`tls`](Self::tls), the server
    /// uses a self-signed one, as in controller-runtime. This needs the feature `certificates`; without it
    /// the server fails to start. [`plain_http`](Self::plain_http) disables TLS.
    ///
    /// The results of TokenReviews are cached for a minute, granted permissions for five minutes, and denied
    /// ones for half a minute. Tokens are not stored, only keyed hashes of them. Requests that the API server
    /// rejects cause at most 50 reviews of each type at once, and five a second after that; the response to
    /// further requests is 429 until the limit allows another review. Clients that were accepted before are
    /// not limited.
    ///
    /// Upstream: `WithAuthenticationAndAuthorization`.
    ///
    /// # Permissions
    ///
    /// The server needs permission to `create` `tokenreviews` of `authentication.k8s.io` and
    /// `subjectaccessreviews` of `authorization.k8s.io`.
    pub fn authorized_by(mut self, client: impl Into<informer_client::Client>) -> Self {
        self.access = Some(Arc::new(Access::new(client.into())));
        self
    }

    /// Sets the handler of a path, or of everything below a path with a trailing slash. Replaces an earlier
    /// handler of the path.
    ///
    /// If the handler panics or takes longer than 30 s, the server responds with an error.
    pub fn route<F, Fut>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<Bytes>> + Send + 'static,
    {
        self.add_route(path.into(), false, handler)
    }

    /// Sets the handler of a path that needs no authorization, such as that of a page without data.
    #[cfg(feature = "console")]
    pub(crate) fn public_route<F, Fut>(self, path: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<Bytes>> + Send + 'static,
    {
        self.add_route(path.into(), true, handler)
    }

    fn add_route<F, Fut>(self, path: String, public: bool, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let handler: RouteHandler = Arc::new(move |request| handler(request).boxed());
        self.routes.0.write().insert(path, HttpRoute { handler, public });
        self
    }

    /// Returns true if this server accepts only requests that the API server allows.
    #[cfg(feature = "console")]
    pub(crate) fn authorizes(&self) -> bool {
        self.access.is_some()
    }

    /// Makes the server report its certificate to the metrics of its manager.
    #[cfg(feature = "prometheus")]
    pub(crate) fn counted(mut self, certificates: CertificateMetrics) -> Self {
        self.certificates = certificates;
        self
    }

    #[cfg(feature = "webhook")]
    pub(crate) fn handler(&self, path: &str) -> Option<RouteHandler> {
        self.routes.find(path).map(|route| route.handler)
    }

    /// Waits until a managed certificate can be used. The error after the timeout contains the last problem.
    #[cfg(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs")))]
    fn certificate_ready(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), BoxError>> + Send + 'static {
        let rotation = match &self.tls {
            Transport::Tls(tls) => tls.rotation(),
            Transport::Default | Transport::Plain => None,
        };
        async move {
            let Some(mut rotation) = rotation else { return Ok(()) };
            let ready = async { rotation.wait_for(|status| status.ready).await.map(drop) };
            match tokio::time::timeout(timeout, ready).await {
                Ok(ready) => Ok(ready?),
                Err(_) => {
                    let problem = rotation.borrow().problem.clone();
                    let problem = problem.unwrap_or_else(|| "the API server did not respond".to_owned());
                    Err(format!("the certificate is not ready: {problem}").into())
                }
            }
        }
    }

    #[cfg(not(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs"))))]
    #[expect(clippy::unused_self, reason = "the other variant reads the certificate")]
    fn certificate_ready(&self, _: Duration) -> std::future::Ready<Result<(), BoxError>> {
        std::future::ready(Ok(()))
    }

    /// Returns a receiver of the server's address. The address is `None` until the server listens.
    pub fn bound(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.bound.subscribe()
    }
}

impl From<&str> for HttpServer {
    fn from(address: &str) -> Self {
        Self::at(address)
    }
}

impl From<SocketAddr> for HttpServer {
    fn from(address: SocketAddr) -> Self {
        Self::at(address.to_string())
    }
}

impl From<TcpListener> for HttpServer {
    fn from(listener: TcpListener) -> Self {
        Self::on(listener)
    }
}

impl Runnable for HttpServer {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn group(&self) -> RunnableGroup {
        self.group
    }

    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let mut bound = self.bound.subscribe();
        let certificate = self.certificate_ready(timeout);
        Some(
            async move {
                certificate.await?;
                Ok(bound.wait_for(Option::is_some).await.map(drop)?)
            }
            .boxed(),
        )
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        serve::run(*self, stop).boxed()
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.routes.0.read().keys().cloned().collect();
        f.debug_struct("HttpServer").field("name", &self.name).field("paths", &paths).finish_non_exhaustive()
    }
}

impl Transport {
    /// Returns the certificate of a server; `None` for plain HTTP.
    ///
    /// # Errors
    ///
    /// Returns an error if the server needs a certificate and cannot generate one.
    fn certificate(self, authorizes: bool) -> Result<Option<ServerTls>, BoxError> {
        match self {
            Self::Tls(tls) => Ok(Some(tls)),
            Self::Plain => Ok(None),
            Self::Default if !authorizes => Ok(None),
            #[cfg(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs")))]
            Self::Default => Ok(Some(ServerTls::self_signed())),
            #[cfg(not(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs"))))]
            Self::Default => {
                let problem = "authorize requests by tokens: the server has no certificate";
                Err(format!("{problem}; set one, enable the feature `certificates`, or call plain_http")
                    .into())
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "listen at {address} for {name}: the address is not available; is the port free, and is it an address of this host?"
)]
pub(crate) struct ListenError {
    name: String,
    address: String,
    #[source]
    cause: std::io::Error,
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    typed_response(status, "text/plain; charset=utf-8", text)
}

pub(crate) fn typed_response(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    response
}
