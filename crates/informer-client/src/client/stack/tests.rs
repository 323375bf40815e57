use std::collections::VecDeque;
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
use informer_cache::source::SourceErrorKind;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::super::connections::Connections;
use super::super::connector::boxed;
use super::super::{BoxError, ClientOptions, RequestError};
use super::{ProxyVariables, builder, is_loopback, proxy, select_provider};

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
            // The fake server sends the headers of the watch response, and half a second later stops
            // responding, also to HTTP/2 pings.
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
    let connections = Connections::new(boxed(connector), builder(&options));
    let request = Request::get("http://server/api/v1/pods?watch=true").body(Full::default()).unwrap();
    let mut body = connections.send(request, 0).await.unwrap().into_body();
    let before = tokio::time::Instant::now();
    assert!(body.frame().await.unwrap().is_err(), "the watch fails");
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
    let connections = Connections::new(boxed(connector), builder(&options));
    let get = |path: &str| {
        connections.send(Request::get(format!("http://server{path}")).body(Full::default()).unwrap(), 0)
    };
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(get("/endless").await.unwrap());
    }
    // tokio's paused clock advances only when no task can run. At the end of this sleep the receive windows
    // of all unread responses are therefore used up.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let body = get("/short").await.unwrap().into_body();
    let body =
        tokio::time::timeout(Duration::from_secs(10), body.collect()).await.expect("the body is stalled");
    assert_eq!(body.unwrap().to_bytes(), "{}");
    assert_eq!(opened.load(Ordering::SeqCst), 1, "they share a connection");
    drop(unread);
}

/// A frame with which [`serve_frames`] replies to a request.
#[derive(Clone, Copy)]
enum Reply {
    Ok,
    /// The server resets the HTTP/2 stream before it processes the request.
    RefusedStream,
    /// The server resets the HTTP/2 stream while it processes the request.
    InternalError,
    /// The server closes the connection with a GOAWAY frame and has not processed the request.
    GoAwayBefore,
    /// The server closes the connection with a GOAWAY frame that names the request as processed, and then
    /// breaks the connection before sending the response.
    GoAwayAfter,
}

/// Serves an HTTP/2 connection. Each request receives the next of `replies`, a list that all connections of a
/// test share. A GOAWAY reply ends the connection.
async fn serve_frames(mut io: DuplexStream, replies: Arc<Mutex<VecDeque<Reply>>>) -> io::Result<()> {
    let mut preface = [0; 24];
    io.read_exact(&mut preface).await?;
    io.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    loop {
        let mut header = [0; 9];
        io.read_exact(&mut header).await?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        io.read_exact(&mut vec![0; length]).await?;
        if header[3] != 1 {
            continue;
        }
        let id = [header[5], header[6], header[7], header[8]];
        let reply = replies.lock().pop_front().expect("the test lists a reply to each request");
        let (kind, flags, stream, payload) = match reply {
            Reply::Ok => (1, 5, id, vec![0x88]),
            Reply::RefusedStream => (3, 0, id, vec![0, 0, 0, 7]),
            Reply::InternalError => (3, 0, id, vec![0, 0, 0, 2]),
            Reply::GoAwayBefore => (7, 0, [0; 4], vec![0; 8]),
            Reply::GoAwayAfter => (7, 0, [0; 4], [id, [0; 4]].concat()),
        };
        let length = u8::try_from(payload.len()).expect("short payload");
        io.write_all(&[&[0, 0, length, kind, flags], stream.as_slice(), &payload].concat()).await?;
        if kind == 7 {
            return Ok(());
        }
    }
}

/// Sends a POST to a server that sends `replies`. Returns the response status, and the number of unused
/// replies, which shows how often the client sent the request.
async fn create_with(replies: &[Reply]) -> (Result<u16, BoxError>, usize) {
    let replies = Arc::new(Mutex::new(VecDeque::from(replies.to_vec())));
    let left = Arc::clone(&replies);
    let connector = tower::service_fn(move |_uri: Uri| {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve_frames(theirs, Arc::clone(&replies)));
        std::future::ready(Ok::<_, io::Error>(Pipe(TokioIo::new(ours))))
    });
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let connections = Connections::new(boxed(connector), builder(&options));
    let request = Request::post("http://server/api/v1/pods").body(Full::from("{}")).unwrap();
    let response = connections.send(request, 0).await;
    (response.map(|response| response.status().as_u16()), left.lock().len())
}

#[tokio::test(start_paused = true)]
async fn request_refused_by_a_closing_connection_is_sent_again() {
    for refusals in [
        vec![Reply::GoAwayBefore],
        vec![Reply::RefusedStream],
        vec![Reply::RefusedStream, Reply::GoAwayBefore, Reply::GoAwayBefore],
    ] {
        let (status, unused) = create_with(&[refusals.as_slice(), &[Reply::Ok]].concat()).await;
        assert_eq!((status.unwrap(), unused), (200, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_may_have_been_processed_is_not_sent_again() {
    for reply in [Reply::GoAwayAfter, Reply::InternalError] {
        let (status, unused) = create_with(&[reply, Reply::Ok]).await;
        assert!(status.is_err());
        assert_eq!(unused, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn request_refused_by_every_connection_fails() {
    let (status, unused) = create_with(&[Reply::GoAwayBefore; 10]).await;
    let error = RequestError::new("http://server/", status.unwrap_err());
    assert_eq!(error.kind(), SourceErrorKind::Connection);
    assert_eq!(unused, 6);
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

#[test]
fn proxy_variables_in_upper_case_take_precedence_unless_they_are_empty() {
    let read = |set: &[(&str, &str)]| {
        let value =
            |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).into());
        let ProxyVariables { https_proxy, no_proxy } = ProxyVariables::read(value);
        [https_proxy, no_proxy]
    };
    assert_eq!(read(&[]), ["", ""]);
    assert_eq!(read(&[("HTTPS_PROXY", "a"), ("https_proxy", "b"), ("no_proxy", "c")]), ["a", "c"]);
    assert_eq!(read(&[("HTTPS_PROXY", ""), ("https_proxy", "b"), ("NO_PROXY", "c")]), ["b", "c"]);
}

#[test]
fn no_proxy_excludes_servers_from_the_proxy_of_the_environment() {
    let used = |server: &str, no_proxy: &str| {
        let mut config = kube_client::Config::new(server.parse().unwrap());
        config.proxy_url = Some("http://proxy.example:3128".parse().unwrap());
        let variables = ProxyVariables {
            https_proxy: "http://proxy.example:3128".to_owned(),
            no_proxy: no_proxy.to_owned(),
        };
        proxy(&config, &variables).is_some()
    };
    assert!(used("https://api.cluster.example:6443", ""));
    assert!(used("https://api.cluster.example:6443", "proxy.example,other.example"));
    assert!(!used("https://api.cluster.example:6443", "other.example, .cluster.example"));
    assert!(!used("https://api.cluster.example:6443", "*"));
    assert!(!used("https://10.96.0.1", "10.96.0.0/12"));
    assert!(used("https://10.95.0.1", "10.96.0.0/12"));
    assert!(!used("https://[fd00::1]:6443", "fd00::/8"));
}

#[test]
fn no_proxy_does_not_apply_to_the_proxy_of_a_kubeconfig() {
    let mut config = kube_client::Config::new("https://api.cluster.example:6443".parse().unwrap());
    let everything =
        |https_proxy: &str| ProxyVariables { https_proxy: https_proxy.to_owned(), no_proxy: "*".to_owned() };
    assert_eq!(proxy(&config, &everything("http://proxy.example:3128")), None);
    config.proxy_url = Some("socks5://proxy.example:1080".parse().unwrap());
    assert_eq!(proxy(&config, &everything("http://proxy.example:3128")), config.proxy_url.as_ref());
    assert_eq!(proxy(&config, &everything("")), config.proxy_url.as_ref());
}

#[test]
fn tls_provider_of_the_features_is_installed_and_ring_is_preferred() {
    select_provider().expect("a feature selects a provider");
    let installed = rustls::crypto::CryptoProvider::get_default().expect("a provider is installed");
    #[cfg(feature = "ring")]
    let expected = rustls::crypto::ring::default_provider();
    #[cfg(not(feature = "ring"))]
    let expected = rustls::crypto::aws_lc_rs::default_provider();
    let groups = |provider: &rustls::crypto::CryptoProvider| {
        provider.kx_groups.iter().map(|group| group.name()).collect::<Vec<_>>()
    };
    assert_eq!(groups(installed), groups(&expected));
    select_provider().expect("the installed provider stays");
}
