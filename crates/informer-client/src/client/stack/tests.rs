use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::DuplexStream;

use super::super::ClientOptions;
use super::super::connections::Connections;
use super::{builder, is_loopback};

/// One end of an in-memory pipe that replaces a socket.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn unresponsive_http2_peer_is_detected_within_45_seconds() {
    let connector = tower::service_fn(|_uri: Uri| {
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            // A server that sends the response headers and stops responding half a second later.
            tokio::spawn(async move {
                let service = hyper::service::service_fn(|_request| async {
                    let body = http_body_util::StreamBody::new(futures_util::stream::pending::<
                        Result<hyper::body::Frame<Bytes>, std::convert::Infallible>,
                    >());
                    Ok::<_, std::convert::Infallible>(http::Response::new(body))
                });
                let executor = hyper_util::rt::TokioExecutor::new();
                let connection = hyper::server::conn::http2::Builder::new(executor)
                    .serve_connection(TokioIo::new(theirs), service);
                let mut connection = std::pin::pin!(connection);
                let _ = tokio::time::timeout(Duration::from_millis(500), connection.as_mut()).await;
                std::future::pending::<()>().await;
            });
            Ok::<_, io::Error>(Pipe(TokioIo::new(ours)))
        })
    });
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let connections = Connections::new(connector, builder(&options));
    let request = Request::get("http://server/api/v1/pods?watch=true").body(Full::default()).unwrap();
    let mut body = connections.send(request, 0).await.unwrap().into_body();
    let before = tokio::time::Instant::now();
    assert!(body.frame().await.unwrap().is_err(), "the watch breaks");
    assert!(before.elapsed() <= Duration::from_secs(45), "{:?}", before.elapsed());
}

/// Serves one HTTP/2 connection: the body of `/endless` never ends, every other body has two bytes.
async fn serve_http2(io: DuplexStream) {
    type Body = UnsyncBoxBody<Bytes, Infallible>;
    let service = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
        let body: Body = match request.uri().path() {
            "/endless" => {
                let frame = Bytes::from(vec![b' '; 16 << 10]);
                let frames = futures_util::stream::repeat_with(move || Ok(Frame::data(frame.clone())));
                StreamBody::new(frames).boxed_unsync()
            }
            _ => Full::from("{}").boxed_unsync(),
        };
        Ok::<_, Infallible>(http::Response::new(body))
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(io), service).await;
}

#[tokio::test(start_paused = true)]
async fn unread_responses_do_not_stall_other_requests_of_their_connection() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let connector = tower::service_fn(move |_uri: Uri| {
        count.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve_http2(theirs));
        std::future::ready(Ok::<_, io::Error>(Pipe(TokioIo::new(ours))))
    });
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let connections = Connections::new(connector, builder(&options));
    let get = |path: &str| {
        connections.send(Request::get(format!("http://server{path}")).body(Full::default()).unwrap(), 0)
    };
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(get("/endless").await.unwrap());
    }
    // The paused clock advances only when no task can run. At that point the windows of all these streams are
    // used up.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let body = get("/short").await.unwrap().into_body();
    let body =
        tokio::time::timeout(Duration::from_secs(10), body.collect()).await.expect("the body is stalled");
    assert_eq!(body.unwrap().to_bytes(), "{}");
    assert_eq!(opened.load(Ordering::SeqCst), 1, "they share a connection");
    drop(unread);
}

#[test]
fn is_loopback_accepts_only_loopback_hosts() {
    for (uri, loopback) in [
        ("http://localhost:8080", true),
        ("https://127.0.0.2:6443", true),
        ("https://[::1]:6443", true),
        ("https://10.0.0.1", false),
        ("https://localhost.example.com", false),
    ] {
        assert_eq!(is_loopback(&uri.parse().unwrap()), loopback, "{uri}");
    }
}
