//! Work of one stream that other tasks of the runtime do, so that it is spread over the cores. Its outcomes
//! come in the order in which it was begun.
//!
//! # Invariants
//!
//! 1. At most [`MAX_TASKS`] batches are under way, which bounds what they hold.
//! 2. On a runtime of one thread nothing is ever handed over: it would be done by the same thread, later.
//!
//! # Shutdown
//!
//! Dropping it aborts what has not begun. What has begun takes well under a millisecond and ends by itself.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How many batches of one stream are under way at once. Each holds frames of some 256 KiB; with more of them
/// the network is waited for, whatever the number of cores.
const MAX_TASKS: usize = 8;

/// Batches of one stream that are under way, the oldest first.
pub(super) struct Offload<T> {
    /// Where they run, and how many at once; `None` where that would gain nothing.
    place: Option<(Handle, usize)>,
    tasks: VecDeque<JoinHandle<T>>,
}

/// The runtime ended before the work did.
#[derive(Debug)]
pub(super) struct Cancelled;

/// Room for the work of one task.
pub(super) struct Room<'o, T> {
    runtime: &'o Handle,
    tasks: &'o mut VecDeque<JoinHandle<T>>,
}

impl<T: Send + 'static> Room<'_, T> {
    pub(super) fn begin(self, work: impl FnOnce() -> T + Send + 'static) {
        self.tasks.push_back(self.runtime.spawn(async { work() }));
    }
}

impl<T: Send + 'static> Offload<T> {
    /// Of the runtime that this task is run by.
    pub(super) fn here() -> Self {
        let place = Handle::try_current().ok().and_then(|handle| {
            let workers = handle.metrics().num_workers();
            // One more than can run, so that none of them waits for this task to be run.
            (workers > 1).then(|| (handle, (workers + 1).min(MAX_TASKS)))
        });
        Self { place, tasks: VecDeque::new() }
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns true if work can be handed over now.
    pub(super) fn has_room(&self) -> bool {
        self.place.as_ref().is_some_and(|(_, most)| self.tasks.len() < *most)
    }

    /// Returns the room for one more, where there is some.
    pub(super) fn room(&mut self) -> Option<Room<'_, T>> {
        let (runtime, most) = self.place.as_ref()?;
        (self.tasks.len() < *most).then_some(Room { runtime, tasks: &mut self.tasks })
    }

    /// What the oldest work came to; `None` where none is under way. A panic in it goes on here.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Cancelled>>> {
        let Some(oldest) = self.tasks.front_mut() else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(oldest).poll(context));
        self.tasks.pop_front();
        Poll::Ready(Some(outcome.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Cancelled,
        })))
    }

    /// Gives up what is under way.
    pub(super) fn abort(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }
}

impl<T> Drop for Offload<T> {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
