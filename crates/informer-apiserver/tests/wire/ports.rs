//! What others can do with a port that is reserved.

#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use informer_apiserver::ReservedPort;
use tokio::net::TcpSocket;

#[test]
fn who_connects_to_a_reserved_port_is_refused_before_and_after_somebody_listened() {
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
fn nobody_who_does_not_mean_a_reserved_port_gets_it() {
    let ports: Vec<_> = (0..8).map(|_| ReservedPort::new().unwrap()).collect();
    let listeners: Vec<_> = (0..256).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    for port in &ports {
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() != port.address()));
        // Asking for any port goes by the rules for sockets that share nothing.
        let stranger = TcpSocket::new_v4().unwrap();
        assert_eq!(stranger.bind(port.address()).unwrap_err().kind(), ErrorKind::AddrInUse);
    }
}
