use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use informer_workqueue::{ExponentialPerItem, WorkQueue};
use parking_lot::Mutex;

use super::{Operation, QueueScript, QueueVerb};

/// The first delay of the rate limiter. The client-go program uses the same delays.
const LIMITER_BASE: Duration = Duration::from_millis(5);
const MAX_LIMITER: Duration = Duration::from_secs(1);

/// How often the script's task yields to other tasks after each operation. All tasks must have reacted to the
/// operation before the next one. Each task waits for only a few others, so this number is large enough.
const TURNS: u32 = 20;

/// The deadline after which a drain of the queue gives up. It is longer than any script, because drains in
/// client-go have no deadline.
const MAX_DRAIN: Duration = Duration::from_secs(100_000);

/// Runs a queue script on the work queue of this library, in simulated time that changes only with `advance`.
/// Returns a line for each operation, with its result and the keys that getters received.
pub fn run_ours(script: &QueueScript) -> std::io::Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let limiter = ExponentialPerItem::new(LIMITER_BASE, MAX_LIMITER);
        let queue = WorkQueue::builder().rate_limiter(limiter).build();
        let run = Run { queue, got: Arc::default() };
        let mut lines = Vec::new();
        for operation in &script.operations {
            lines.push(run.line(operation).await);
        }
        lines
    }))
}

struct Run {
    queue: WorkQueue<String>,
    /// The keys that getters have received since the last operation, and the drains that have finished.
    got: Arc<Mutex<Vec<String>>>,
}

impl Run {
    async fn line(&self, operation: &Operation<QueueVerb>) -> String {
        let mut line = operation.to_string();
        if let Some(result) = self.carry_out(operation).await {
            line += &format!(" = {result}");
        }
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let mut got = std::mem::take(&mut *self.got.lock());
        // The lines are sorted, because the order in which concurrent getters wake is undefined.
        got.sort();
        got.iter().for_each(|got| line += &format!("; {got}"));
        line
    }

    async fn carry_out(&self, operation: &Operation<QueueVerb>) -> Option<String> {
        let (queue, key) = (&self.queue, operation.whom.clone());
        let time = Duration::from_millis(operation.milliseconds);
        match operation.verb {
            QueueVerb::Add => drop(queue.add(key)),
            QueueVerb::AddAfter => drop(queue.add_after(key, time)),
            QueueVerb::AddRateLimited => drop(queue.add_rate_limited(key)),
            QueueVerb::Forget => queue.forget(&key),
            QueueVerb::Retries => return Some(queue.retries(&key).to_string()),
            QueueVerb::Get => {
                let queue = queue.clone();
                self.wait_for(async move {
                    match queue.get().await {
                        Some(item) => format!("{key} got {}", item.detach()),
                        None => format!("{key} got the end"),
                    }
                });
            }
            QueueVerb::Done => drop(queue.done(&key)),
            QueueVerb::Len => return Some(queue.len().to_string()),
            QueueVerb::Advance => tokio::time::advance(time).await,
            QueueVerb::ShutDown => queue.shut_down(),
            QueueVerb::Drain => {
                let queue = queue.clone();
                self.wait_for(async move {
                    // A drain that ends with an error because of a shutdown counts as finished, because
                    // client-go does not report the difference.
                    let _ = queue.shut_down_with_drain(MAX_DRAIN).await;
                    "drained".to_owned()
                });
            }
            QueueVerb::ShuttingDown => return Some(queue.is_shutting_down().to_string()),
        }
        None
    }

    fn wait_for(&self, outcome: impl Future<Output = String> + Send + 'static) {
        let got = Arc::clone(&self.got);
        tokio::spawn(async move {
            let line = outcome.await;
            got.lock().push(line);
        });
    }
}
