use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::AcceptBackoff;
use crate::connection::ConnectionDriver;
use crate::options::ServerOptions;
use crate::service::Service;
use crate::slots::Slots;

/// An HTTP server on a TCP socket. Dropping it closes the listener and all connections.
///
/// # Shutdown
///
/// 1. [`stop`](Self::stop) closes the listener. Handshakes are aborted and idle connections closed. The
///    others end after the requests in flight.
/// 2. [`drain`](Self::drain) waits for that, and after its deadline closes the connections that are left.
///    Then no connection is open.
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
        let driver = ConnectionDriver { options, service, stop: server.stop.clone() };
        let acceptor = Acceptor {
            slots: Slots::new(driver.options.max_connections),
            tasks: server.tasks.clone(),
            driver: Arc::new(driver),
            cut: cut_receiver,
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
    driver: Arc<ConnectionDriver<S>>,
    cut: watch::Receiver<()>,
}

impl<S: Service> Acceptor<S> {
    /// Accepts connections until the server is stopped. A connection is accepted even if the server has its
    /// maximum number of connections, because another one may then be closed in favor of it.
    async fn run(self, listener: TcpListener) {
        let mut backoff = AcceptBackoff::default();
        let clock = &self.driver.options.clock;
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
        let mut cut = self.cut.clone();
        cut.mark_unchanged();
        self.tasks.spawn(Arc::clone(&self.driver).run(stream, slot, cut));
    }
}

#[cfg(test)]
mod tests;
