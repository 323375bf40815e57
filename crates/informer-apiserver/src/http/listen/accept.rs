//! Connections: accepted, shaken hands with, served until they end or must.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::socket::Socket;
use crate::http::ApiService;
use crate::http::gather::SocketBody;
use crate::http::service::GoAway;
use crate::tls::{Accepting, PeerCertificate};

/// Streams whose windows a connection of HTTP/2 has room for, as upstream.
const STREAMS_ROOM: u32 = 100;
/// The window of an HTTP/2 stream, as upstream.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of the headers of an HTTP/2 request, as upstream.
const HEADER_BYTES_MAX: u32 = (1 << 20) + 320;
/// How long a client may take for the handshake of TLS: as long as upstream gives it for the headers of a request.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(32);
/// What the last answer of an HTTP/1.1 connection says.
const CLOSE: http::HeaderValue = http::HeaderValue::from_static("close");
/// The first byte of a handshake.
const HANDSHAKE: u8 = 0x16;
/// What somebody is told who speaks HTTP to a port of TLS, as upstream.
const NOT_HERE: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

pub(super) struct Acceptor {
    pub(super) service: ApiService,
    pub(super) stop: CancellationToken,
    pub(super) cut: watch::Receiver<()>,
    pub(super) connections: TaskTracker,
    /// Requests that one HTTP/2 connection may have under way.
    pub(super) streams: u32,
    pub(super) tls: Option<Accepting>,
}

impl Acceptor {
    pub(super) async fn run(self, listener: TcpListener) {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.serve(stream),
                    // Out of files, or a peer that left at once: neither ends the server.
                    Err(error) => {
                        tracing::debug!(%error, "accepting a connection failed");
                        tokio::task::yield_now().await;
                    }
                },
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let reset = Arc::new(AtomicBool::new(false));
        let socket = Socket { stream, reset: Arc::clone(&reset) };
        let mut connection = Connection {
            service: self.service.clone(),
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

/// One connection of a client.
struct Connection {
    service: ApiService,
    stop: CancellationToken,
    /// Told when it must go at once.
    cut: watch::Receiver<()>,
    streams: u32,
    /// Set by an answer that ends in a reset of the connection.
    reset: Arc<AtomicBool>,
    peer: Option<PeerCertificate>,
}

impl Connection {
    async fn serve_tls(mut self, socket: Socket, tls: &Accepting) {
        let shaking = tokio::time::timeout(HANDSHAKE_WAIT, shake_hands(socket, tls));
        let stream = tokio::select! {
            biased;
            _ = self.cut.changed() => return,
            () = self.stop.cancelled() => return,
            stream = shaking => stream,
        };
        match stream {
            Ok(Ok(Some(stream))) => {
                let chain = stream.get_ref().1.peer_certificates();
                self.peer = tls.witness.as_ref().and_then(|witness| witness.judge(chain));
                self.serve(stream).await;
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { service, stop, mut cut, streams, reset, peer } = self;
        let leaving = Arc::new(Notify::new());
        let leave = Arc::clone(&leaving);
        let service = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
            // A stream of HTTP/2 is reset alone; its connection lives on.
            let alone = request.version() < http::Version::HTTP_2;
            let reset = alone.then(|| Arc::clone(&reset));
            let (service, leave) = (service.clone(), Arc::clone(&leave));
            if let Some(peer) = &peer {
                request.extensions_mut().insert(peer.clone());
            }
            async move {
                let mut answer = service.answer(request).await;
                match answer.extensions_mut().remove() {
                    Some(GoAway) if alone => {
                        answer.headers_mut().insert(http::header::CONNECTION, CLOSE);
                    }
                    Some(GoAway) => leave.notify_one(),
                    None => {}
                }
                Ok::<_, std::convert::Infallible>(answer.map(|body| SocketBody::new(body.resetting(reset))))
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http2()
            .max_concurrent_streams(streams)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(STREAM_WINDOW_BYTES * STREAMS_ROOM)
            .max_header_list_size(HEADER_BYTES_MAX)
            .max_frame_size(STREAM_WINDOW_BYTES);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                _ = cut.changed() => return,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = leaving.notified(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "a connection broke off");
                    }
                    return;
                }
            }
        }
    }
}

/// The handshake; `None` for a client that speaks HTTP, who is told so.
async fn shake_hands(
    mut socket: Socket,
    tls: &Accepting,
) -> io::Result<Option<tokio_rustls::server::TlsStream<Socket>>> {
    let mut first = [0];
    if socket.stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        socket.write_all(NOT_HERE).await?;
        socket.shutdown().await?;
        return Ok(None);
    }
    TlsAcceptor::from(Arc::clone(&tls.config)).accept(socket).await.map(Some)
}
