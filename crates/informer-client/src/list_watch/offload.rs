//! Decoding tasks of one stream, spawned on the runtime to use several cores. Results are returned in the
//! order in which the tasks were spawned.
//!
//! # Invariants
//!
//! 1. At most [`MAX_TASKS`] batches are in flight, which bounds the memory that they hold.
//! 2. On a single-threaded runtime nothing is spawned: the same thread would do the work, later.
//!
//! # Shutdown
//!
//! Dropping the value aborts tasks that have not started. A running task takes well under a millisecond and
//! finishes.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The maximum number of batches of one stream in flight. Each holds frames of about 256 KiB. With more
/// batches the network is the bottleneck, regardless of the number of cores.
const MAX_TASKS: usize = 8;

/// The batches of one stream in flight, the oldest first.
pub(super) struct Offload<T> {
    /// The runtime and the maximum number of tasks; `None` on a single-threaded runtime or outside of one.
    place: Option<(Handle, usize)>,
    tasks: VecDeque<JoinHandle<T>>,
}

/// The runtime shut down before the task finished.
#[derive(Debug)]
pub(super) struct Cancelled;

/// A free slot for one task.
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
    /// Creates an offload for the current runtime.
    pub(super) fn here() -> Self {
        let place = Handle::try_current().ok().and_then(|handle| {
            let workers = handle.metrics().num_workers();
            // One task more than there are workers, so that no worker is idle until the current task is
            // polled.
            (workers > 1).then(|| (handle, (workers + 1).min(MAX_TASKS)))
        });
        Self { place, tasks: VecDeque::new() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.place.as_ref().is_some_and(|(_, most)| self.tasks.len() < *most)
    }

    pub(super) fn room(&mut self) -> Option<Room<'_, T>> {
        let (runtime, most) = self.place.as_ref()?;
        (self.tasks.len() < *most).then_some(Room { runtime, tasks: &mut self.tasks })
    }

    /// Returns the result of the oldest task; `None` if no task is in flight. A panic of the task is resumed
    /// in the caller.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Cancelled>>> {
        let Some(oldest) = self.tasks.front_mut() else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(oldest).poll(context));
        self.tasks.pop_front();
        Poll::Ready(Some(outcome.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Cancelled,
        })))
    }

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
