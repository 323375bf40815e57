//! The server on a socket.
//!
//! # Shutdown
//!
//! Cancelling the token closes the listener, then each connection finishes the answers that are under way; watches
//! are ended by the owner first, so that connections drain.

mod accept;
mod browser;
mod heard;
mod patience;
mod refused;
mod socket;

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
pub(super) use heard::UnderWay;

use crate::server::ApiServer;
use crate::tls::{Accepting, Certificate, Tls, TlsError};

/// How long a shutdown waits for answers under way: a stalled one would hold it for ever.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// A server on a socket. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    server: ApiServer,
    stop: CancellationToken,
    /// Told when every connection must go at once.
    cut: watch::Sender<()>,
    connections: TaskTracker,
    /// What clients have to trust, where there is TLS.
    authorities: Option<String>,
}

impl ApiServer {
    /// Listens on an address, as `127.0.0.1:0`: HTTP/1.1, and HTTP/2 with prior knowledge. Everybody on the way can read
    /// and change what is sent, so this is for loopback.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn listen(&self, addr: impl tokio::net::ToSocketAddrs) -> io::Result<Listening> {
        self.serve(TcpListener::bind(addr).await?, None, None)
    }

    /// Listens on an address over TLS: HTTP/2 or HTTP/1.1, as the client prefers. With
    /// [authorities for users](crate::ApiServerBuilder::client_ca) clients are asked for a certificate; one that proves
    /// nothing is answered 401, as upstream.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, or the authorities cannot be used.
    pub async fn listen_tls(
        &self,
        addr: impl tokio::net::ToSocketAddrs,
        tls: Tls,
    ) -> Result<Listening, TlsError> {
        let accepting = tls.configure(self.shared.access.client_ca.as_ref())?;
        let listener = TcpListener::bind(addr).await?;
        Ok(self.serve(listener, Some(accepting), Some(tls.authorities().to_owned()))?)
    }

    fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Accepting>,
        authorities: Option<String>,
    ) -> io::Result<Listening> {
        let listening = Listening {
            addr: listener.local_addr()?,
            authorities,
            server: self.clone(),
            stop: CancellationToken::new(),
            cut: watch::Sender::default(),
            connections: TaskTracker::new(),
        };
        let acceptor = Acceptor {
            service: self.service(),
            clock: Arc::clone(&self.shared.clock),
            stop: listening.stop.clone(),
            cut: listening.cut.subscribe(),
            connections: listening.connections.clone(),
            streams: self.shared.http2_streams,
            tls,
        };
        listening.connections.spawn(acceptor.run(listener));
        Ok(listening)
    }
}

impl Listening {
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
        self.server.disconnect_watchers();
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
