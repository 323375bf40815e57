//! A reflector and a queue without an informer. See `README.md` in this folder.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use informer::ObjectKey;
use informer::cache::queue::{Delta, DeltaFifo, DeltaFifoConfig, Deltas, InOrderQueue, Popped};
use informer::cache::reflector::{Reflector, ReflectorConfig, ReflectorPhase};
use informer::cache::store::{Store, StoreBuilder};
use informer::client::{Client, KubeListWatch, Lazy};
use informer::source::DynListWatch;
use informer_apiserver::FaultMatch;
use informer_cache::Change;
use informer_cache::controller::{ControllerConfig, InformerController, Process};
use informer_examples::{Cluster, PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// Consumes the changes of a reflector in two ways.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    pop_changes(client.clone(), &cluster).await?;
    process_items(client, &cluster).await
}

/// Pops every change from the queue of a reflector, in the order of the changes.
async fn pop_changes(client: Client, cluster: &Cluster) -> Result {
    if let Some(server) = cluster.server() {
        // The embedded server interrupts the first watch after the initial list. The reflector then opens
        // another watch.
        server.faults().on(FaultMatch::watch("pods")).nth(1).cut_after(15);
    }
    let queue = InOrderQueue::new();
    let source = DynListWatch::new(KubeListWatch::<Lazy<Pod>>::all(client));
    let reflector = Reflector::new(source, Arc::new(queue.clone()), ReflectorConfig::named("pods"));
    let (handle, stop) = (reflector.handle(), CancellationToken::new());
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { reflector.run(stop).await }
    });
    // This task counts the changes by type until the queue is closed.
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut counts = BTreeMap::<&str, usize>::new();
            while let Ok(batch) = queue.pop_batch(100).await {
                for change in &batch[..] {
                    let (name, count) = match change {
                        Change::Replaced(list) => ("in lists", list.items.len()),
                        Change::Added(_) => ("added", 1),
                        Change::Updated(_) => ("updated", 1),
                        Change::Deleted(_) => ("deleted", 1),
                        _ => ("other", 1),
                    };
                    *counts.entry(name).or_default() += count;
                }
            }
            counts
        }
    });

    handle.status_when(|status| status.synced).await;
    cluster.change_for_a_while().await?;
    let status = handle.status_when(|status| status.phase == ReflectorPhase::Watching).await;
    println!("{status}: {} watches, {} relists", status.watches_opened, status.relists.total());
    stop.cancel();
    running.await??;
    queue.close();
    println!("{}: the queue received {:?}", handle.status(), consumer.await?);
    Ok(())
}

/// The process function of `process_items`: applies all pending deltas of one object to the store in each
/// call. (For a synchronous function, a closure can be used instead of this type.)
struct KeepStore {
    pods: Store<Lazy<Pod>>,
    failed: HashSet<ObjectKey>,
}

impl Process<Popped<Deltas<Lazy<Pod>>>> for KeepStore {
    async fn process(&mut self, deltas: &Popped<Deltas<Lazy<Pod>>>) -> Result {
        // Simulate an error, such as a full disk, at the first attempt for each pod of `web`.
        let key = deltas.key();
        if key.name().starts_with("web") && self.failed.insert(key.clone()) {
            return Err(format!("the first attempt at {key} fails").into());
        }
        let newest = deltas.newest();
        match (newest, newest.object()) {
            (Delta::Deleted(_), Some(last)) => self.pods.delete(Arc::clone(last)).map(drop)?,
            (_, Some(object)) => self.pods.add(Arc::clone(object)).map(drop)?,
            (_, None) => {}
        }
        Ok(())
    }
}

/// Runs a reflector, a `DeltaFifo` and a process function. The process function updates a store, which is
/// also the store of known objects of the `DeltaFifo`.
async fn process_items(client: Client, cluster: &Cluster) -> Result {
    let store = StoreBuilder::<Lazy<Pod>>::new().resource("pods").build();
    let known = Arc::new(store.indexer().clone());
    let queue = DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(known));
    let process = KeepStore { pods: store.clone(), failed: HashSet::new() };
    let config = ControllerConfig::new(KubeListWatch::<Lazy<Pod>>::all(client), queue).retry_on_error(true);
    let controller = Arc::new(InformerController::new(config, process));
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, stop) = (Arc::clone(&controller), stop.clone());
        async move { controller.run(stop).await }
    });

    // The controller is synced once every object of the first list was processed. Items whose processing
    // failed also count as processed; this queue requeues them.
    tokio::time::timeout(PATIENCE, controller.synced()).await??;
    println!("synced after {} failed attempts", controller.counts().failed);
    cluster.change_for_a_while().await?;
    let counts = controller.counts();
    println!("{} items processed, {} attempts failed", counts.processed, counts.failed);
    println!("the reflector is {}", controller.reflector().status());

    stop.cancel();
    running.await?;
    println!("stopped with {} pods", store.len());
    Ok(())
}
