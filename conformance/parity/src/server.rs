//! The scripted server. It implements HTTP/1.1 itself, because no library produces the required protocol
//! errors. Every connection carries one request, so a connection attempt and a request are equivalent.
//!
//! # Invariants
//!
//! 1. A socket that never listens holds the port for the whole run. While no other socket listens on that
//!    port, connection attempts are refused.
//! 2. A port that is to be closed is closed before the preceding response ends.
//!
//! # Shutdown
//!
//! Dropping the [`ScriptedServer`] aborts its tasks, and with them closes every connection.

mod connection;
mod request;
mod session;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use self::session::Session;

/// An HTTP server that plays one script once, to one informer.
#[derive(Debug)]
pub(crate) struct ScriptedServer {
    address: SocketAddr,
    _reserved: TcpSocket,
    _tasks: JoinSet<()>,
}

/// The state of the server's port: whether it should be open, and whether it is open. The task of the server
/// opens and closes it.
#[derive(Debug)]
pub(crate) struct Port {
    wanted: watch::Sender<bool>,
    listening: watch::Sender<bool>,
}

impl Port {
    pub(crate) fn new() -> Self {
        Self { wanted: watch::Sender::new(true), listening: watch::Sender::new(false) }
    }

    /// Opens or closes the port, and waits until the task of the server has done it.
    pub(crate) async fn set(&self, open: bool) {
        self.wanted.send_replace(open);
        // The result of the wait is ignored, because it cannot fail: this `Port` holds the sender, so the
        // channel does not close.
        let _ = self.listening.subscribe().wait_for(|listening| *listening == open).await;
    }
}

impl ScriptedServer {
    pub(crate) fn start(session: &Arc<Session>) -> io::Result<Self> {
        let reserved = socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reserved.local_addr()?;
        let mut tasks = JoinSet::new();
        let serving = Arc::clone(session);
        tasks.spawn(async move {
            if let Err(error) = serve(address, &serving).await {
                eprintln!("the scripted server stopped: {error}");
            }
        });
        Ok(Self { address, _reserved: reserved, _tasks: tasks })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // The socket option allows two sockets of this process to use the same port: one that only reserves it,
    // and one that listens.
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    #[cfg(not(unix))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(address: SocketAddr, session: &Arc<Session>) -> io::Result<()> {
    const BACKLOG: u32 = 64;
    let mut wanted = session.port.wanted.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let _ = wanted.wait_for(|open| *open).await;
        let listener = socket(address)?.listen(BACKLOG)?;
        session.port.listening.send_replace(true);
        tokio::select! {
            _ = wanted.wait_for(|open| !*open) => {}
            accepted = accept(&listener, session, &mut connections) => accepted?,
        }
        drop(listener);
        session.port.listening.send_replace(false);
    }
}

async fn accept(
    listener: &TcpListener,
    session: &Arc<Session>,
    connections: &mut JoinSet<()>,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let session = Arc::clone(session);
        connections.spawn(async move {
            // An error on a connection is ignored: it means that the client has disconnected, which is no
            // failure of the server.
            let _ = connection::serve(stream, &session).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
