//! Decoding tasks of one list or watch stream, spawned on the runtime to use several cores. Results are
//! returned in the order in which the tasks were spawned.
//!
//! # Invariants
//!
//! 1. At most [`MAX_TASKS`] batches are in flight, which bounds the memory that they hold.
//! 2. On a single-threaded runtime no task is spawned, because the same thread would run it, only later.
//!
//! # Shutdown
//!
//! Dropping an `Offload` aborts its tasks that have not started. A running task takes well under a
//! millisecond and finishes.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The maximum number of batches of one stream that are decoded at the same time. Each batch holds frames of
/// about 256 KiB. With more batches the network is the bottleneck, regardless of the number of cores.
const MAX_TASKS: usize = 8;

/// The batches of one stream that are being decoded by spawned tasks, the oldest first.
pub(super) struct Offload<T> {
    /// The runtime and the maximum number of tasks; `None` on a single-threaded runtime or outside of a tokio
    /// runtime.
    place: Option<(Handle, usize)>,
    tasks: VecDeque<JoinHandle<T>>,
}

/// The error for a batch whose decoding task did not finish, because the runtime was shut down.
#[derive(Debug)]
pub(super) struct Cancelled;

/// A free slot in which one decoding task can be spawned.
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
    /// Creates an offload that spawns its decoding tasks on the current runtime.
    pub(super) fn here() -> Self {
        let place = Handle::try_current().ok().and_then(|handle| {
            let workers = handle.metrics().num_workers();
            // The maximum number of tasks is one more than the runtime has workers. Otherwise a worker that
            // has finished its task would be idle until the stream is polled.
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

    /// Returns the result of the oldest decoding task; `None` if no task is running. If the task panicked,
    /// the panic is resumed in the caller.
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
