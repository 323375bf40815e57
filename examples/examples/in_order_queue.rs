//! `InOrderQueue`: every change, in the order of arrival, in batches. The queue inside of every informer.
//!
//! A complete list is one change, which replaces everything at once. A batch is what one store transaction
//! and one notification should hold: as much as is there, at most 1000.
//!
//! ```sh
//! cargo run -p informer-examples --example in_order_queue
//! ```

use std::sync::Arc;

use informer::cache::queue::{InOrderQueue, ReflectorStore};
use informer::source::Listed;
use informer::{Header, Object, ObjectKey, Tombstone};
use informer_cache::{Change, Replacement};
use informer_examples::Result;

fn pod(name: &str, version: &str) -> Result<Arc<Header>> {
    Ok(Arc::new(Header::new(ObjectKey::new("default", name)?).with_version(version)))
}

/// Shows the queue.
#[tokio::main]
pub async fn main() -> Result {
    let queue: InOrderQueue<Header> = InOrderQueue::new();

    // A reflector pushes a list, then the watch events.
    let list = vec![Listed::Fresh(pod("a", "1")?), Listed::Fresh(pod("b", "2")?)];
    queue.push(vec![Change::Replaced(Replacement::new(list, "2"))])?;
    let last = pod("b", "4")?;
    queue.push(vec![
        Change::Updated(pod("a", "3")?),
        Change::Deleted(Tombstone::observed(last.key().clone(), last)),
        Change::Added(pod("b", "5")?),
        Change::Bookmark("6".into()),
    ])?;
    println!("{} changes are queued", queue.depth());

    // The list comes alone. It counts as processed, and the queue as synced, when its batch is done.
    let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
    println!("first: {:?} (initial: {})", &batch[..], batch.is_initial());
    assert!(!queue.has_synced());
    batch.done();
    println!("synced: {}", queue.has_synced());

    // A batch that cannot be processed goes back to the head of the line; order is kept.
    let batch = queue.pop_batch(2).await?;
    println!("taken and given back: {:?}", &batch[..]);
    queue.requeue(batch);
    let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
    println!("then all of it: {:?}", &batch[..]);
    assert_eq!(batch.len(), 4);

    // The objects themselves, while a receipt stands for the batch.
    let (changes, receipt) = batch.into_changes();
    let keys: Vec<_> = changes.iter().filter_map(|change| change.key()).collect();
    println!("keys in order of arrival: {keys:?}");
    receipt.done();
    queue.close();
    if let Err(error) = queue.pop_batch(1).await {
        println!("in the end: {error}");
    }
    Ok(())
}
