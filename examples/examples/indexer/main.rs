//! Indexes of a cache, which find objects by their content. See `README.md` in this folder.

use informer::Object;
use informer::cache::{Indexers, SharedInformerFactory, field, label};
use informer::client::Lazy;
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates indexes.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>().index("node", field("spec.nodeName")).index("app", label("app"));
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    // Print each value of the index `node`, and the keys of the objects with that value.
    let mut nodes = pods.indexer().index_values("node");
    nodes.sort_unstable();
    for node in nodes {
        let on_node = pods.indexer().index_keys("node", &node)?;
        println!("{node} runs {}", on_node.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }

    // Add an index while the informer runs; the cached objects are indexed immediately. An object can have
    // several values in an index, such as its container images.
    let images = |pod: &Lazy<Pod>| -> Vec<String> {
        let Ok(pod) = pod.get() else { return Vec::new() };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|container| container.image.clone()).collect()
    };
    pods.add_indexers(Indexers::new().index("image", images))?;
    let mut images = pods.indexer().index_values("image");
    images.sort_unstable();
    for image in images {
        println!("{image} is used by {} pods", pods.by_index("image", &image)?.len());
    }

    // Find the objects that have an index value in common with a given object.
    if let Some(pod) = pods.indexer().list().first() {
        println!("{} has {} pods on its node", pod.key(), pods.indexer().index("node", pod)?.len());
    }

    // Reading an unknown index is an error, and not an empty result. The error names the existing indexes.
    let Err(error) = pods.by_index("zone", "a") else { return Err("an unknown index was accepted".into()) };
    println!("rejected: {error}");
    Ok(())
}
