use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tokio_rustls::TlsAcceptor;

use super::super::tests::certificate;
use super::super::{HEADER_TIMEOUT, HttpServer, MAX_BODY_BYTES, REQUEST_TIMEOUT, RESPONSE_TIMEOUT, text};
use super::{ConnectionContext, Slots, accept, connection};

const RESPONSE_BYTES: usize = 100_000;

fn context() -> ConnectionContext {
    let server = HttpServer::at("127.0.0.1:0")
        .route("/", |_| async { text(http::StatusCode::OK, "x".repeat(RESPONSE_BYTES)) })
        .route("/short", |_| async { text(http::StatusCode::OK, "short") });
    ConnectionContext {
        routes: server.routes,
        access: None::<Arc<super::Access>>,
        body_max: MAX_BODY_BYTES,
        stop: CancellationToken::new(),
    }
}

/// Returns the client's side of a connection to a server, and the server's task. The buffer of the connection
/// is small, so a client that does not read soon blocks the server.
async fn connected(tls: Option<TlsAcceptor>) -> (DuplexStream, JoinHandle<()>) {
    let (peer, here) = tokio::io::duplex(1024);
    let slot = Arc::new(Slots::new(1).take().await);
    (peer, tokio::spawn(connection(here, tls, context(), slot)))
}

/// Returns the client's side of a connection on which it has requested a large response, and the server's
/// task.
async fn asked() -> (DuplexStream, JoinHandle<()>) {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    (peer, task)
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_its_response_is_disconnected() {
    let (_peer, task) = asked().await;
    let limit = RESPONSE_TIMEOUT + Duration::from_secs(1);
    timeout(limit, task).await.expect("the connection is closed").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn slow_reading_peer_does_not_extend_the_response_timeout() {
    let (mut peer, task) = asked().await;
    let read = async {
        while peer.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let limit = RESPONSE_TIMEOUT + Duration::from_secs(2);
    tokio::select! {
        ended = timeout(limit, task) => ended.expect("the connection is closed").expect("no panic"),
        () = read => unreachable!("there is more to read than a byte a second"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_response_has_its_own_timeout() {
    let (mut peer, task) = asked().await;
    for _ in 0..3 {
        sleep(RESPONSE_TIMEOUT * 3 / 4).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(peer.read_u8().await.expect("an open connection"));
        }
        peer.read_exact(&mut vec![0; RESPONSE_BYTES]).await.expect("a complete response");
        sleep(Duration::from_secs(20)).await;
        peer.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    }
    drop(peer);
    task.await.expect("no panic");
}

/// Asserts that the server closes a connection within `limit` while its client sends `text` at one byte per
/// second.
async fn closed_within(limit: Duration, peer: DuplexStream, task: JoinHandle<()>, text: &str) {
    let (mut read, mut write) = tokio::io::split(peer);
    let send = async {
        for byte in text.bytes() {
            if write.write_all(&[byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await
    };
    let drain = async {
        let _ = read.read_to_end(&mut Vec::new()).await;
        std::future::pending::<()>().await
    };
    tokio::select! {
        ended = timeout(limit, task) => ended.expect("the connection is closed").expect("no panic"),
        () = send => {}
        () = drain => {}
    }
}

#[tokio::test(start_paused = true)]
async fn peer_that_sends_nothing_is_disconnected_after_the_header_timeout() {
    let (peer, task) = connected(None).await;
    closed_within(HEADER_TIMEOUT + Duration::from_secs(1), peer, task, "").await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_head_is_disconnected_after_the_header_timeout() {
    let (peer, task) = connected(None).await;
    let head = format!("GET /short HTTP/1.1\r\n{}", "a: b\r\n".repeat(100));
    closed_within(HEADER_TIMEOUT + Duration::from_secs(1), peer, task, &head).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_body_is_disconnected_after_the_timeouts_of_request_and_head() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"POST /short HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n")
        .await
        .expect("the server reads");
    let limit = REQUEST_TIMEOUT + HEADER_TIMEOUT + Duration::from_secs(1);
    closed_within(limit, peer, task, &"x".repeat(999)).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_is_idle_after_a_response_is_disconnected_after_the_header_timeout() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET /short HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    closed_within(HEADER_TIMEOUT + Duration::from_secs(1), peer, task, "").await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_tls_handshake_is_disconnected_after_the_header_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let tls = tls.load().await.expect("a valid pair").acceptor();
    // These bytes of a TLS handshake announce a record of 512 bytes. Most bytes of that record are never
    // sent, so the server waits for the rest.
    let hello = "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03";
    for hello in ["", hello] {
        let (peer, task) = connected(Some(tls.clone())).await;
        closed_within(HEADER_TIMEOUT + Duration::from_secs(1), peer, task, hello).await;
    }
}

#[tokio::test]
async fn idle_peers_that_hold_all_connections_make_room_for_a_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let server = tokio::spawn(async move {
        let (slots, context, connections) = (Slots::new(4), context(), TaskTracker::new());
        accept(&listener, None, (&slots, &context), &connections).await;
    });
    let connect = async || tokio::net::TcpStream::connect(address).await.expect("the server listens");
    let mut idle = [connect().await, connect().await, connect().await, connect().await];
    for _ in 0..2 {
        let mut peer = connect().await;
        let request = b"GET /short HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
        peer.write_all(request).await.expect("the server reads");
        let mut response = String::new();
        let read = peer.read_to_string(&mut response);
        timeout(Duration::from_secs(120), read).await.expect("a response").expect("valid text");
        assert!(response.ends_with("short"), "{response}");
    }
    // All slots were taken, so the server has closed the connection whose client had been idle for the
    // longest time, in favor of the new one.
    assert_eq!(idle[0].read(&mut [0]).await.expect("no reset"), 0);
    server.abort();
}
