//! Tracks the requests in flight on a connection, in order to apply timeouts.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

use super::timeouts::{ConnectionTimer, TimeoutCheck};
use crate::clock::Clock;

#[derive(Clone)]
pub(super) struct ConnectionMonitor {
    clock: Arc<dyn Clock>,
    timer: Arc<Mutex<ConnectionTimer>>,
}

impl ConnectionMonitor {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let timer = Arc::new(Mutex::new(ConnectionTimer::new(clock.elapsed())));
        Self { clock, timer }
    }

    /// Wraps the socket of a connection, in order to record the bytes that are read from it.
    pub(super) fn inspect<I: AsyncRead>(&self, io: I) -> InspectReader<I, impl FnMut(&[u8]) + use<I>> {
        let monitor = self.clone();
        InspectReader::new(io, move |bytes| {
            // An empty read marks the end of the input and is not recorded.
            if !bytes.is_empty() {
                monitor.timer.lock().on_read(bytes, monitor.clock.elapsed());
            }
        })
    }

    /// Marks a request as in flight until the returned guard is dropped.
    pub(super) fn on_request(&self) -> InFlightGuard {
        self.timer.lock().on_request(self.clock.elapsed());
        InFlightGuard(self.clone())
    }

    pub(super) fn on_response(&self, long_running: bool) {
        self.timer.lock().on_response(long_running, self.clock.elapsed());
    }

    pub(super) fn check_timeout(&self) -> TimeoutCheck {
        self.timer.lock().check_timeout(self.clock.elapsed())
    }

    /// Waits until a timeout of the connection expires. Returns true if the connection was idle.
    pub(super) async fn timed_out(&self) -> bool {
        loop {
            match self.check_timeout() {
                TimeoutCheck::Pending(due) => self.clock.sleep_until(due).await,
                TimeoutCheck::TimedOut => return false,
                TimeoutCheck::Idle => return true,
            }
        }
    }

    pub(super) async fn sleep(&self, wait: std::time::Duration) {
        self.clock.sleep_until(self.clock.elapsed() + wait).await;
    }
}

/// Marks a response as in flight. It is dropped together with the response body.
pub(crate) struct InFlightGuard(ConnectionMonitor);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.timer.lock().on_response_end(self.0.clock.elapsed());
    }
}
