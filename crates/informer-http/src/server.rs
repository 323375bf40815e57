use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::AcceptBackoff;
use crate::clock::Clock;
use crate::connection::ConnectionDriver;
use crate::service::{Http2Options, Service};
use crate::slots::Slots;
use crate::timer::Timeouts;
use crate::tls::TlsConfig;

/// The settings of a [`Server`].
pub struct ServerOptions {
    /// The clock of all timeouts and delays, except for that of [`Server::drain`].
    pub clock: Arc<dyn Clock>,
    /// The TLS configuration; `None` for plain HTTP.
    pub tls: Option<TlsConfig>,
    /// The maximum number of open connections. Beyond it, the connection that has waited for its client for
    /// the longest time is closed in favor of a new one. Connections that serve a request are not closed; if
    /// all do, the new connection waits.
    pub max_connections: usize,
    /// The timeouts of each connection.
    pub timeouts: Timeouts,
    /// The settings of HTTP/2; `None` to accept only HTTP/1.1.
    pub http2: Option<Http2Options>,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

/// An HTTP server on a TCP socket. Dropping it closes the listener and all connections.
///
/// # Shutdown
///
/// 1. [`stop`](Self::stop) closes the listener. Handshakes are aborted and idle connections closed. The
///    others end after the requests in flight.
/// 2. [`drain`](Self::drain) waits for that, and after its deadline closes the connections that are left.
///    Then no task of the server runs.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: CancellationToken,
    /// Notifies all connections that they must close immediately.
    cut: watch::Sender<()>,
    tasks: TaskTracker,
}

impl Server {
    /// Starts to serve on a bound socket, in a task.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket has no address.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn start(listener: TcpListener, options: ServerOptions, service: impl Service) -> io::Result<Self> {
        let (cut, cut_receiver) = watch::channel(());
        let server = Self {
            addr: listener.local_addr()?,
            stop: CancellationToken::new(),
            cut,
            tasks: TaskTracker::new(),
        };
        let acceptor = Acceptor {
            slots: Slots::new(options.max_connections),
            tasks: server.tasks.clone(),
            driver: ConnectionDriver {
                service: Arc::new(service),
                clock: options.clock,
                timeouts: options.timeouts,
                http2: options.http2,
                tls: options.tls,
                stop: server.stop.clone(),
                cut: cut_receiver,
            },
        };
        server.tasks.spawn(acceptor.run(listener));
        Ok(server)
    }

    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Closes the listener, and each connection after its requests in flight.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Closes all connections immediately, including those with requests in flight. The listener stays open.
    pub fn cut_connections(&self) {
        self.cut.send_replace(());
    }

    /// Stops the server, and waits until all connections have ended. After `limit` of the runtime's time it
    /// closes the remaining connections. Returns their number.
    ///
    /// # Cancel safety
    ///
    /// The server stays stopped if the future is dropped. The call can be repeated.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.stop();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        let open = self.tasks.len();
        self.cut_connections();
        self.tasks.wait().await;
        open
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Dropping the server also drops `cut`, which ends all connections.
        self.stop();
    }
}

struct Acceptor<S> {
    slots: Slots,
    tasks: TaskTracker,
    driver: ConnectionDriver<S>,
}

impl<S: Service> Acceptor<S> {
    /// Accepts connections until the server is stopped. A connection is accepted even if the server has its
    /// maximum number of connections, because another one may then be closed in favor of it.
    async fn run(self, listener: TcpListener) {
        let mut backoff = AcceptBackoff::default();
        let clock = &self.driver.clock;
        loop {
            let accept = async {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        backoff.reset();
                        self.serve(stream).await;
                    }
                    // A failed `accept` must not end the server, so it is repeated after a delay.
                    Err(error) => {
                        let delay = backoff.next_delay(&error);
                        let address = listener.local_addr().ok();
                        if delay.is_zero() {
                            tracing::debug!(?address, %error, "a client aborted its connection");
                        } else {
                            tracing::warn!(?address, %error, ?delay, "cannot accept a connection");
                        }
                        clock.sleep_until(clock.elapsed() + delay).await;
                        tokio::task::yield_now().await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = self.driver.stop.cancelled() => return,
                () = accept => {}
            }
        }
    }

    async fn serve(&self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let slot = self.slots.take().await;
        let mut driver = self.driver.clone();
        driver.cut.mark_unchanged();
        self.tasks.spawn(driver.run(stream, slot));
    }
}

#[cfg(test)]
mod tests;
