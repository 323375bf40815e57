//! Transforms and pruning, which make cached objects smaller. See `README.md` in this folder.

use std::sync::Arc;

use informer::Object;
use informer::cache::SharedInformer;
use informer::client::{KubeListWatch, Lazy, Pruning, ReadOptions};
use informer_examples::{Error, PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// Keeps only the fields of a pod that this program reads: metadata without annotations, and the node.
fn slim(pod: Arc<Lazy<Pod>>) -> Result<Arc<Lazy<Pod>>, Error> {
    if pod.key().name() == "db-3" {
        return Err("this pod is not supported".into());
    }
    let mut whole: Value = serde_json::from_str(&pod.json()?)?;
    if let Some(metadata) = whole["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    let node = whole["spec"]["nodeName"].take();
    let slim = serde_json::json!({"metadata": whole["metadata"].take(), "spec": {"nodeName": node, "containers": []}});
    Ok(Arc::new(Lazy::from_json(&slim.to_string())?))
}

/// Demonstrates transforms and pruning.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let whole = SharedInformer::builder(source.clone()).name("whole").build();
    let slim = SharedInformer::builder(source.clone()).name("slim").transform(slim).build();
    // Remove fields while the received bytes are read, without decoding or copying them. `managedFields` are
    // removed by default.
    let pruning = Pruning::default().cut("metadata.annotations".parse()?).cut("status".parse()?);
    let options = ReadOptions { pruning, ..ReadOptions::default() };
    let pruned = SharedInformer::builder(source.read_options(options)).name("pruned").build();

    println!("{:8} {:>5} {:>9}", "informer", "pods", "bytes");
    for pods in [&whole, &slim, &pruned] {
        let run = pods.start();
        pods.wait_for_sync(PATIENCE).await?;
        let objects = pods.indexer().list();
        let bytes: usize = objects.iter().map(|pod| pod.held_bytes()).sum();
        println!("{:8} {:5} {bytes:9}", pods.name(), objects.len());
        for undecodable in pods.undecodable() {
            let cause = undecodable.error().source().map(ToString::to_string);
            println!("  quarantined: {undecodable}: {}", cause.unwrap_or_default());
        }
        run.stop().await;
    }

    // The fields that the transform has kept can be read and indexed as usual.
    if let Some(pod) = slim.indexer().list().first() {
        let (node, note) = (pod.field(&"spec.nodeName".parse()?), pod.annotation("example.com/note"));
        println!("{}: node {node:?}, note {note:?}", pod.key());
    }
    Ok(())
}
