//! A `ReservedPort` refuses connections until a server listens on it, and the operating system does not
//! assign the port to another socket.

#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use informer_apiserver::ReservedPort;
use tokio::net::TcpSocket;

#[test]
fn a_reserved_port_refuses_connections_without_a_listener() {
    let port = ReservedPort::new().unwrap();
    let refused = || TcpStream::connect(port.address()).unwrap_err().kind();
    for _ in 0..3 {
        assert_eq!(refused(), ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(port.address()).unwrap();
        TcpStream::connect(port.address()).unwrap();
        drop(listener);
    }
    assert_eq!(refused(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_reserved_port_is_not_assigned_to_other_sockets() {
    let ports: Vec<_> = (0..8).map(|_| ReservedPort::new().unwrap()).collect();
    let listeners: Vec<_> = (0..256).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for port in &ports {
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() != port.address()));
        // This socket does not set `SO_REUSEADDR`. The operating system treats its bind like a bind to port
        // 0.
        let stranger = TcpSocket::new_v4().unwrap();
        assert_eq!(stranger.bind(port.address()).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
}
