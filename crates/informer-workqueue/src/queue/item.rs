//! A key that is handed out, as a guard: no key stays in process for ever because a worker failed.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use super::driver::Found;
use super::{QueueKey, Taken, Ticket, WorkQueue};

/// What happens to a key whose [`Item`] is dropped without an outcome: its worker panicked or was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDrop {
    /// The key is added again through the rate limiter, so that no work is lost.
    #[default]
    Retry,
    /// The key is done.
    Done,
}

/// A key that was handed out, and that nobody else gets until its outcome is known.
///
/// Exactly one outcome ends it: [`done`](Self::done), [`retry`](Self::retry), [`requeue_after`](Self::requeue_after), or
/// [`done_then_next`](Self::done_then_next), after which it stands for the next key. Dropped without one, it does what [`OnDrop`] says.
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

    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The highest priority with which it was added.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How often the key failed since it was last forgotten.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.queue.retries(&self.key)
    }

    /// Forgets the failures of the key.
    pub fn forget(&self) {
        self.queue.forget(&self.key);
    }

    /// Ends the work on the key. If it was added meanwhile, it is handed out again. Failures are not forgotten:
    /// call [`forget`](Self::forget) after a success.
    pub fn done(mut self) {
        self.end(None);
    }

    /// Ends the work on the key as [`done`](Self::done) does, waits for the next one as [`WorkQueue::get`] does, and is that
    /// one from then on. False at the end of the queue. For the loop of a worker: the lock of the queue is taken once a key
    /// in place of twice.
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
    /// The key is done as soon as the future is polled. Where the future is dropped after that, the item is spent: it stands
    /// for no key, and dropping it does nothing. No other key is lost, as in `get`.
    ///
    /// # Panics
    ///
    /// As `get`; the key is done all the same.
    pub async fn done_then_next(&mut self) -> bool {
        let found = if has_turn().await {
            self.end_and_take()
        } else {
            // Others are to run first, and the key is done before that.
            self.end(None);
            Found::Nothing
        };
        if found == Found::Nothing {
            let Some(next) = self.queue.get().await else { return false };
            *self = next;
        }
        found != Found::End
    }

    /// Ends the work on this key, and becomes the next one if there is one.
    fn end_and_take(&mut self) -> Found {
        let Self { queue, key, ticket, priority, waited, open } = self;
        let (ended, mut old) = (*ticket, None);
        *open = false;
        let mut become_next = |taken: Taken<K>| {
            old = Some(std::mem::replace(key, taken.key));
            (*ticket, *priority, *waited, *open) = (taken.ticket, taken.priority, taken.waited, true);
        };
        let (finished, found, ready) = queue.shared.driver.finish_and_take(ended, &mut become_next);
        drop(old);
        let shared = &self.queue.shared;
        shared.count_added(ready);
        shared.count_worked(finished.and_then(|finished| finished.worked));
        if found == Found::Keys {
            shared.count_taken(std::slice::from_ref(self));
        }
        found
    }

    /// Ends the work on the key and adds it again after as long as the rate limiter says, with the priority it had.
    ///
    /// Returns false if the queue is shut down: then the key is lost, unless it was added again before.
    pub fn retry(mut self) -> bool {
        let delay = self.queue.shared.limiter.when(&self.key, Instant::now());
        self.end(Some((delay, self.priority)))
    }

    /// Ends the work on the key and adds it again after a delay, with the priority it had. Failures are not
    /// forgotten.
    ///
    /// Returns as [`retry`](Self::retry).
    pub fn requeue_after(mut self, delay: Duration) -> bool {
        self.end(Some((delay, self.priority)))
    }

    /// Changes the priority with which [`retry`](Self::retry) and [`requeue_after`](Self::requeue_after) add the key
    /// again.
    pub fn set_priority(&mut self, priority: i32) {
        self.priority = priority;
    }

    /// Gives up the guard: the key stays in process until [`WorkQueue::done`] is called with it.
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
    /// Never panics: it often runs because of a panic, and a second one would end the process.
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let again = (self.queue.shared.on_drop == OnDrop::Retry).then(|| {
            let limit = || self.queue.shared.limiter.when(&self.key, Instant::now());
            (catch_unwind(AssertUnwindSafe(limit)).unwrap_or(RETRY_WITHOUT_LIMITER), self.priority)
        });
        // Metrics of the user and Drop of the key run in there, after the queue itself is done.
        let _ = catch_unwind(AssertUnwindSafe(|| self.end(again)));
    }
}

/// Takes a turn from the budget of the task, if there is one left.
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

/// When a key comes again whose rate limiter panicked: late enough not to spin.
const RETRY_WITHOUT_LIMITER: Duration = Duration::from_secs(1);

impl<K: QueueKey + fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}
