//! Tracks the requests in flight on a connection, to apply timeouts.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

use super::timeouts::{Patience, Waiting};
use crate::clock::Clock;

/// Records the reads, requests and responses of a connection.
#[derive(Clone)]
pub(super) struct Watched {
    clock: Arc<dyn Clock>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Watched {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let waiting = Arc::new(Mutex::new(Waiting::new(clock.elapsed())));
        Self { clock, waiting }
    }

    /// Wraps a connection to record the bytes that are read.
    pub(super) fn listen<I: AsyncRead>(&self, io: I) -> InspectReader<I, impl FnMut(&[u8]) + use<I>> {
        let watched = self.clone();
        InspectReader::new(io, move |bytes| {
            // An empty read is the end of the input.
            if !bytes.is_empty() {
                watched.waiting.lock().heard(bytes, watched.clock.elapsed());
            }
        })
    }

    /// Marks a request as in flight until the returned guard is dropped.
    pub(super) fn asked(&self) -> UnderWay {
        self.waiting.lock().asked(self.clock.elapsed());
        UnderWay(self.clone())
    }

    pub(super) fn answered(&self, endless: bool) {
        self.waiting.lock().answered(endless, self.clock.elapsed());
    }

    pub(super) fn patience(&self) -> Patience {
        self.waiting.lock().patience(self.clock.elapsed())
    }

    /// Waits until a timeout expires. Returns true if the connection was idle.
    pub(super) async fn over(&self) -> bool {
        loop {
            match self.patience() {
                Patience::Until(due) => self.clock.sleep_until(due).await,
                Patience::Over => return false,
                Patience::Idle => return true,
            }
        }
    }

    pub(super) async fn sleep(&self, wait: std::time::Duration) {
        self.clock.sleep_until(self.clock.elapsed() + wait).await;
    }
}

/// Marks a response as in flight; dropped with its body.
pub(crate) struct UnderWay(Watched);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.waiting.lock().done(self.0.clock.elapsed());
    }
}
