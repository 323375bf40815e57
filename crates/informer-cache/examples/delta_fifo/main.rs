//! Example of a `DeltaFifo`, which queues the deltas (changes) of each key, including deletions that the
//! watch missed. See `README.md` in this folder.

use std::error::Error;
use std::sync::Arc;

use informer_cache::Replacement;
use informer_cache::queue::{Delta, DeltaFifo, DeltaFifoConfig, Processed};
use informer_cache::source::Listed;
use informer_core::{Header, Object, ObjectKey, Tombstone};
use informer_store::{Store, StoreBuilder};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn pod(name: &str, version: &str) -> Result<Arc<Header>> {
    Ok(Arc::new(Header::new(ObjectKey::new("default", name)?).with_version(version)))
}

async fn drain(queue: &DeltaFifo<Header>, store: &Store<Header>) -> Result {
    while queue.depth() > 0 {
        let applied = queue.pop_with(|deltas, _initial| {
            println!("  {}: {:?}", deltas.key(), &deltas[..]);
            let last = deltas.newest();
            Processed::Done(match (last, last.object()) {
                (Delta::Deleted(_), Some(object)) => store.delete(Arc::clone(object)).map(drop),
                (_, Some(object)) => store.add(Arc::clone(object)).map(drop),
                (_, None) => Ok(()),
            })
        });
        applied.await??;
    }
    Ok(())
}

/// Demonstrates the queue `DeltaFifo`.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let store: Store<Header> = StoreBuilder::new().build();
    let queue =
        DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(Arc::new(store.indexer().clone())));

    println!("two changes of one key, and a duplicate delete of another:");
    queue.add(pod("a", "1")?)?;
    queue.update(pod("a", "2")?)?;
    queue.add(pod("b", "3")?)?;
    let gone = pod("b", "4")?;
    queue.delete(Tombstone::observed(gone.key().clone(), Arc::clone(&gone)))?;
    queue.delete(Tombstone::observed(gone.key().clone(), gone))?;
    drain(&queue, &store).await?;

    println!("a list without `a`, whose deletion the watch missed:");
    queue.replace(Replacement::new(vec![Listed::Fresh(pod("c", "9")?)], "10"))?;
    drain(&queue, &store).await?;

    println!("a resync, which reports every object again:");
    queue.resync()?;
    drain(&queue, &store).await?;
    println!("the store has {:?}", store.keys());
    assert_eq!(store.keys(), ["default/c"]);
    Ok(())
}
