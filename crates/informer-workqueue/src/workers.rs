//! A pool of workers that process the keys of a queue.
//!
//! # Invariants
//! 1. A worker holds at most one key.
//! 2. Every key gets an outcome: the value that the work returned, or the outcome of the guard that is
//!    dropped with a cancelled future.
//!
//! # Lock order
//! The lock of the report is the only one; no user code runs under it.
//!
//! # Shutdown
//! 1. The queue is shut down, by the stop signal or by another handle.
//! 2. Workers continue until no key is ready.
//! 3. At the deadline the workers are cancelled at their next await. The pool does not wait for them, since a
//!    worker that never awaits cannot be stopped.

mod outcome;
mod report;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub use self::outcome::{BoxError, Cause, Failure, RetryDecision, WorkOutcome};
pub use self::report::Report;
use crate::{Item, QueueKey, WorkQueue};

/// The default time that workers may continue after the queue is shut down. It equals the default termination
/// grace period of a Pod.
const DRAIN_WITHIN: Duration = Duration::from_secs(30);

/// The pause of a worker after a panic outside of the work function, such as in Clone of a key or in a rate
/// limiter. Without the pause, such a panic would be likely to recur at once.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

type OnFailure<K> = dyn Fn(&K, &Failure<'_>) + Send + Sync;

/// A pool of workers that process the keys of a queue until it is shut down.
///
/// A success forgets the failures of a key. An error or a panic adds it again with its priority through the
/// rate limiter. A panic of the work is caught, counted and treated as an error.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use informer_workqueue::{WorkOutcome, WorkQueue, Workers};
///
/// let queue = WorkQueue::new();
/// queue.add_all(["1", "2", "many"]);
/// queue.shut_down(); // Ready keys are still processed.
///
/// let report = Workers::new(queue)
///     .count(2)
///     .max_retries(3)
///     .drain_within(Duration::from_secs(10))
///     .on_failure(|key, failure| eprintln!("{key}: {failure}"))
///     .run(|key: &str| async move {
///         match key.parse::<u32>() {
///             Ok(_) => WorkOutcome::Done,
///             Err(error) => WorkOutcome::Fail(error.into()),
///         }
///     })
///     .await;
/// assert_eq!((report.done, report.given_up), (2, 1));
/// # }
/// ```
#[must_use = "workers do nothing until `run`"]
pub struct Workers<K: QueueKey> {
    queue: WorkQueue<K>,
    count: usize,
    policy: Policy<K>,
    drain_within: Duration,
}

struct Policy<K> {
    max_retries: Option<u32>,
    on_failure: Option<Arc<OnFailure<K>>>,
}

/// Runs `count` workers with the defaults until the queue is shut down: unlimited retries, 30 s to finish.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informer_workqueue::{WorkQueue, run_workers};
///
/// let queue = WorkQueue::new();
/// queue.add_all(["a", "b", "c"]);
/// queue.shut_down();
/// let report = run_workers(queue, 2, async |key: &str| println!("{key}")).await;
/// assert_eq!(report.done, 3);
/// # }
/// ```
pub async fn run_workers<K, F, Fut>(queue: WorkQueue<K>, count: usize, work: F) -> Report
where
    K: QueueKey,
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<WorkOutcome>> + Send + 'static,
{
    Workers::new(queue).count(count).run(work).await
}

impl<K: QueueKey> Workers<K> {
    /// Creates a pool of one worker.
    pub fn new(queue: WorkQueue<K>) -> Self {
        let policy = Policy { max_retries: None, on_failure: None };
        Self { queue, count: 1, policy, drain_within: DRAIN_WITHIN }
    }

    /// Sets the number of workers. 0 counts as 1.
    pub fn count(mut self, count: usize) -> Self {
        self.count = count.max(1);
        self
    }

    /// Sets how often a key is retried after an error or a panic. Without this call, the number of retries is
    /// unlimited.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.policy.max_retries = Some(retries);
        self
    }

    /// Sets how long workers may continue after the queue is shut down.
    pub fn drain_within(mut self, deadline: Duration) -> Self {
        self.drain_within = deadline;
        self
    }

    /// Sets a hook that is called for every error and panic. It should be fast: it runs in the worker.
    pub fn on_failure(mut self, hear: impl Fn(&K, &Failure<'_>) + Send + Sync + 'static) -> Self {
        self.policy.on_failure = Some(Arc::new(hear));
        self
    }

    /// Processes keys until the queue is shut down, and after that until no key is ready or the deadline of
    /// [`drain_within`](Self::drain_within) has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the workers; their keys are added again.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a time driver.
    pub async fn run<F, Fut>(self, work: F) -> Report
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Into<WorkOutcome>> + Send + 'static,
    {
        self.run_until(std::future::pending::<()>(), work).await
    }

    /// Processes keys until `stop` resolves, then shuts the queue down and continues like [`run`](Self::run).
    pub async fn run_until<F, Fut>(self, stop: impl Future, work: F) -> Report
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Into<WorkOutcome>> + Send + 'static,
    {
        let Self { queue, count, policy, drain_within } = self;
        let report = Arc::new(Mutex::new(Report::default()));
        let worker = Arc::new(Worker { queue: queue.clone(), policy, work, report: Arc::clone(&report) });
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(Arc::clone(&worker).run());
        }
        let deadline = async {
            tokio::select! {
                _ = stop => queue.shut_down(),
                () = queue.closed() => {}
            }
            tokio::time::sleep(drain_within).await;
        };
        tokio::select! {
            biased;
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = deadline => {}
        }
        // The report is read before the workers are cancelled, because a cancelled worker tries to add its
        // key again, which fails after shutdown.
        let mut report = report.lock().clone();
        report.abandoned = report.started - report.ended;
        report.left = queue.len();
        drop(tasks);
        report
    }
}

impl<K: QueueKey> fmt::Debug for Workers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("queue", &self.queue)
            .field("count", &self.count)
            .field("max_retries", &self.policy.max_retries)
            .field("drain_within", &self.drain_within)
            .finish_non_exhaustive()
    }
}

struct Worker<K: QueueKey, F> {
    queue: WorkQueue<K>,
    policy: Policy<K>,
    work: F,
    report: Arc<Mutex<Report>>,
}

impl<K, F, Fut> Worker<K, F>
where
    K: QueueKey,
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<WorkOutcome>> + Send + 'static,
{
    async fn run(self: Arc<Self>) {
        while AssertUnwindSafe(self.turns()).catch_unwind().await.is_err() {
            self.report.lock().panicked += 1;
            tokio::time::sleep(PAUSE_AFTER_PANIC).await;
        }
    }

    /// The loop of one worker: processes one key after another until the queue ends.
    async fn turns(&self) {
        let mut next = self.queue.get().await;
        while let Some(item) = next {
            next = match self.turn(item).await {
                Some(mut item) => item.done_then_next().await.then_some(item),
                None => self.queue.get().await,
            };
        }
    }

    /// Processes one key. Returns the item of the key if the caller still has to mark it as done.
    async fn turn(&self, item: Item<K>) -> Option<Item<K>> {
        self.report.lock().started += 1;
        let ended = CountEnd { report: &self.report, cancelled: true };
        let key = item.key().clone();
        let outcome = AssertUnwindSafe(async { (self.work)(key).await.into() }).catch_unwind().await;
        let mut succeeded = None;
        match outcome {
            Ok(WorkOutcome::Done) => {
                item.forget();
                self.report.lock().done += 1;
                succeeded = Some(item);
            }
            Ok(WorkOutcome::Requeue) => {
                let kept = item.retry();
                self.requeued(kept);
            }
            Ok(WorkOutcome::RequeueAfter(delay)) => {
                item.forget();
                let kept = item.requeue_after(delay);
                self.requeued(kept);
            }
            Ok(WorkOutcome::Retry(error)) => self.fail(item, Cause::Error(&*error), true),
            Ok(WorkOutcome::Fail(error)) => self.fail(item, Cause::Error(&*error), false),
            Err(panic) => {
                self.report.lock().panicked += 1;
                self.fail(item, Cause::Panic(message(&*panic)), true);
            }
        }
        ended.end();
        succeeded
    }

    fn requeued(&self, kept: bool) {
        let mut report = self.report.lock();
        report.requeued += u64::from(kept);
        report.lost += u64::from(!kept);
    }

    fn fail(&self, item: Item<K>, cause: Cause<'_>, may_retry: bool) {
        let retries = item.retries();
        let key = item.key().clone();
        let retry = may_retry && self.policy.max_retries.is_none_or(|max| retries < max);
        let decision = if !retry {
            item.forget();
            item.done();
            RetryDecision::GivenUp
        } else if item.retry() {
            RetryDecision::Retried
        } else {
            RetryDecision::Lost
        };
        let mut report = self.report.lock();
        match decision {
            RetryDecision::Retried => report.retried += 1,
            RetryDecision::GivenUp => report.given_up += 1,
            RetryDecision::Lost => report.lost += 1,
        }
        drop(report);
        if let Some(hear) = &self.policy.on_failure {
            hear(&key, &Failure { cause, retries, decision });
        }
    }
}

/// A guard that counts the end of processing a key when it is dropped, unless the worker was cancelled.
struct CountEnd<'r> {
    report: &'r Mutex<Report>,
    cancelled: bool,
}

impl CountEnd<'_> {
    fn end(mut self) {
        self.cancelled = false;
    }
}

impl Drop for CountEnd<'_> {
    fn drop(&mut self) {
        if !self.cancelled || std::thread::panicking() {
            self.report.lock().ended += 1;
        }
    }
}

/// Returns the message of a panic whose payload is a string; other payloads get a fixed message.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
