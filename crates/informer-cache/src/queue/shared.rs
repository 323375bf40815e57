//! `Mutex<S>` and a `Notify`: the handle shared by all queues.
//!
//! # Invariants
//!
//! Every change of the state uses [`SharedQueue::update`], which notifies when a condition that a task may
//! wait for has changed. A waiter checks its condition after every notification, so an unrelated notification
//! costs one check.
//!
//! # Lock order
//!
//! `state` only. It is never held while notifying, waiting, or dropping a closure of the caller.
//!
//! # Shutdown
//!
//! Closing is an ordinary change of the state: it notifies, writers are rejected, waiters see it.

use std::future::Future;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::QueueClosed;

/// The conditions that tasks wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals {
    /// A pop would get something.
    pub(super) poppable: bool,
    /// Nothing is queued, whether or not it could be popped now.
    pub(super) empty: bool,
    /// The writer need not wait.
    pub(super) has_room: bool,
    /// The initial list is processed.
    pub(super) has_synced: bool,
    /// No more writes.
    pub(super) closed: bool,
}

/// A pure state that a [`SharedQueue`] guards.
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

    /// A look at the state, for short reads only.
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// Changes the state. What `change` returns is dropped by the caller, outside the lock.
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

    /// As [`update`](Self::update), unless the queue is closed: then `change` is dropped, outside the lock.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut S) -> R) -> Result<R, QueueClosed> {
        let mut change = Some(change);
        self.update(|state| {
            if state.signals().closed {
                return Err(QueueClosed);
            }
            change.take().map(|change| change(state)).ok_or(QueueClosed)
        })
    }

    /// Takes something with `pop`; `None` where there is nothing to take now.
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

    /// Takes something with `pop` as soon as there is anything. Cancel safe.
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

    /// Resolves when the initial list is processed; fails when the queue is closed before.
    pub(super) fn synced(&self) -> impl Future<Output = Result<(), QueueClosed>> + Send
    where
        S: Send,
    {
        self.wait_until(|| {
            let signals = self.lock().signals();
            match signals.has_synced {
                true => Some(Ok(())),
                false => signals.closed.then_some(Err(QueueClosed)),
            }
        })
    }

    /// Resolves while there is room, and when the queue is closed.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send
    where
        S: Send,
    {
        self.wait_until(|| {
            let signals = self.lock().signals();
            (signals.has_room || signals.closed).then_some(())
        })
    }

    /// Cancel safe: nothing is taken before `check` answers, and its answer is returned without another
    /// await.
    async fn wait_until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            // Created before the check: it receives every notification from here on, so none is lost between
            // the two.
            let rung = self.changed.notified();
            if let Some(answer) = check() {
                return answer;
            }
            rung.await;
        }
    }
}
