//! Ports of this machine that stay one's own while nobody listens on them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of the loopback device for a server that is down at first, or comes back: nobody else is given it meanwhile.
///
/// A port that was merely free a moment ago can be given to whoever asks for any port: to another test, or to a connection that
/// goes out. A test of a server that is down then meets another server, and one of a server that comes back finds its port taken.
///
/// This one is bound to a socket that never listens: who connects is refused, until a server binds the address with `SO_REUSEADDR`,
/// as [`ApiServer::listen`](crate::ApiServer::listen) does, and the listeners of Rust's standard library, of tokio and of Go. Only
/// Linux lets them do so beside such a socket; elsewhere the port is merely one that was free a moment ago. It is let go of when
/// this value is dropped.
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
/// // What is tested tries again, until the server is there.
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
    /// Reserves a free port. It needs no runtime.
    ///
    /// # Errors
    ///
    /// When no port is free, or the process may have no more files.
    pub fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: socket.local_addr()?, _held: cfg!(target_os = "linux").then_some(socket) })
    }

    /// The address of the loopback device with this port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.address.port()
    }
}
