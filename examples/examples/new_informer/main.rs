//! The simple informer, with one store and one handler. See `README.md` in this folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::cache::{Indexers, field, on_event};
use informer::client::{KubeListWatch, Lazy};
use informer_cache::{new_indexer_informer, new_informer};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// Demonstrates the simple informers.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let deployments = KubeListWatch::<Lazy<Deployment>>::all(client.clone());
    let deployments = new_informer(deployments, on_event(|event| println!("  {event}")));

    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let count = on_event(move |_event| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let indexers = Indexers::new().index("node", field("spec.nodeName"));
    let pods = new_indexer_informer(KubeListWatch::<Lazy<Pod>>::all(client), indexers, count);

    let stop = CancellationToken::new();
    let demonstration = async {
        deployments.wait_for_sync(PATIENCE).await?;
        pods.wait_for_sync(PATIENCE).await?;
        println!("{} deployments, {} pods", deployments.indexer().len(), pods.indexer().len());
        println!("the handler has handled {} events", handled.load(Ordering::Relaxed));
        let mut nodes = pods.indexer().index_values("node");
        nodes.sort_unstable();
        for node in nodes {
            println!("  {node}: {} pods", pods.indexer().by_index("node", &node)?.len());
        }

        cluster.change_for_a_while().await?;
        println!("{} calls later, at version {}", pods.handler().calls, pods.last_sync_resource_version());
        stop.cancel();
        Ok(())
    };
    let ((), (), shown) = tokio::join!(deployments.run(stop.clone()), pods.run(stop.clone()), async {
        let shown: Result = demonstration.await;
        stop.cancel();
        shown
    });
    shown
}
