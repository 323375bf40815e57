//! The guard for a key in process. It ensures that a key does not stay in process forever if its worker
//! panics or is cancelled.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use super::driver::{FinishedAndTaken, TakeOutcome};
use super::{QueueKey, Taken, Ticket, WorkQueue};

/// The handling of a key whose [`Item`] is dropped without an outcome: its worker panicked or was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDrop {
    /// Adds the key again after the delay of the rate limiter, so that the key is processed again.
    #[default]
    Retry,
    /// Marks the key as done, as if it had been processed successfully.
    Done,
}

/// A key in process. No other worker gets it until it is finished.
///
/// Exactly one call finishes it: [`done`](Self::done), [`retry`](Self::retry),
/// [`requeue_after`](Self::requeue_after), or [`done_then_next`](Self::done_then_next), after which the item
/// holds the next key. If it is dropped unfinished, [`OnDrop`] applies.
#[must_use = "a key that is dropped without an outcome is added again"]
pub struct Item<K: QueueKey> {
    queue: WorkQueue<K>,
    key: K,
    ticket: Ticket,
    priority: i32,
    waited: Duration,
    open: bool,
}

impl<K: QueueKey> Item<K> {
    pub(super) fn new(queue: &WorkQueue<K>, taken: Taken<K>) -> Self {
        let Taken { key, ticket, priority, waited } = taken;
        Self { queue: queue.clone(), key, ticket, priority, waited, open: true }
    }

    /// Returns the key that is in process.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the highest priority with which the key was added.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns how often the key failed since it was last forgotten.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.queue.retries(&self.key)
    }

    /// Forgets the failures of the key, so that its backoff starts over.
    pub fn forget(&self) {
        self.queue.forget(&self.key);
    }

    /// Finishes the key. If it was added meanwhile, it is handed out again. Failures are not forgotten: call
    /// [`forget`](Self::forget) after a success.
    pub fn done(mut self) {
        self.end(None);
    }

    /// Finishes the key like [`done`](Self::done), then waits for the next key like [`WorkQueue::get`]; the
    /// item then holds that key. Returns false if the queue is shut down and will hand out no more keys. A
    /// worker that loops over this call takes the lock once per key instead of twice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use informer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add_all(["a", "b"]);
    /// queue.shut_down();
    /// let mut keys = Vec::new();
    /// if let Some(mut item) = queue.get().await {
    ///     loop {
    ///         keys.push(*item);
    ///         if !item.done_then_next().await {
    ///             break;
    ///         }
    ///     }
    /// }
    /// assert_eq!(keys, ["a", "b"]);
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The first poll of the future finishes the key. If the future is dropped after that, the item holds no
    /// key, and dropping it does nothing. No other key is lost, as in `get`.
    ///
    /// # Panics
    ///
    /// The panics are those of `get`; the key is finished in any case.
    pub async fn done_then_next(&mut self) -> bool {
        let found = if has_turn().await {
            self.end_and_take()
        } else {
            // The key is finished before this task yields to other tasks.
            self.end(None);
            TakeOutcome::Nothing
        };
        if found == TakeOutcome::Nothing {
            let Some(next) = self.queue.get().await else { return false };
            *self = next;
        }
        found != TakeOutcome::End
    }

    fn end_and_take(&mut self) -> TakeOutcome {
        let Self { queue, key, ticket, priority, waited, open } = self;
        let (ended, mut old) = (*ticket, None);
        *open = false;
        let mut become_next = |taken: Taken<K>| {
            old = Some(std::mem::replace(key, taken.key));
            (*ticket, *priority, *waited, *open) = (taken.ticket, taken.priority, taken.waited, true);
        };
        let exchange = queue.shared.driver.finish_and_take(ended, &mut become_next);
        let FinishedAndTaken { finished, found, became_ready } = exchange;
        drop(old);
        let shared = &self.queue.shared;
        shared.count_added(became_ready);
        shared.count_worked(finished.and_then(|finished| finished.worked));
        if found == TakeOutcome::Keys {
            shared.count_taken(std::slice::from_ref(self));
        }
        found
    }

    /// Finishes the key and adds it again with its priority after the delay of the rate limiter.
    ///
    /// Returns false if the queue is shut down. The key is then not handed out again, unless it was added
    /// again before the shutdown.
    pub fn retry(self) -> bool {
        self.retry_no_earlier(Duration::ZERO)
    }

    /// Finishes the key and adds it again with its priority after the delay of the rate limiter, but not
    /// before `minimum` has elapsed, for example a `Retry-After` of a server. The rate limiter counts a
    /// failure.
    ///
    /// The return value is that of [`retry`](Self::retry).
    pub fn retry_no_earlier(mut self, minimum: Duration) -> bool {
        let delay = self.queue.shared.limiter.when(&self.key, Instant::now()).max(minimum);
        self.end(Some((delay, self.priority)))
    }

    /// Finishes the key and adds it again with its priority after a delay. Failures are not forgotten.
    ///
    /// The return value is that of [`retry`](Self::retry).
    pub fn requeue_after(mut self, delay: Duration) -> bool {
        self.end(Some((delay, self.priority)))
    }

    /// Sets the priority with which [`retry`](Self::retry) and [`requeue_after`](Self::requeue_after) add the
    /// key again.
    pub fn set_priority(&mut self, priority: i32) {
        self.priority = priority;
    }

    /// Releases the guard: the returned key stays in process until [`WorkQueue::done`] is called with it.
    #[must_use = "the key stays in process until `WorkQueue::done` is called with it"]
    pub fn detach(mut self) -> K {
        let key = self.key.clone();
        self.open = false;
        key
    }

    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    fn end(&mut self, again: Option<(Duration, i32)>) -> bool {
        self.open = false;
        self.queue.shared.finish(self.ticket, again).unwrap_or(false)
    }
}

impl<K: QueueKey> Deref for Item<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: QueueKey> Drop for Item<K> {
    /// Dropping an item never panics: it often happens during unwinding, and a second panic would abort the
    /// process.
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let again = (self.queue.shared.on_drop == OnDrop::Retry).then(|| {
            let limit = || self.queue.shared.limiter.when(&self.key, Instant::now());
            (catch_unwind(AssertUnwindSafe(limit)).unwrap_or(RETRY_WITHOUT_LIMITER), self.priority)
        });
        // User-defined metrics and the drop of the key may panic. `end` runs them after it has changed the
        // state of the queue, so the key is finished even then.
        let _ = catch_unwind(AssertUnwindSafe(|| self.end(again)));
    }
}

/// Returns true if the tokio coop budget of the task is not exhausted, and consumes one unit of it.
async fn has_turn() -> bool {
    poll_fn(|cx| match coop::poll_proceed(cx) {
        Poll::Ready(turn) => {
            turn.made_progress();
            Poll::Ready(true)
        }
        Poll::Pending => Poll::Ready(false),
    })
    .await
}

/// The retry delay if the rate limiter panics. It is long enough to avoid a busy loop.
const RETRY_WITHOUT_LIMITER: Duration = Duration::from_secs(1);

impl<K: QueueKey + fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
