//! Accepts connections, performs the TLS handshake, and serves requests until the connection ends.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::browser;
use super::in_flight::{ConnectionMonitor, InFlightGuard};
use super::refused::AcceptBackoff;
use super::socket::Socket;
use super::timeouts::HEAD_TIMEOUT;
use crate::clock::Clock;
use crate::http::ApiService;
use crate::http::list_body::SocketBody;
use crate::http::service::{GoAway, LongRunning};
use crate::tls::{ListenerTls, PeerCertificate};

/// Size of an HTTP/2 connection window in stream windows; the same as in kube-apiserver.
const WINDOWED_STREAMS: u32 = 100;
/// Flow control window of an HTTP/2 stream in bytes; the same as in kube-apiserver.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Maximum size of HTTP/2 request headers in bytes; the same as in kube-apiserver.
const MAX_HEADER_BYTES: u32 = (1 << 20) + 320;
/// Maximum time for the graceful shutdown of a connection; the same as in kube-apiserver.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const CLOSE: http::HeaderValue = http::HeaderValue::from_static("close");
/// The first byte that a TLS client sends (record type handshake).
const HANDSHAKE: u8 = 0x16;
/// The response to plain HTTP on a TLS port; the same as that of Go's `net/http`.
const HTTP_ON_TLS_PORT: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

pub(super) struct Acceptor {
    pub(super) service: ApiService,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
    pub(super) cut: watch::Receiver<()>,
    pub(super) connections: TaskTracker,
    pub(super) streams: u32,
    pub(super) tls: Option<ListenerTls>,
}

impl Acceptor {
    pub(super) async fn run(self, listener: TcpListener) {
        let mut backoff = AcceptBackoff::default();
        loop {
            let accept = async {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        backoff.reset();
                        self.serve(stream);
                    }
                    // A failed `accept` must not end the server, so it is repeated after a delay.
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept a connection");
                        self.clock.sleep_until(self.clock.elapsed() + backoff.next_delay(&error)).await;
                        tokio::task::yield_now().await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = accept => {}
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let reset = Arc::new(AtomicBool::new(false));
        let socket = Socket { stream, reset: Arc::clone(&reset) };
        let mut connection = Connection {
            service: self.service.clone(),
            clock: Arc::clone(&self.clock),
            stop: self.stop.clone(),
            cut: self.cut.clone(),
            streams: self.streams,
            reset,
            peer: None,
        };
        connection.cut.mark_unchanged();
        let tls = self.tls.clone();
        self.connections.spawn(async move {
            match tls {
                None => connection.serve(socket).await,
                Some(tls) => connection.serve_tls(socket, &tls).await,
            }
        });
    }
}

struct Connection {
    service: ApiService,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    cut: watch::Receiver<()>,
    streams: u32,
    /// Set when a response body ends with an injected reset. The socket then sends RST instead of FIN.
    reset: Arc<AtomicBool>,
    peer: Option<PeerCertificate>,
}

impl Connection {
    async fn serve_tls(mut self, socket: Socket, tls: &ListenerTls) {
        let late = self.clock.sleep_until(self.clock.elapsed() + HEAD_TIMEOUT);
        let stream = tokio::select! {
            biased;
            _ = self.cut.changed() => return,
            () = self.stop.cancelled() => return,
            stream = handshake(socket, tls) => stream,
            () = late => {
                tracing::debug!("TLS handshake timed out");
                return;
            }
        };
        match stream {
            Ok(Some(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                self.peer =
                    tls.client_verifier.as_ref().and_then(|client_verifier| client_verifier.verify(chain));
                self.serve(stream).await;
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "TLS handshake failed"),
        }
    }

    async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { service, clock, stop, mut cut, streams, reset, peer } = self;
        let monitor = ConnectionMonitor::new(clock);
        let io = monitor.inspect(io);
        let requests = Arc::new(ConnectionService { service, reset, peer, closing: Notify::new() });
        let service = {
            let (requests, monitor) = (Arc::clone(&requests), monitor.clone());
            hyper::service::service_fn(move |request| {
                Arc::clone(&requests).respond(request, monitor.clone(), monitor.on_request())
            })
        };
        let builder = builder(streams);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
        let mut stopping = false;
        loop {
            let timeout = async {
                if stopping {
                    monitor.sleep(CLOSE_TIMEOUT).await;
                }
                monitor.timed_out().await
            };
            tokio::select! {
                biased;
                _ = cut.changed() => return,
                () = stop.cancelled(), if !stopping => {}
                () = requests.closing.notified(), if !stopping => {}
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "connection failed");
                    }
                    return;
                }
                idle = timeout => if stopping || !idle {
                    tracing::debug!(idle, "connection timed out");
                    return;
                },
            }
            stopping = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

fn builder(streams: u32) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .max_concurrent_streams(streams)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES * WINDOWED_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_frame_size(STREAM_WINDOW_BYTES);
    builder
}

struct ConnectionService {
    service: ApiService,
    reset: Arc<AtomicBool>,
    peer: Option<PeerCertificate>,
    /// Notified when the connection must not accept further requests.
    closing: Notify,
}

impl ConnectionService {
    async fn respond(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        monitor: ConnectionMonitor,
        in_flight: InFlightGuard,
    ) -> Result<Response<SocketBody>, Infallible> {
        // The reset flag closes the whole connection, so it is only used with HTTP/1.1. Over HTTP/2 only the
        // stream is reset.
        let http1 = request.version() < http::Version::HTTP_2;
        let reset = http1.then(|| Arc::clone(&self.reset));
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let mut response = self.service.respond_remote(request, browser::check).await;
        match response.extensions_mut().remove() {
            Some(GoAway) if http1 => {
                response.headers_mut().insert(http::header::CONNECTION, CLOSE);
            }
            Some(GoAway) => self.closing.notify_one(),
            None => {}
        }
        monitor.on_response(response.extensions_mut().remove::<LongRunning>().is_some());
        Ok(response.map(|body| SocketBody::new(body.with_reset_flag(reset), in_flight)))
    }
}

/// Performs the TLS handshake. Returns `None` after a 400 response if the client sends plain HTTP.
async fn handshake(
    mut socket: Socket,
    tls: &ListenerTls,
) -> io::Result<Option<tokio_rustls::server::TlsStream<Socket>>> {
    let mut first = [0];
    if socket.stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        socket.write_all(HTTP_ON_TLS_PORT).await?;
        socket.shutdown().await?;
        return Ok(None);
    }
    TlsAcceptor::from(Arc::clone(&tls.config)).accept(socket).await.map(Some)
}
