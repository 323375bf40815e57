use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Server, ServerOptions};
use crate::connection::tests::{Pages, TIMEOUTS};
use crate::tls::tests::certificate;
use crate::{
    CertificateReloader, Certificates, Connection, Service, TlsConfig, TokioClock, default_provider,
};

const REQUEST: &[u8] = b"GET /short HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";

/// Guards a test against a hanging server. No test waits for it.
const LIMIT: Duration = Duration::from_secs(120);

async fn start(max_connections: usize, tls: Option<TlsConfig>, service: impl Service) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let clock = Arc::new(TokioClock::default());
    let options = ServerOptions { clock, tls, max_connections, timeouts: TIMEOUTS, http2_streams: None };
    Server::start(listener, options, service).expect("a bound listener")
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.addr()).await.expect("the server listens")
}

async fn get(mut peer: TcpStream) -> String {
    peer.write_all(REQUEST).await.expect("the server reads");
    let mut response = String::new();
    timeout(LIMIT, peer.read_to_string(&mut response)).await.expect("a response").expect("valid text");
    response
}

#[tokio::test]
async fn idle_peers_that_hold_all_connections_make_room_for_a_request() {
    let server = start(4, None, Pages).await;
    let connect = async || connect(&server).await;
    let mut idle = [connect().await, connect().await, connect().await, connect().await];
    for _ in 0..2 {
        let response = get(connect().await).await;
        assert!(response.ends_with("short"), "{response}");
    }
    // All slots were taken, so the server has closed the connection whose client had been idle for the
    // longest time, in favor of the new one.
    assert_eq!(idle[0].read(&mut [0]).await.expect("no reset"), 0);
}

/// Returns the TLS configuration of a server, and the certificates that its clients trust.
async fn tls() -> (TlsConfig, RootCertStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, roots) = certificate(folder.path());
    let reloader = CertificateReloader::load(tls, |_| {}).await.expect("a valid pair");
    (reloader.config(), roots)
}

/// Connects to a server with TLS and sends a request.
async fn get_with_tls(server: &Server, roots: RootCertStore) -> String {
    let provider = default_provider().expect("the tests have a provider");
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().expect("ring supports TLS");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("here").expect("a valid name");
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, connect(server).await);
    let mut peer = timeout(LIMIT, connecting).await.expect("a handshake").expect("a valid certificate");
    peer.write_all(REQUEST).await.expect("the server reads");
    let mut response = String::new();
    timeout(LIMIT, peer.read_to_string(&mut response)).await.expect("a response").expect("valid text");
    response
}

/// Opens a connection, sends `bytes` and no more.
async fn stalled(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut peer = connect(server).await;
    peer.write_all(bytes).await.expect("the server reads");
    peer
}

/// The beginning of a TLS handshake: the header of a record with a ClientHello of 512 bytes, and some of its
/// bytes.
const HALF_OF_A_CLIENT_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

const HALF_OF_A_HEAD: &[u8] = b"GET /short HTTP/1.1\r\nhost: he";

#[tokio::test]
async fn stalled_tls_handshakes_that_hold_all_connections_make_room_for_a_request() {
    for sent in [&[][..], HALF_OF_A_CLIENT_HELLO] {
        let (tls, roots) = tls().await;
        let server = start(2, Some(tls), Pages).await;
        let mut stalled = [stalled(&server, sent).await, stalled(&server, sent).await];
        for _ in 0..2 {
            let response = get_with_tls(&server, roots.clone()).await;
            assert!(response.ends_with("short"), "{response}");
        }
        let read = timeout(LIMIT, stalled[0].read(&mut [0])).await.expect("the connection is closed");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}

#[tokio::test]
async fn peers_with_half_a_request_head_that_hold_all_connections_make_room_for_a_request() {
    let server = start(2, None, Pages).await;
    let half = HALF_OF_A_HEAD;
    let mut stalled = [stalled(&server, half).await, stalled(&server, half).await];
    for _ in 0..2 {
        let response = get(connect(&server).await).await;
        assert!(response.ends_with("short"), "{response}");
    }
    let read = timeout(LIMIT, stalled[0].read(&mut [0])).await.expect("the connection is closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// Announces each request, and responds when the test notifies it.
#[derive(Clone, Default)]
struct Slow {
    began: Arc<Notify>,
    go: Arc<Notify>,
}

impl Service for Slow {
    type Body = Full<Bytes>;
    type Client = ();

    fn client(&self, _: Option<Certificates<'_>>) {}

    async fn respond(&self, _: Request<Incoming>, connection: &Connection<()>) -> Response<Full<Bytes>> {
        let _serving = connection.serve();
        self.began.notify_one();
        self.go.notified().await;
        Response::new("done".into())
    }
}

#[tokio::test]
async fn connection_that_serves_a_request_is_not_closed_in_favor_of_another() {
    let slow = Slow::default();
    let server = start(1, None, slow.clone()).await;
    let first = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    let second = tokio::spawn(get(connect(&server).await));
    slow.go.notify_one();
    assert!(first.await.expect("no panic").ends_with("done"));
    slow.began.notified().await;
    slow.go.notify_one();
    assert!(second.await.expect("no panic").ends_with("done"));
}

#[tokio::test]
async fn drain_waits_for_requests_in_flight_and_closes_idle_connections() {
    let slow = Slow::default();
    let server = start(8, None, slow.clone()).await;
    let mut idle = connect(&server).await;
    let request = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    let drain = server.drain(LIMIT);
    let (open, ()) = tokio::join!(drain, async {
        assert_eq!(idle.read(&mut [0]).await.expect("no reset"), 0);
        slow.go.notify_one();
    });
    assert_eq!(open, 0);
    assert!(request.await.expect("no panic").ends_with("done"));
    assert!(TcpStream::connect(server.addr()).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn drain_closes_connections_that_are_left_at_its_deadline() {
    let slow = Slow::default();
    let server = start(8, None, slow.clone()).await;
    let request = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    tokio::time::pause();
    assert_eq!(server.drain(Duration::from_secs(10)).await, 1);
    assert_eq!(Arc::strong_count(&slow.go), 1, "no task of the server is left");
    assert_eq!(request.await.expect("no panic"), "");
}

#[tokio::test]
async fn cut_connections_end_at_once_and_the_server_accepts_others() {
    let slow = Slow::default();
    let server = start(8, None, slow.clone()).await;
    let request = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    server.cut_connections();
    assert_eq!(request.await.expect("no panic"), "");
    let request = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    slow.go.notify_one();
    assert!(request.await.expect("no panic").ends_with("done"));
}

#[tokio::test]
async fn dropped_server_closes_its_connections() {
    let slow = Slow::default();
    let server = start(8, None, slow.clone()).await;
    let request = tokio::spawn(get(connect(&server).await));
    slow.began.notified().await;
    drop(server);
    assert_eq!(request.await.expect("no panic"), "");
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_rejected_with_400() {
    let (tls, _) = tls().await;
    let server = start(8, Some(tls), Pages).await;
    let response = get(connect(&server).await).await;
    assert!(response.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{response}");
}
