//! Example of an `InOrderQueue`, which every informer uses: it queues all changes in the order of arrival.
//! See `README.md` in this folder.

use std::error::Error;
use std::sync::Arc;

use informer_cache::queue::{InOrderQueue, ReflectorStore};
use informer_cache::source::Listed;
use informer_cache::{Change, Replacement};
use informer_core::{Header, Object, ObjectKey, Tombstone};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn pod(name: &str, version: &str) -> Result<Arc<Header>> {
    Ok(Arc::new(Header::new(ObjectKey::new("default", name)?).with_version(version)))
}

/// Demonstrates the queue `InOrderQueue`.
#[tokio::main(flavor = "current_thread")]
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

    // A list is popped as a batch without other changes. After `done`, the list counts as processed and the
    // queue as synced.
    let batch = queue.pop_batch(InOrderQueue::<Header>::MAX_BATCH).await?;
    println!("first: {:?} (initial: {})", &batch[..], batch.is_initial());
    assert!(!queue.has_synced());
    batch.done();
    println!("synced: {}", queue.has_synced());

    // A batch whose processing failed is returned to the front of the queue, so the order of changes is kept.
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
