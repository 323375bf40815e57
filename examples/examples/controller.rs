//! `InformerController`: runs a reflector that fills a queue, and passes the popped items to a process
//! function.
//!
//! The low level under the informers, with a queue of your choice. Here it is a `DeltaFifo`, whose known
//! objects are the store that the process function maintains. Failed items are requeued. (A reconciling
//! controller is in `custom_controller`.)
//!
//! ```sh
//! cargo run -p informer-examples --example controller
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use informer::ObjectKey;
use informer::cache::queue::{Delta, DeltaFifo, DeltaFifoConfig, Deltas, Popped};
use informer::cache::store::{Store, StoreBuilder};
use informer::client::{KubeListWatch, Lazy};
use informer_cache::controller::{ControllerConfig, InformerController, Process};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// Processes the deltas of one object. (A closure suffices for a synchronous function.)
struct KeepStore {
    pods: Store<Lazy<Pod>>,
    failed: HashSet<ObjectKey>,
}

impl Process<Popped<Deltas<Lazy<Pod>>>> for KeepStore {
    async fn process(&mut self, deltas: &Popped<Deltas<Lazy<Pod>>>) -> Result {
        // Fails once for each pod of `web`, as with a full disk.
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

/// Runs the pump.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let store = StoreBuilder::<Lazy<Pod>>::new().resource("pods").build();
    let known = Arc::new(store.indexer().clone());
    let queue = DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(known));

    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let process = KeepStore { pods: store.clone(), failed: HashSet::new() };
    let controller =
        Arc::new(InformerController::new(ControllerConfig::new(source, queue).retry_on_error(true), process));

    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, stop) = (Arc::clone(&controller), stop.clone());
        async move { controller.run(stop).await }
    });
    // Synced: every object of the first list was processed. With this queue failed items count as processed,
    // and are requeued.
    tokio::time::timeout(PATIENCE, controller.synced()).await??;
    println!("synced at version {}: {} pods", controller.last_sync_resource_version(), store.len());

    cluster.change_for_a_while().await?;
    let counts = controller.counts();
    println!("{} items processed, {} attempts failed", counts.processed, counts.failed);
    println!("the reflector is {}", controller.reflector().status());

    stop.cancel();
    running.await?;
    println!("stopped with {} pods", store.len());
    Ok(())
}
