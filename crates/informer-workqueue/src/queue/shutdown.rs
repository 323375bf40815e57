//! Shutting down a queue, with or without waiting until its keys are done.

use std::time::Duration;

use super::state::Phase;
use super::{DrainError, QueueKey, WorkQueue};

impl<K: QueueKey> WorkQueue<K> {
    /// Shuts the queue down: further adds are rejected, waiting keys are dropped, and ready keys are still
    /// handed out. A running [`shut_down_with_drain`](Self::shut_down_with_drain) returns an error.
    pub fn shut_down(&self) {
        self.close(Phase::Closed);
    }

    /// Shuts down and waits until all keys that are ready or in process are done. Workers must continue to
    /// get keys; otherwise the call lasts until the deadline.
    ///
    /// A key that was added again while in process is handed out once more.
    ///
    /// # Errors
    ///
    /// If the deadline passed, or if [`shut_down`](Self::shut_down) was called meanwhile. In both cases the
    /// queue stays shut down, and ready keys are still handed out.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the queue stays shut down.
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

    /// Returns true if the queue is shut down and rejects adds.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.driver.lock().state.phase != Phase::Open
    }

    /// Waits until no key is ready, waiting or in process. Another thread may add keys before the caller
    /// continues. Cancel safe.
    pub async fn idle(&self) {
        self.shared.driver.idle().await;
    }

    /// Waits until the queue is shut down. Cancel safe.
    pub async fn closed(&self) {
        let mut closed = std::pin::pin!(self.shared.driver.closed.notified());
        closed.as_mut().enable();
        if !self.is_shutting_down() {
            closed.await;
        }
    }

    fn close(&self, phase: Phase) {
        // Keys whose delay is over become ready; the other waiting keys are dropped afterwards.
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
