//! The task of one connection: the TLS handshake, then requests until the connection ends.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::monitor::{ConnectionMonitor, LongRunning};
use crate::service::{Certificates, Connection, Http2Options, Service};
use crate::slots::Slot;
use crate::socket::{ResetFlag, Socket, Transport};
use crate::timer::Timeouts;
use crate::tls::TlsConfig;

/// Maximum time for the graceful shutdown of an idle connection; the same as in kube-apiserver.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The first byte that a TLS client sends (record type handshake).
const HANDSHAKE: u8 = 0x16;
/// The response to plain HTTP on a TLS port; the same as that of Go's `net/http`.
const HTTP_ON_TLS_PORT: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The parts of a server that each of its connections uses.
pub(crate) struct ConnectionDriver<S> {
    pub(crate) service: Arc<S>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: Timeouts,
    pub(crate) http2: Option<Http2Options>,
    pub(crate) tls: Option<TlsConfig>,
    /// Cancelled when the connection must end after the requests in flight.
    pub(crate) stop: CancellationToken,
    /// Notified, or closed, when the connection must end immediately.
    pub(crate) cut: watch::Receiver<()>,
}

impl<S> Clone for ConnectionDriver<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            clock: Arc::clone(&self.clock),
            timeouts: self.timeouts,
            http2: self.http2,
            tls: self.tls.clone(),
            stop: self.stop.clone(),
            cut: self.cut.clone(),
        }
    }
}

impl<S: Service> ConnectionDriver<S> {
    /// Serves one connection until it ends, is cut, or must make room for another one.
    pub(crate) async fn run(mut self, stream: impl Transport, slot: Slot) {
        let (slot, mut cut) = (Arc::new(slot), self.cut.clone());
        let socket = Socket { stream, reset: ResetFlag::default() };
        tokio::select! {
            biased;
            _ = cut.changed() => {}
            () = slot.closed() => tracing::debug!("closed a connection to make room for another"),
            () = async {
                match self.tls.take() {
                    None => self.serve(socket.reset.clone(), socket, None, &slot).await,
                    Some(tls) => self.serve_tls(socket, &tls, &slot).await,
                }
            } => {}
        }
    }

    async fn serve_tls(&self, socket: Socket<impl Transport>, tls: &TlsConfig, slot: &Arc<Slot>) {
        let late = self.clock.sleep_until(self.clock.elapsed() + self.timeouts.head);
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
                self.serve(reset, stream, certificates.as_deref(), slot).await;
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "TLS handshake failed"),
        }
    }

    async fn serve(
        &self,
        reset: ResetFlag,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        certificates: Option<Certificates<'_>>,
        slot: &Arc<Slot>,
    ) {
        let monitor = ConnectionMonitor::new(self.timeouts, Arc::clone(&self.clock));
        let stream = TokioIo::new(monitor.inspect(stream));
        let client = self.service.client(certificates);
        let connection = Connection { client, slot: Arc::clone(slot), reset, closing: Notify::new() };
        let connection = Arc::new(connection);
        let (service, of_requests, timer) =
            (Arc::clone(&self.service), Arc::clone(&connection), monitor.clone());
        let respond = service_fn(move |request| {
            let (service, connection) = (Arc::clone(&service), Arc::clone(&of_requests));
            let in_flight = timer.on_request();
            async move {
                let mut response = service.respond(request, &connection).await;
                let long_running = response.extensions_mut().remove::<LongRunning>().is_some();
                Ok::<_, Infallible>(response.map(|body| in_flight.on_response(body, long_running)))
            }
        });
        let builder = builder(self.http2);
        let mut serving = pin!(builder.serve_connection(stream, respond));
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
                    return;
                }
                idle = timeout => if stopping || !idle {
                    return tracing::debug!(idle, "connection timed out");
                },
            }
            stopping = true;
            serving.as_mut().graceful_shutdown();
        }
    }
}

fn builder(http2: Option<Http2Options>) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let Some(http2) = http2 else { return builder.http1_only() };
    builder
        .http2()
        .max_concurrent_streams(http2.max_streams)
        .initial_stream_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_header_list_size(http2.max_header_bytes)
        .max_frame_size(http2.stream_window_bytes);
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
