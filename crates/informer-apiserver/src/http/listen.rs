//! The server on a socket.
//!
//! # Shutdown
//!
//! Cancelling the token closes the listener, then each connection finishes the answers that are under way; watches
//! are ended by the owner first, so that connections drain.

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

pub(crate) use in_flight::UnderWay;

use crate::http::{ApiService, Frontend};
use crate::tls::{Accepting, Certificate};

/// How long a shutdown waits for answers under way: a stalled one would hold it for ever.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// A server on a socket. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    frontend: Arc<Frontend>,
    stop: CancellationToken,
    /// Told when every connection must go at once.
    cut: watch::Sender<()>,
    connections: TaskTracker,
    /// What clients have to trust, where there is TLS.
    authorities: Option<String>,
}

impl Listening {
    /// Serves on a bound socket. The authorities are those of the server's certificate, for its kubeconfigs.
    pub(crate) fn start(
        frontend: &Arc<Frontend>,
        listener: TcpListener,
        tls: Option<(Accepting, String)>,
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

    /// The address that is listened on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.authorities.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// A kubeconfig that leads here, without a user.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for(&json!({}))
    }

    /// A kubeconfig that leads here, for the user of a certificate.
    pub fn kubeconfig_of(&self, user: &Certificate) -> String {
        self.kubeconfig_for(&json!({
            "client-certificate-data": STANDARD.encode(user.chain()),
            "client-key-data": STANDARD.encode(user.key()),
        }))
    }

    /// A kubeconfig that leads here, for whoever has a bearer token.
    pub fn kubeconfig_with(&self, token: &str) -> String {
        self.kubeconfig_for(&json!({"token": token}))
    }

    fn kubeconfig_for(&self, user: &Value) -> String {
        let mut cluster = json!({"server": self.url()});
        if let Some(pem) = &self.authorities {
            cluster["certificate-authority-data"] = STANDARD.encode(pem).into();
        }
        // JSON is YAML.
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: informer\nclusters:\n- name: informer\n  cluster: \
             {cluster}\ncontexts:\n- name: informer\n  context:\n    cluster: informer\n    user: informer\n\
             users:\n- name: informer\n  user: {user}\n"
        )
    }

    /// Closes the listener, ends all watches properly, and waits until the answers under way are out: for at most
    /// five seconds of the runtime's time, since faults may have stalled some of them. What is left is cut.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.frontend.end_watches();
        self.connections.close();
        if tokio::time::timeout(DRAIN_WAIT, self.connections.wait()).await.is_err() {
            self.cut_connections();
            self.connections.wait().await;
        }
    }

    /// Closes every connection at once, whatever is under way on it; the listener stays. Drop the handle to close
    /// the listener too, as a server that dies does.
    pub fn cut_connections(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Connections also end when `cut` goes with its handle.
        self.stop.cancel();
    }
}
