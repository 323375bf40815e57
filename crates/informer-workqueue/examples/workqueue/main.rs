//! Keys to be processed, with delays, rate limits, priorities and groups. See `README.md` in this folder.

use std::error::Error;
use std::time::Duration;

use informer_workqueue::{AddOptions, Aging, ExponentialPerItem, LOW_PRIORITY, WorkQueue};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Demonstrates the queue. The clock of tokio is paused: delays are exact and take no real time.
#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn main() -> Result {
    // A key is handed out once however often it is added, and again if it is added while it is processed.
    let queue = WorkQueue::new();
    queue.add_all(["a", "b", "a", "a"]);
    let mut order = Vec::new();
    while let Some(item) = queue.try_get() {
        if order.is_empty() {
            queue.add("a");
        }
        order.push(*item);
        item.done();
    }
    println!("deduplicated: {order:?}");
    assert_eq!(order, ["a", "b", "a"]);

    // Delays: a waiting key becomes ready at its earliest deadline, and an immediate add ends the wait.
    let begin = Instant::now();
    queue.add_after("late", 60 * MS);
    queue.add_after("soon", 20 * MS);
    queue.add_after("now", Duration::from_secs(3600));
    queue.add("now");
    for _ in 0..3 {
        let Some(item) = queue.get().await else { break };
        println!("{} after {} ms", *item, begin.elapsed().as_millis());
        item.done();
    }

    // Rate limits: each failure of a key doubles its delay, until it is forgotten.
    let limiter = ExponentialPerItem::new(5 * MS, Duration::from_secs(1));
    let limited = WorkQueue::builder().rate_limiter(limiter).build();
    limited.add("flaky");
    let begin = Instant::now();
    while let Some(item) = limited.get().await {
        println!("attempt {} after {} ms", item.retries() + 1, begin.elapsed().as_millis());
        if item.retries() < 3 {
            item.retry();
        } else {
            item.forget();
            item.done();
            limited.shut_down();
        }
    }

    // Priorities: new keys are handed out before those of the initial list, which has a low priority but does
    // not starve.
    let priorities = WorkQueue::builder().priorities(Aging::Every(3)).build();
    for number in 0..4 {
        priorities.add_with(format!("old-{number}"), AddOptions::new().priority(LOW_PRIORITY));
        priorities.add(format!("new-{number}"));
    }
    println!("by priority: {:?}", drain(&priorities));

    // Groups: a namespace with many keys does not delay the others.
    let fair =
        WorkQueue::builder().fair_by(|key: &String| key.split('/').next().unwrap_or_default().into()).build();
    fair.add_all(["big/1", "big/2", "big/3", "big/4", "small/1"].map(str::to_owned));
    let order = drain(&fair);
    println!("by group: {order:?}");
    assert_eq!(order[1], "small/1");
    Ok(())
}

fn drain(queue: &WorkQueue<String>) -> Vec<String> {
    let keys = std::iter::from_fn(|| queue.try_get().map(|item| item.key().clone()));
    let order = keys.take(queue.len()).collect();
    queue.shut_down();
    order
}
