//! Ports of this machine that stay one's own while nobody listens on them.
//!
//! A port that was merely free a moment ago can be given to whoever asks for any port: to another test, or to a connection that
//! goes out. A test of a server that is down then meets another server, and one of a server that comes back finds its port taken.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of the loopback device that is refused to all who ask for any port, and granted to who asks for this one.
///
/// It is bound to a socket that never listens: who connects is refused, until a server binds the address with `SO_REUSEADDR`, as
/// the listeners of Rust's standard library, of tokio and of Go do. Only Linux lets them do so beside such a socket; elsewhere the
/// port is merely one that was free a moment ago.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _held: Option<Socket>,
}

impl ReservedPort {
    /// Reserves a free port.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { address, _held: cfg!(target_os = "linux").then_some(socket) })
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
