//! Tests of the TCP proxy that scenarios cut, with an echo server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use informer_conformance::Cable;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("the listener is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    address
}

async fn connected(cable: &Cable) -> TcpStream {
    TcpStream::connect(cable.address()).await.expect("the proxy accepts connections")
}

/// Sends bytes to the echo server and reads the same number. Returns the number of bytes that arrived before
/// the connection ended.
async fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    if stream.write_all(bytes).await.is_err() {
        return 0;
    }
    let (mut came, mut buffer) = (0, vec![0; bytes.len()]);
    while came < bytes.len() {
        match stream.read(&mut buffer[came..]).await {
            Ok(0) | Err(_) => break,
            Ok(count) => came += count,
        }
    }
    came
}

#[tokio::test]
async fn a_cable_forwards_bytes() {
    let cable = Cable::to(echo().await).await.unwrap();
    let mut stream = connected(&cable).await;
    assert_eq!(exchange(&mut stream, &[7; 100_000]).await, 100_000);
    assert_eq!(cable.connections(), 1);
}

#[tokio::test]
async fn a_cut_ends_open_connections_and_accepts_new_ones() {
    let cable = Cable::to(echo().await).await.unwrap();
    let mut stream = connected(&cable).await;
    assert_eq!(exchange(&mut stream, b"before").await, 6);
    cable.cut();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert_eq!(exchange(&mut connected(&cable).await, b"after").await, 5);
}

#[tokio::test]
async fn unplug_returns_after_connections_are_refused_and_cut() {
    let cable = Cable::to(echo().await).await.unwrap();
    for _ in 0..20 {
        let mut stream = connected(&cable).await;
        assert_eq!(exchange(&mut stream, b"before").await, 6);
        cable.unplug().await;
        let refused = TcpStream::connect(cable.address()).await.map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        cable.plug();
        while TcpStream::connect(cable.address()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_unused_unplugged_cable_refuses_connections() {
    let cable = Cable::to(echo().await).await.unwrap();
    cable.unplug().await;
    assert!(TcpStream::connect(cable.address()).await.is_err());
}

#[tokio::test]
async fn a_frozen_cable_delays_bytes_and_loses_none() {
    let cable = Cable::to(echo().await).await.unwrap();
    let mut stream = connected(&cable).await;
    assert_eq!(exchange(&mut stream, b"before").await, 6);
    cable.freeze();
    let silent = tokio::time::timeout(Duration::from_millis(50), exchange(&mut stream, b"held")).await;
    assert!(silent.is_err(), "no bytes arrive and the connection stays open");
    cable.plug();
    let mut came = [0; 4];
    stream.read_exact(&mut came).await.unwrap();
    assert_eq!(&came, b"held");
}

#[tokio::test]
async fn a_byte_budget_cuts_one_connection_exactly_there() {
    let cable = Cable::to(echo().await).await.unwrap();
    for bytes in [0, 1, 4097, 20_000] {
        let mut stream = connected(&cable).await;
        cable.cut_after(bytes);
        assert_eq!(exchange(&mut stream, &[1; 30_000]).await, bytes as usize);
        assert_eq!(
            exchange(&mut connected(&cable).await, &[1; 30_000]).await,
            30_000,
            "the next connection is not limited"
        );
    }
}
