//! The task of one connection: the TLS handshake, then requests until the connection ends.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, watch};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::monitor::{ConnectionMonitor, LongRunning};
use crate::options::ServerOptions;
use crate::service::{Certificates, Connection, Service};
use crate::slots::Slot;
use crate::socket::{ResetFlag, Socket, Transport};
use crate::stream_executor::StreamExecutor;
use crate::tls::TlsConfig;
use crate::upgrade::{PendingUpgrade, Upgrade};

/// Size of an HTTP/2 connection window in stream windows; the same as in kube-apiserver.
const WINDOWED_STREAMS: u32 = 100;
/// Flow control window of an HTTP/2 stream in bytes; the same as in kube-apiserver.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Maximum size of HTTP/2 request headers in bytes; the same as in kube-apiserver.
const MAX_HEADER_BYTES: u32 = (1 << 20) + 320;
/// Maximum time for the graceful shutdown of an idle connection; the same as in kube-apiserver.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The first byte that a TLS client sends (record type handshake).
const HANDSHAKE: u8 = 0x16;
/// The response to plain HTTP on a TLS port; the same as that of Go's `net/http`.
const HTTP_ON_TLS_PORT: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A plain connection, or one with TLS. With one type for both, the HTTP server is compiled once.
type Stream<T> = Either<Socket<T>, Box<TlsStream<Socket<T>>>>;

/// The parts of a server that all its connections use.
pub(crate) struct ConnectionDriver<S> {
    pub(crate) options: ServerOptions,
    pub(crate) service: S,
    /// Cancelled when the connections must end after the requests in flight.
    pub(crate) stop: CancellationToken,
}

impl<S: Service> ConnectionDriver<S> {
    /// Serves one connection until it ends, must make room for another one, or is cut: `cut` is notified or
    /// closed.
    pub(crate) async fn run(
        self: Arc<Self>,
        stream: impl Transport,
        slot: Slot,
        mut cut: watch::Receiver<()>,
    ) {
        let slot = Arc::new(slot);
        let socket = Socket { stream, reset: ResetFlag::default() };
        tokio::select! {
            biased;
            _ = cut.changed() => {}
            () = slot.closed() => tracing::debug!("closed a connection to make room for another"),
            () = async {
                match &self.options.tls {
                    None => self.serve(socket.reset.clone(), Either::Left(socket), None, &slot).await,
                    Some(tls) => self.serve_tls(socket, tls, &slot).await,
                }
            } => {}
        }
    }

    async fn serve_tls(self: &Arc<Self>, socket: Socket<impl Transport>, tls: &TlsConfig, slot: &Arc<Slot>) {
        let ServerOptions { clock, timeouts, .. } = &self.options;
        let late = clock.sleep_until(clock.elapsed() + timeouts.head);
        let reset = socket.reset.clone();
        let stream = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            stream = handshake(socket, tls) => stream,
            () = late => return tracing::debug!("TLS handshake timed out"),
        };
        match stream {
            Ok(Some(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
                let stream = Either::Right(Box::new(stream));
                self.serve(reset, stream, certificates.as_deref(), slot).await;
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "TLS handshake failed"),
        }
    }

    async fn serve(
        self: &Arc<Self>,
        reset: ResetFlag,
        stream: Stream<impl Transport>,
        certificates: Option<Certificates<'_>>,
        slot: &Arc<Slot>,
    ) {
        let monitor = ConnectionMonitor::new(self.options.timeouts, Arc::clone(&self.options.clock));
        let stream = TokioIo::new(monitor.inspect(stream));
        let client = self.service.client(certificates);
        let connection = Connection { client, slot: Arc::clone(slot), reset, closing: Notify::new() };
        let connection = Arc::new(connection);
        let (driver, of_requests, timer) = (Arc::clone(self), Arc::clone(&connection), monitor.clone());
        let upgrade = PendingUpgrade::default();
        let upgrades = upgrade.clone();
        let respond = service_fn(move |mut request| {
            let (driver, connection) = (Arc::clone(&driver), Arc::clone(&of_requests));
            let (in_flight, upgrades) = (timer.on_request(), upgrades.clone());
            async move {
                let upgraded = PendingUpgrade::requested_by(&mut request);
                let mut response = driver.service.respond(request, &connection).await;
                upgrades.set(upgraded, response.extensions_mut().remove::<Upgrade>());
                let long_running = response.extensions_mut().remove::<LongRunning>().is_some();
                Ok::<_, Infallible>(response.map(|body| in_flight.on_response(body, long_running)))
            }
        });
        let builder = builder(self.options.http2_streams);
        let mut serving = pin!(builder.serve_connection_with_upgrades(stream, respond));
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
                () = self.stop.cancelled(), if !stopping => {}
                () = connection.closing.notified(), if !stopping => {}
                result = serving.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "connection failed");
                    }
                    break;
                }
                idle = timeout => if stopping || !idle {
                    return tracing::debug!(idle, "connection timed out");
                },
            }
            stopping = true;
            serving.as_mut().graceful_shutdown();
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = upgrade.serve() => {}
        }
    }
}

fn builder(http2_streams: Option<u32>) -> auto::Builder<StreamExecutor> {
    let mut builder = auto::Builder::new(StreamExecutor);
    let Some(streams) = http2_streams else { return builder.http1_only() };
    builder
        .http2()
        .max_concurrent_streams(streams)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(STREAM_WINDOW_BYTES * WINDOWED_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_frame_size(STREAM_WINDOW_BYTES);
    builder
}

/// Performs the TLS handshake. Returns `None` after a 400 response if the client sends plain HTTP.
async fn handshake<T: Transport>(
    mut socket: Socket<T>,
    tls: &TlsConfig,
) -> io::Result<Option<TlsStream<Socket<T>>>> {
    if socket.stream.peek().await?.is_some_and(|first| first != HANDSHAKE) {
        socket.write_all(HTTP_ON_TLS_PORT).await?;
        socket.shutdown().await?;
        return Ok(None);
    }
    tls.acceptor().accept(socket).await.map(Some)
}

#[cfg(test)]
pub(crate) mod tests;
