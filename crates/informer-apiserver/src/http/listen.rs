//! The server on a TCP socket.
//!
//! # Shutdown
//!
//! [`Listening::shutdown`] first cancels a token, which closes the listener, and then ends all watches. Each
//! connection finishes the responses in flight. After a timeout the remaining connections are closed.

mod accept;
mod browser;
mod in_flight;
mod refused;
mod socket;
mod timeouts;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use accept::Acceptor;

pub(crate) use in_flight::InFlightGuard;

use crate::http::{ApiService, Frontend};
use crate::tls::{Certificate, ListenerTls};

/// Time that a shutdown waits for responses in flight. Without this limit a stalled response would block it
/// forever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that listens on a TCP socket. Dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    frontend: Arc<Frontend>,
    stop: CancellationToken,
    /// Notifies all connections that they must close immediately.
    cut: watch::Sender<()>,
    connections: TaskTracker,
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
        let listening = Self {
            addr: listener.local_addr()?,
            authorities,
            frontend: Arc::clone(frontend),
            stop: CancellationToken::new(),
            cut: watch::Sender::default(),
            connections: TaskTracker::new(),
        };
        let acceptor = Acceptor {
            service: ApiService::new(Arc::clone(frontend)),
            clock: Arc::clone(&frontend.clock),
            stop: listening.stop.clone(),
            cut: listening.cut.subscribe(),
            connections: listening.connections.clone(),
            streams: frontend.http2_streams,
            tls,
        };
        listening.connections.spawn(acceptor.run(listener));
        Ok(listening)
    }

    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the base URL of the server: `https` with TLS, else `http`.
    pub fn url(&self) -> String {
        let scheme = if self.authorities.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
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
        self.stop.cancel();
        self.frontend.end_watches();
        self.connections.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, self.connections.wait()).await.is_err() {
            self.cut_connections();
            self.connections.wait().await;
        }
    }

    /// Closes all connections immediately, including those with responses in flight.
    ///
    /// The listener stays open. To simulate a crash, drop the handle instead: that closes the listener, too.
    pub fn cut_connections(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Dropping the server also drops `cut`, which ends all connections.
        self.stop.cancel();
    }
}
