use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ConnectionDriver, HANDSHAKE};
use crate::slots::Slots;
use crate::socket::Transport;
use crate::tls::tests::certificate;
use crate::{
    CertificateReloader, Certificates, Connection, LongRunning, ServerOptions, Service, Timeouts, TlsConfig,
    TokioClock,
};

const RESPONSE_BYTES: usize = 100_000;
const STALLED: Duration = Duration::from_secs(15);
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(32),
    idle: Duration::from_secs(40),
    response: Duration::from_secs(60),
    stalled: Some(STALLED),
};

/// Responds with a large body to `/` and `/long`, with a part of a large body every second to `/stream`, and
/// with `short` to other paths. `/long` and `/stream` are long-running.
pub(crate) struct Pages;

impl Service for Pages {
    type Body = UnsyncBoxBody<Bytes, Infallible>;
    type Client = ();

    fn client(&self, _: Option<Certificates<'_>>) {}

    async fn respond(&self, request: Request<Incoming>, _: &Connection<()>) -> Response<Self::Body> {
        let part = || Bytes::from("x".repeat(RESPONSE_BYTES));
        let mut response = Response::new(match request.uri().path() {
            "/" | "/long" => Full::from(part()).boxed_unsync(),
            "/stream" => {
                let part = move |()| async move {
                    sleep(Duration::from_secs(1)).await;
                    Ok(Frame::data(part()))
                };
                BodyExt::boxed_unsync(StreamBody::new(stream::repeat(()).then(part)))
            }
            _ => Full::from("short").boxed_unsync(),
        });
        if matches!(request.uri().path(), "/long" | "/stream") {
            response.extensions_mut().insert(LongRunning);
        }
        response
    }
}

impl Transport for DuplexStream {
    async fn peek(&self) -> io::Result<Option<u8>> {
        Ok(Some(HANDSHAKE))
    }

    fn reset_on_drop(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the client's side of a connection to a server, and the server's task. The buffer of the connection
/// is small, so a client that does not read soon blocks the server.
async fn connected(tls: Option<TlsConfig>) -> (DuplexStream, JoinHandle<()>) {
    connected_with(tls, None).await
}

async fn connected_with(
    tls: Option<TlsConfig>,
    http2_streams: Option<u32>,
) -> (DuplexStream, JoinHandle<()>) {
    let (peer, here) = tokio::io::duplex(1024);
    let slot = Slots::new(1).take().await;
    let options = ServerOptions {
        clock: Arc::new(TokioClock::default()),
        tls,
        max_connections: 1,
        timeouts: TIMEOUTS,
        http2_streams,
    };
    let driver = ConnectionDriver { options, service: Pages, stop: CancellationToken::new() };
    let run = async move {
        let (_cut_sender, cut) = watch::channel(());
        Arc::new(driver).run(here, slot, cut).await;
    };
    (peer, tokio::spawn(run))
}

/// Returns the client's side of a connection on which it has requested a large response, and the server's
/// task.
async fn requested() -> (DuplexStream, JoinHandle<()>) {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    (peer, task)
}

async fn ended_after_the_response_timeout(task: JoinHandle<()>) {
    let start = Instant::now();
    let limit = TIMEOUTS.response + Duration::from_secs(1);
    timeout(limit, task).await.expect("the connection is closed").expect("no panic");
    assert!(start.elapsed() >= TIMEOUTS.response, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_its_response_is_disconnected() {
    let (_peer, task) = requested().await;
    ended_after_the_response_timeout(task).await;
}

#[tokio::test(start_paused = true)]
async fn slow_reading_peer_does_not_extend_the_response_timeout() {
    let (mut peer, task) = requested().await;
    let read = async {
        while peer.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let limit = TIMEOUTS.response + Duration::from_secs(2);
    tokio::select! {
        ended = timeout(limit, task) => ended.expect("the connection is closed").expect("no panic"),
        () = read => unreachable!("there is more to read than a byte a second"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_response_has_its_own_timeout() {
    let (mut peer, task) = requested().await;
    for _ in 0..3 {
        sleep(TIMEOUTS.response * 3 / 4).await;
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

/// Asserts that the server closes a connection after `delay`, give or take a second, while its client sends
/// `text` at one byte per second.
async fn closed_after(delay: Duration, peer: DuplexStream, task: JoinHandle<()>, text: &str) {
    const TOLERANCE: Duration = Duration::from_secs(1);
    let begin = Instant::now();
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
        ended = timeout(delay + TOLERANCE, task) => ended.expect("the connection is closed").expect("no panic"),
        () = send => {}
        () = drain => {}
    }
    assert!(begin.elapsed() + TOLERANCE >= delay, "closed already after {:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn peer_that_sends_nothing_is_disconnected_after_the_header_timeout() {
    let (peer, task) = connected(None).await;
    closed_after(TIMEOUTS.head, peer, task, "").await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_head_is_disconnected_after_the_header_timeout() {
    let (peer, task) = connected(None).await;
    let head = format!("GET /short HTTP/1.1\r\n{}", "a: b\r\n".repeat(100));
    closed_after(TIMEOUTS.head, peer, task, &head).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_body_is_disconnected_right_after_the_response() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"POST /short HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n")
        .await
        .expect("the server reads");
    closed_after(Duration::ZERO, peer, task, &"x".repeat(999)).await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_is_idle_after_a_response_is_disconnected_after_the_idle_timeout() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET /short HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    closed_after(TIMEOUTS.idle, peer, task, "").await;
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_completes_its_tls_handshake_is_disconnected_after_the_header_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let tls = CertificateReloader::load(tls, |_| {}).await.expect("a valid pair").config();
    // These bytes of a TLS handshake announce a record of 512 bytes. Most bytes of that record are never
    // sent, so the server waits for the rest.
    let hello = "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03";
    for hello in ["", hello] {
        let (peer, task) = connected(Some(tls.clone())).await;
        closed_after(TIMEOUTS.head, peer, task, hello).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unread_rest_of_a_long_running_response_times_out_after_its_end() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET /long HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    ended_after_the_response_timeout(task).await;
}

#[tokio::test(start_paused = true)]
async fn stream_that_its_client_stops_reading_is_closed_after_the_stalled_timeout() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET /stream HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    let mut part = vec![0; RESPONSE_BYTES];
    for _ in 0..100 {
        peer.read_exact(&mut part).await.expect("a client that reads is served without a limit");
    }
    // The server buffers some parts before it waits for the client.
    let (start, limit) = (Instant::now(), STALLED + Duration::from_secs(10));
    timeout(limit, task).await.expect("the connection is closed").expect("no panic");
    assert!(start.elapsed() >= STALLED, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn stream_that_its_client_reads_slowly_stays_open() {
    let (mut peer, task) = connected(None).await;
    peer.write_all(b"GET /stream HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("the server reads");
    for _ in 0..20 {
        sleep(STALLED * 2 / 3).await;
        peer.read_exact(&mut [0; 4096]).await.expect("an open connection");
    }
    assert!(!task.is_finished());
}

/// Sends an HTTP/2 frame.
async fn send_frame(peer: &mut DuplexStream, (kind, flags, stream): (u8, u8, u8), payload: &[u8]) {
    let length = u8::try_from(payload.len()).expect("a short frame");
    peer.write_all(&[0, 0, length, kind, flags, 0, 0, 0, stream]).await.expect("the server reads");
    peer.write_all(payload).await.expect("the server reads");
}

/// Requests a path with fewer than 128 bytes over HTTP/2.
async fn send_request(peer: &mut DuplexStream, stream: u8, path: &str) {
    // The method GET and the scheme http by index, and the path as a literal without Huffman coding.
    let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).expect("a short path")];
    block.extend(path.as_bytes());
    const END_STREAM_AND_HEADERS: u8 = 0x5;
    send_frame(peer, (1, END_STREAM_AND_HEADERS, stream), &block).await;
}

/// Reads a frame, and returns its kind, its stream and its payload.
async fn read_frame(peer: &mut DuplexStream) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    peer.read_exact(&mut head).await.expect("a frame");
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    peer.read_exact(&mut payload).await.expect("a payload");
    (head[3], head[8], payload)
}

#[tokio::test(start_paused = true)]
async fn stalled_http2_stream_is_reset_and_other_streams_continue() {
    const DATA: u8 = 0;
    const RST_STREAM: u8 = 3;
    const SETTINGS: (u8, u8, u8) = (4, 0, 0);
    const WINDOW_UPDATE: (u8, u8, u8) = (8, 0, 0);
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let (mut peer, task) = connected_with(None, Some(8)).await;
    peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("the server reads");
    send_frame(&mut peer, SETTINGS, &[]).await;
    // Only the window of the stream limits the server, and not that of the connection.
    send_frame(&mut peer, WINDOW_UPDATE, &[0, 0xff, 0xff, 0xff]).await;
    let start = Instant::now();
    send_request(&mut peer, 1, "/stream").await;
    let reset = async {
        loop {
            if let (RST_STREAM, 1, reason) = read_frame(&mut peer).await {
                return reason;
            }
        }
    };
    let reason = timeout(STALLED + Duration::from_secs(10), reset).await.expect("the stream is reset");
    assert_eq!(reason, CANCEL);
    assert!(start.elapsed() >= STALLED, "{:?}", start.elapsed());
    send_request(&mut peer, 3, "/short").await;
    let body = loop {
        if let (DATA, 3, body) = read_frame(&mut peer).await {
            break body;
        }
    };
    assert_eq!(body, b"short");
    assert!(!task.is_finished());
}
