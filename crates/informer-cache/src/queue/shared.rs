//! `Mutex<S>` and a `Notify`: the handle shared by all queues.
//!
//! # Invariants
//!
//! Every change of the state uses [`SharedQueue::update`], which notifies when a condition that a task may
//! wait for has changed. A task checks its condition after every notification, so an unrelated notification
//! costs one check.
//!
//! # Lock order
//!
//! `state` only. It is never held while notifying, waiting, or dropping a closure of the caller.
//!
//! # Shutdown
//!
//! Closing is an ordinary change of the state: it notifies, and after it writers are rejected.

use std::future::Future;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::QueueClosed;

/// The conditions that tasks wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals {
    /// A pop would return an item.
    pub(super) poppable: bool,
    /// No item is queued, poppable or not.
    pub(super) empty: bool,
    /// The writer need not wait.
    pub(super) has_room: bool,
    /// The initial list is processed.
    pub(super) has_synced: bool,
    /// The queue is closed: writes are rejected.
    pub(super) closed: bool,
}

/// The state of a queue, guarded by a [`SharedQueue`].
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

    /// Locks the state, for short reads only.
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// Changes the state. The caller drops the result of `change` outside the lock.
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

    /// Like [`update`](Self::update), unless the queue is closed: then `change` is dropped, outside the lock.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut S) -> R) -> Result<R, QueueClosed> {
        let mut change = Some(change);
        self.update(|state| {
            if state.signals().closed {
                return Err(QueueClosed);
            }
            change.take().map(|change| change(state)).ok_or(QueueClosed)
        })
    }

    /// Takes an item with `pop`; returns `None` if there is none now.
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

    /// Takes an item with `pop` as soon as there is one. Cancel safe.
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

    /// Resolves when the initial list is processed; fails if the queue is closed before that.
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

    /// Resolves when there is room, or when the queue is closed.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send
    where
        S: Send,
    {
        self.wait_until(|| {
            let signals = self.lock().signals();
            (signals.has_room || signals.closed).then_some(())
        })
    }

    /// Cancel safe: nothing is taken before `check` returns a value, and that value is returned without
    /// another await.
    async fn wait_until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            // Created before the check: it receives every later notification, so none is lost between the
            // check and the await.
            let notified = self.changed.notified();
            if let Some(value) = check() {
                return value;
            }
            notified.await;
        }
    }
}
