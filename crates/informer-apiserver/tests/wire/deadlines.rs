//! Timeouts of slow requests, and of connections whose client neither sends nor reads.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_apiserver::{ApiServer, FaultAction, FaultMatch, Listening, Verb};
use informer_core::Gvr;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::support::{call, read};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const LIST: &[u8] = b"GET /api/v1/configmaps HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_times_out_with_504_and_a_watch_does_not() {
    let server = ApiServer::builder().build();
    let started = tokio::time::Instant::now();
    let far = "resourceVersion=999999";
    let (status, text) = call(&server, "GET", &format!("{MAPS}?{far}&timeout=1s"), "").await;
    assert_eq!((status, started.elapsed().as_secs()), (504, 1));
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&body["reason"], &body["kind"]), (&json!("Timeout"), &Value::Null), "{body}");
    let (_, text) = call(&server, "GET", &format!("{MAPS}?{far}&timeout=9s"), "").await;
    assert!(text.contains("Too large resource version"), "{text}");
    let (status, _) =
        call(&server, "POST", &format!("{MAPS}?timeout=1ns"), r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!((status, server.list(&maps(), "n").unwrap().len()), (504, 0));
    let watch = format!("{MAPS}?watch=1&timeout=1ns&timeoutSeconds=100&resourceVersion=0");
    let started = tokio::time::Instant::now();
    assert_eq!(call(&server, "GET", &watch, "").await.0, 200);
    assert_eq!(started.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_body_times_out_within_34_seconds() {
    let server = ApiServer::builder().build();
    for (uri, limit) in [(MAPS.to_owned(), 34), (format!("{MAPS}?timeout=5s"), 5)] {
        let pieces = futures_util::stream::once(async {
            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"{")))
        });
        let pieces = futures_util::StreamExt::chain(pieces, futures_util::stream::pending());
        let request = Request::post(uri).body(StreamBody::new(Box::pin(pieces))).unwrap();
        let started = tokio::time::Instant::now();
        let (status, _) = read(server.service().oneshot(request).await.unwrap()).await;
        assert_eq!((status, started.elapsed().as_secs()), (504, limit));
    }
}

#[tokio::test(start_paused = true)]
async fn an_injected_delay_may_exceed_the_request_timeout() {
    let server = ApiServer::builder().build();
    server.faults().on(FaultMatch::verb(Verb::List)).then(FaultAction::Delay { millis: 300_000 });
    let started = tokio::time::Instant::now();
    assert_eq!(call(&server, "GET", MAPS, "").await.0, 200);
    assert_eq!(started.elapsed().as_secs(), 300);
}

async fn connect(listening: &Listening, sent: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
    socket.write_all(sent).await.unwrap();
    socket
}

/// Reads the response to [`LIST`], and no bytes after it.
async fn read_response(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"}\n") && !text.ends_with(b"0\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut text).await.unwrap(), 0, "{}", String::from_utf8_lossy(&text));
    }
    String::from_utf8(text).unwrap()
}

/// Advances the server's clock repeatedly until the connection ends. Returns the bytes received until then.
async fn moved_to_its_end(server: &ApiServer, by: Duration, mut socket: TcpStream) -> Vec<u8> {
    let mut text = Vec::new();
    {
        let mut end = std::pin::pin!(socket.read_to_end(&mut text));
        for _ in 0..1_000 {
            tokio::select! {
                biased;
                // A reset by the server also ends the connection.
                _ = &mut end => break,
                () = tokio::task::yield_now() => server.advance(by),
            }
        }
    }
    text
}

#[tokio::test]
async fn an_incomplete_request_head_closes_the_connection_without_a_response() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    for sent in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET /api HTTP/1.1\r\nhost: localhost\r\n"] {
        let socket = connect(&listening, sent).await;
        assert_eq!(moved_to_its_end(&server, seconds(33), socket).await, b"", "{sent:?}");
    }
    let mut slow = connect(&listening, LIST).await;
    assert!(read_response(&mut slow).await.starts_with("HTTP/1.1 200"));
    slow.write_all(b"GET /ap").await.unwrap();
    assert_eq!(moved_to_its_end(&server, seconds(33), slow).await, b"");
}

#[tokio::test]
async fn a_connection_may_be_idle_for_90_seconds() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut socket = connect(&listening, LIST).await;
    for _ in 0..3 {
        assert!(read_response(&mut socket).await.starts_with("HTTP/1.1 200"));
        server.advance(seconds(80));
        tokio::task::yield_now().await;
        socket.write_all(LIST).await.unwrap();
    }
    read_response(&mut socket).await;
    assert_eq!(moved_to_its_end(&server, seconds(91), socket).await, b"");
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed_and_one_with_a_watch_is_not() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..2 {
        let socket = TcpStream::connect(listening.addr()).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
        connections.push((sender, tokio::spawn(connection)));
    }
    let get = |path: &str| {
        let uri = format!("{}/api/v1/{path}", listening.url());
        Request::get(uri).body(Empty::<Bytes>::new()).unwrap()
    };
    let (mut sender, idle) = connections.remove(0);
    sender.send_request(get("configmaps")).await.unwrap().into_body().collect().await.unwrap();
    let path = format!("configmaps?watch=1&timeoutSeconds=100000&resourceVersion={}", server.version());
    let mut watch = connections[0].0.send_request(get(&path)).await.unwrap().into_body();
    let mut idle = std::pin::pin!(idle);
    let mut ended = false;
    for _ in 0..1_000 {
        tokio::select! {
            biased;
            end = &mut idle => {
                end.unwrap().unwrap();
                ended = true;
                break;
            }
            () = tokio::task::yield_now() => server.advance(seconds(1)),
        }
    }
    assert!(ended, "the connection was closed with GOAWAY");
    server.create(&maps(), "n", json!({"metadata": {"name": "new"}})).unwrap();
    let line = watch.frame().await.unwrap().unwrap();
    assert!(line.data_ref().unwrap().starts_with(b"{\"type\":\"ADDED\""), "the watch continues");
}

#[tokio::test]
async fn a_response_that_is_not_read_is_cut_after_60_seconds() {
    let server = ApiServer::builder().build();
    let objects =
        (0..150).map(|i| json!({"metadata": {"name": format!("c{i}")}, "data": {"x": "y".repeat(100_000)}}));
    server.load(&maps(), objects).unwrap();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let socket = connect(&listening, LIST).await;
    socket.readable().await.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    server.advance(seconds(61));
    // Yields until the server has noticed the timeout, before the client reads the first byte.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let text = moved_to_its_end(&server, Duration::ZERO, socket).await;
    assert!(!text.is_empty() && !text.ends_with(b"0\r\n\r\n"), "{} bytes", text.len());
}

#[tokio::test]
async fn an_incomplete_tls_handshake_closes_the_connection() {
    let server = ApiServer::builder().build();
    let listening =
        server.listen_tls("127.0.0.1:0", informer_apiserver::Tls::self_signed().unwrap()).await.unwrap();
    for sent in [&b""[..], b"\x16\x03\x01"] {
        let socket = connect(&listening, sent).await;
        assert_eq!(moved_to_its_end(&server, seconds(33), socket).await, b"");
    }
}
