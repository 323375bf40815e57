//! `InOrderQueue`: every change, in the order of arrival, in batches. Every informer uses this queue.
//!
//! A complete list is one change, which replaces all objects at once. A batch is the unit of one store
//! transaction and one notification: the available changes, at most 1000.
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

/// Demonstrates the queue.
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

    // The list is a batch without other changes. When it is done, it counts as processed and the queue as
    // synced.
    let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
    println!("first: {:?} (initial: {})", &batch[..], batch.is_initial());
    assert!(!queue.has_synced());
    batch.done();
    println!("synced: {}", queue.has_synced());

    // A batch that cannot be processed is returned to the front of the queue; the order is kept.
    let batch = queue.pop_batch(2).await?;
    println!("taken and returned: {:?}", &batch[..]);
    queue.requeue(batch);
    let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
    println!("then all changes: {:?}", &batch[..]);
    assert_eq!(batch.len(), 4);

    // Splits the batch into its changes and a receipt that marks it as done.
    let (changes, receipt) = batch.into_changes();
    let keys: Vec<_> = changes.iter().filter_map(|change| change.key()).collect();
    println!("keys in order of arrival: {keys:?}");
    receipt.done();
    queue.close();
    if let Err(error) = queue.pop_batch(1).await {
        println!("finally: {error}");
    }
    Ok(())
}
