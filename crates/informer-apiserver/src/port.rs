//! Reserved TCP ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// Reserves a TCP port on the loopback interface, for tests of a server that is down at first or restarts.
///
/// A port number of a socket that was closed is not reserved: the operating system may assign the port to
/// another test or to an outgoing connection. A test would then connect to a wrong server, or a restarted
/// server would fail to bind.
///
/// This type keeps the port bound to a socket that never listens. Connections are refused until a server
/// binds the address with `SO_REUSEADDR`. [`ApiServer::listen`](crate::ApiServer::listen) sets this option,
/// and so do the listeners of Rust's standard library, tokio and Go. Dropping this value releases the port.
///
/// Only Linux allows a server to bind the address while this socket exists. On other systems the port is not
/// reserved.
///
/// ```
/// use informer_apiserver::{ApiServer, ReservedPort};
/// use tokio::net::TcpStream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = ReservedPort::new()?;
/// assert!(TcpStream::connect(port.address()).await.is_err());
///
/// // The code under test retries until the server listens.
/// let listening = ApiServer::builder().build().listen(port.address()).await?;
/// TcpStream::connect(port.address()).await?;
/// listening.shutdown().await;
/// assert!(TcpStream::connect(port.address()).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _held: Option<TcpSocket>,
}

impl ReservedPort {
    /// Reserves a free port. Needs no runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is free or the process has no free file descriptor.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: socket.local_addr()?, _held: cfg!(target_os = "linux").then_some(socket) })
    }

    /// Returns the loopback address with this port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port number.
    pub fn number(&self) -> u16 {
        self.address.port()
    }
}
