//! The end of a queue.

use std::time::Duration;

use super::state::Phase;
use super::{DrainError, QueueKey, WorkQueue};

impl<K: QueueKey> WorkQueue<K> {
    /// Takes no more keys and drops those that wait. What is ready is still handed out. A drain that waits is broken
    /// off.
    pub fn shut_down(&self) {
        self.close(Phase::Closed);
    }

    /// Shuts down, and waits until everything that is ready or in process is done. Somebody must still be getting
    /// keys, else this takes until the deadline.
    ///
    /// A key that was added again while it was processed is handed out once more.
    ///
    /// # Errors
    ///
    /// If the deadline passed, or [`shut_down`](Self::shut_down) was called meanwhile. Either way the queue stays
    /// shut down, and what is ready is still handed out.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the queue stays shut down.
    pub async fn shut_down_with_drain(&self, deadline: Duration) -> Result<(), DrainError> {
        self.close(Phase::Draining);
        let driver = &self.shared.driver;
        let deadline = driver.clock().now().after(deadline);
        loop {
            let mut drained = std::pin::pin!(driver.drained.notified());
            drained.as_mut().enable();
            if let Some(end) = self.drain_end() {
                return end;
            }
            if tokio::time::timeout_at(driver.clock().instant(deadline), drained).await.is_err() {
                let inner = driver.lock();
                let (ready, processing) = (inner.state.ready(), inner.state.processing());
                return Err(DrainError::DeadlinePassed { ready, processing });
            }
        }
    }

    /// Whether the queue takes no more keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.driver.lock().state.phase != Phase::Open
    }

    /// Waits until no key is ready, waits or is in process: until all work that was asked for is done. More may be
    /// added before the caller looks. Cancel safe.
    pub async fn idle(&self) {
        self.shared.driver.idle().await;
    }

    /// Waits until the queue takes no more keys. Cancel safe.
    pub async fn closed(&self) {
        let mut closed = std::pin::pin!(self.shared.driver.closed.notified());
        closed.as_mut().enable();
        if !self.is_shutting_down() {
            closed.await;
        }
    }

    fn close(&self, phase: Phase) {
        // A key that is due is ready, even if nobody has looked yet.
        self.shared.ready();
        self.shared.driver.lock().state.phase = phase;
        self.shared.driver.wake_all();
        self.cancel_all_waiting();
    }

    fn drain_end(&self) -> Option<Result<(), DrainError>> {
        let inner = self.shared.driver.lock();
        let (ready, processing) = (inner.state.ready(), inner.state.processing());
        match inner.state.phase {
            _ if inner.state.is_drained() => Some(Ok(())),
            Phase::Closed => Some(Err(DrainError::BrokenOff { ready, processing })),
            Phase::Open | Phase::Draining => None,
        }
    }
}
