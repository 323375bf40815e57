//! The server on a TCP socket.
//!
//! # Shutdown
//!
//! [`Listening::shutdown`] first closes the listener, and then ends all watches. Each connection finishes the
//! responses in flight. After a timeout the remaining connections are closed.

mod browser;
mod service;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_http::{Server, ServerOptions, Sleep, Timeouts};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::clock::Clock;
use crate::http::{ApiService, Frontend, web_ui};
use crate::tls::{Certificate, ListenerTls};
use service::RemoteService;

/// The maximum number of connections to one listener. The limit of file descriptors is usually lower. Beyond
/// it, idle connections are closed in favor of new ones.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Time that a shutdown waits for responses in flight. Without this limit a stalled response would block it
/// forever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeouts of connections. kube-apiserver has the same timeouts for request heads and idle connections.
/// Its timeout of 60 s limits a whole request, not only the response, and a watch that its client does not
/// read has no timeout.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(32),
    idle: Duration::from_secs(90),
    response: Duration::from_secs(60),
    stalled: None,
};

/// A server that listens on a TCP socket. Dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct Listening {
    frontend: Arc<Frontend>,
    server: Server,
    /// The CA certificates of the server as PEM; `None` without TLS.
    authorities: Option<String>,
}

impl Listening {
    /// Starts to serve on a bound socket. `tls` contains the TLS configuration and the CA certificates for
    /// kubeconfigs.
    pub(crate) fn start(
        frontend: &Arc<Frontend>,
        listener: TcpListener,
        tls: Option<(ListenerTls, String)>,
    ) -> io::Result<Self> {
        let (tls, authorities) = tls.unzip();
        let (config, client_verifier) = tls.map(|tls| (tls.config, tls.client_verifier)).unzip();
        let options = ServerOptions {
            clock: Arc::new(ServerClock(Arc::clone(&frontend.clock))),
            tls: config,
            max_connections: MAX_CONNECTIONS,
            timeouts: TIMEOUTS,
            http2_streams: Some(frontend.http2_streams),
        };
        let service = RemoteService::new(ApiService::new(Arc::clone(frontend)), client_verifier.flatten());
        let server = Server::start(listener, options, service)?;
        Ok(Self { frontend: Arc::clone(frontend), server, authorities })
    }

    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Returns the base URL of the server: `https` with TLS, else `http`.
    pub fn url(&self) -> String {
        let scheme = if self.authorities.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr())
    }

    /// Returns the URL of the web UI. The server responds to it if
    /// [`ApiServerBuilder::web_ui`](crate::ApiServerBuilder::web_ui) is enabled.
    pub fn web_ui_url(&self) -> String {
        format!("{}{}", self.url(), web_ui::path())
    }

    /// Returns a kubeconfig for this server, without credentials.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for(&json!({}))
    }

    /// Returns a kubeconfig for this server that authenticates with a client certificate.
    pub fn kubeconfig_of(&self, user: &Certificate) -> String {
        self.kubeconfig_for(&json!({
            "client-certificate-data": STANDARD.encode(user.chain()),
            "client-key-data": STANDARD.encode(user.key()),
        }))
    }

    /// Returns a kubeconfig for this server that authenticates with a bearer token.
    pub fn kubeconfig_with(&self, token: &str) -> String {
        self.kubeconfig_for(&json!({"token": token}))
    }

    fn kubeconfig_for(&self, user: &Value) -> String {
        let mut cluster = json!({"server": self.url()});
        if let Some(pem) = &self.authorities {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        // The objects in this YAML text are formatted as JSON, which is valid YAML.
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: informer\nclusters:\n- name: informer\n  cluster: \
             {cluster}\ncontexts:\n- name: informer\n  context:\n    cluster: informer\n    user: informer\n\
             users:\n- name: informer\n  user: {user}\n"
        )
    }

    /// Shuts the server down gracefully.
    ///
    /// Closes the listener, ends all watches normally, and waits for the responses in flight. After five
    /// seconds of the runtime's time it closes the remaining connections, because a fault may have stalled a
    /// response.
    pub async fn shutdown(self) {
        self.server.stop();
        self.frontend.end_watches();
        self.server.drain(DRAIN_TIMEOUT).await;
    }

    /// Closes all connections immediately, including those with responses in flight.
    ///
    /// The listener stays open. To simulate a crash, drop the handle instead: that closes the listener, too.
    pub fn cut_connections(&self) {
        self.server.cut_connections();
    }
}

/// The server's clock, which also times the connections.
#[derive(Debug)]
struct ServerClock(Arc<dyn Clock>);

impl informer_http::Clock for ServerClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        self.0.sleep_until(at)
    }
}
