//! Example of a `Fifo`, which queues the latest state of each key. See `README.md` in this folder.

use std::error::Error;
use std::sync::Arc;

use informer_cache::queue::{Fifo, Processed};
use informer_core::{Header, Object};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn job(key: &str, version: &str) -> Result<Arc<Header>> {
    Ok(Arc::new(Header::new(key.parse()?).with_version(version)))
}

/// Demonstrates the queue `Fifo`.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let queue: Fifo<Header> = Fifo::new();

    // A list is queued, then changes. The queue keeps only the latest state of `a`, at its original position.
    queue.replace([job("jobs/a", "1")?, job("jobs/b", "1")?, job("jobs/c", "1")?])?;
    queue.add(job("jobs/a", "2")?)?;
    queue.delete("jobs/c")?;
    println!("queued: {:?}", queue.list_keys());

    // If the process function fails, its item is requeued behind the others. The queue is not locked while
    // the function runs.
    let mut failed_once = false;
    let mut done = Vec::new();
    while queue.depth() > 0 {
        let key = queue
            .pop_with(|job, initial| {
                println!(
                    "working on {} at version {} (initial: {initial})",
                    job.key(),
                    job.resource_version()
                );
                if job.key() == "jobs/a" && !std::mem::replace(&mut failed_once, true) {
                    return Processed::Requeue(None);
                }
                Processed::Done(Some(job.key().clone()))
            })
            .await?;
        done.extend(key);
    }
    println!("done: {done:?}, synced: {}", queue.has_synced());
    assert_eq!(done, ["jobs/b", "jobs/a"]);

    // The consumer receives items as they are queued. After `close` it receives the remaining items, then the
    // end.
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut keys = Vec::new();
            while let Ok(popped) = queue.pop().await {
                keys.push(popped.key().to_string());
                popped.done();
            }
            keys
        }
    });
    queue.add(job("jobs/d", "1")?)?;
    queue.add(job("jobs/e", "1")?)?;
    queue.close();
    println!("the consumer got {:?}", consumer.await?);
    if let Err(error) = queue.add(job("jobs/f", "1")?) {
        println!("rejected: {error}");
    }
    Ok(())
}
