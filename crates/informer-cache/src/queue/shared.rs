//! The handle that all queues share: a `Mutex<S>` around the state, and a `Notify`.
//!
//! # Invariants
//!
//! Every change of the state uses [`SharedQueue::update`], which notifies waiting tasks when a condition that
//! a task may wait for has changed. A task checks its own condition after every notification, so an unrelated
//! notification costs one check.
//!
//! # Lock order
//!
//! The queue has one lock, `state`. The lock is never held while notifying, waiting, or dropping a closure of
//! the caller.
//!
//! # Shutdown
//!
//! Closing a queue is an ordinary change of the state: waiting tasks are notified, and later writes are
//! rejected.

use std::future::Future;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::QueueClosed;

/// The conditions for which tasks may wait, computed from the state of a queue. A change of any of them
/// notifies the waiting tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals {
    /// True if popping would return an item now.
    pub(super) poppable: bool,
    /// True if the queue has no item, whether an item could be popped now or not.
    pub(super) empty: bool,
    /// True if the writer need not wait before it adds changes.
    pub(super) has_room: bool,
    /// True if the initial list was queued and processed.
    pub(super) has_synced: bool,
    pub(super) closed: bool,
}

pub(super) trait SharedQueueState {
    fn signals(&self) -> Signals;
    fn close(&mut self);
}

pub(super) struct SharedQueue<S> {
    state: Mutex<S>,
    changed: Notify,
}

impl<S: SharedQueueState> SharedQueue<S> {
    pub(super) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Locks the state for a short read. Changes must use [`update`](Self::update), which notifies waiting
    /// tasks.
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// Changes the state under the lock, then notifies waiting tasks. The caller drops the result of `change`
    /// after the lock was released.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let mut state = self.state.lock();
        let before = state.signals();
        let result = change(&mut state);
        let after = state.signals();
        drop(state);
        if before != after {
            self.changed.notify_waiters();
        }
        result
    }

    /// Changes the state like [`update`](Self::update), unless the queue is closed. If it is closed, `change`
    /// is not called, and is dropped outside of the lock.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut S) -> R) -> Result<R, QueueClosed> {
        let mut change = Some(change);
        self.update(|state| {
            if state.signals().closed {
                return Err(QueueClosed);
            }
            change.take().map(|change| change(state)).ok_or(QueueClosed)
        })
    }

    pub(super) fn try_take<T>(
        &self,
        pop: impl FnOnce(&mut S) -> Option<T>,
    ) -> Result<Option<T>, QueueClosed> {
        self.update(|state| match pop(state) {
            Some(taken) => Ok(Some(taken)),
            None if state.signals().closed && state.signals().empty => Err(QueueClosed),
            None => Ok(None),
        })
    }

    /// Waits until an item can be popped, and takes it with `pop`. Returns an error if the queue is closed
    /// and drained. Cancel safe: dropping the future before it resolves takes no item.
    pub(super) async fn take<T>(&self, pop: impl Fn(&mut S) -> Option<T>) -> Result<T, QueueClosed> {
        self.wait_until(|| self.try_take(&pop).transpose()).await
    }

    pub(super) fn close(&self) {
        self.update(S::close);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().signals().closed
    }

    pub(super) fn has_synced(&self) -> bool {
        self.lock().signals().has_synced
    }

    pub(super) fn synced(&self) -> impl Future<Output = Result<(), QueueClosed>> + Send
    where
        S: Send,
    {
        self.wait_until(|| {
            let signals = self.lock().signals();
            if signals.has_synced { Some(Ok(())) } else { signals.closed.then_some(Err(QueueClosed)) }
        })
    }

    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send
    where
        S: Send,
    {
        self.wait_until(|| {
            let signals = self.lock().signals();
            (signals.has_room || signals.closed).then_some(())
        })
    }

    /// Waits until `check`, which examines the queue after each change, returns a value. Cancel safe: no item
    /// is taken before `check` returns it, and the value is returned without another await.
    async fn wait_until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            // The `Notified` future is created before the check. It therefore receives every later
            // notification, even one between the check and the await.
            let notified = self.changed.notified();
            if let Some(value) = check() {
                return value;
            }
            notified.await;
        }
    }
}
