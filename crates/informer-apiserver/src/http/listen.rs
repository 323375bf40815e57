//! The server on a socket.
//!
//! # Shutdown
//!
//! Cancelling the token closes the listener, then each connection finishes the answers that are under way; watches
//! are ended by the owner first, so that connections drain.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ApiService;
use crate::server::ApiServer;

/// Streams of one HTTP/2 connection, as upstream: more watches wait on the client's side.
const STREAMS_MAX: u32 = 100;
/// How long a shutdown waits for answers under way: a stalled one would hold it for ever.
const DRAIN_WAIT: Duration = Duration::from_secs(5);
/// The window of an HTTP/2 stream, as upstream.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// A server on a socket. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    server: ApiServer,
    stop: CancellationToken,
    /// Told when every connection must go at once.
    cut: watch::Sender<()>,
    connections: TaskTracker,
}

impl ApiServer {
    /// Listens on an address, as `127.0.0.1:0`: HTTP/1.1, and HTTP/2 with prior knowledge. There is no TLS and no
    /// authentication, so this is for loopback.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn listen(&self, addr: impl tokio::net::ToSocketAddrs) -> io::Result<Listening> {
        let listener = TcpListener::bind(addr).await?;
        let listening = Listening {
            addr: listener.local_addr()?,
            server: self.clone(),
            stop: CancellationToken::new(),
            cut: watch::Sender::default(),
            connections: TaskTracker::new(),
        };
        let acceptor = Acceptor {
            service: self.service(),
            stop: listening.stop.clone(),
            cut: listening.cut.subscribe(),
            connections: listening.connections.clone(),
        };
        listening.connections.spawn(acceptor.run(listener));
        Ok(listening)
    }
}

impl Listening {
    /// The address that is listened on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: informer\nclusters:\n- name: informer\n  cluster:\n    \
             server: {url}\ncontexts:\n- name: informer\n  context:\n    cluster: informer\n    user: informer\n\
             users:\n- name: informer\n  user: {{}}\n"
        )
    }

    /// Closes the listener, ends all watches properly, and waits until the answers under way are out: for at most
    /// five seconds of the runtime's time, since faults may have stalled some of them. What is left is cut.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.server.disconnect_watchers();
        self.connections.close();
        if tokio::time::timeout(DRAIN_WAIT, self.connections.wait()).await.is_err() {
            self.cut_connections();
            self.connections.wait().await;
        }
    }

    /// Closes every connection at once, whatever is under way on it; the listener stays. Drop the handle to close
    /// the listener too, as a server that dies does.
    pub fn cut_connections(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Connections also end when `cut` goes with its handle.
        self.stop.cancel();
    }
}

struct Acceptor {
    service: ApiService,
    stop: CancellationToken,
    cut: watch::Receiver<()>,
    connections: TaskTracker,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
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
        let io = TokioIo::new(Socket { stream, reset: Arc::clone(&reset) });
        let service = self.service.clone();
        let (stop, mut cut) = (self.stop.clone(), self.cut.clone());
        cut.mark_unchanged();
        self.connections.spawn(async move {
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                // A stream of HTTP/2 is reset alone; its connection lives on.
                let reset = (request.version() < http::Version::HTTP_2).then(|| Arc::clone(&reset));
                let service = service.clone();
                async move {
                    let answer = service.answer(request).await;
                    Ok::<_, std::convert::Infallible>(answer.map(|body| body.resetting(reset)))
                }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder
                .http2()
                .max_concurrent_streams(STREAMS_MAX)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(STREAM_WINDOW_BYTES * STREAMS_MAX)
                .max_frame_size(STREAM_WINDOW_BYTES);
            let mut connection = std::pin::pin!(builder.serve_connection(io, service));
            let mut stopping = false;
            loop {
                tokio::select! {
                    biased;
                    _ = cut.changed() => return,
                    () = stop.cancelled(), if !stopping => {
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
        });
    }
}

/// A socket that can be closed by a reset.
struct Socket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Acquire)
            && let Err(error) = self.stream.set_zero_linger()
        {
            tracing::debug!(%error, "a connection is closed properly instead of reset");
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A reset must not be preceded by a proper end.
        if self.reset.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
