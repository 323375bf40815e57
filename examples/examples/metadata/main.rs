//! Informers that receive and cache only metadata. See `README.md` in this folder.

use informer::Object;
use informer::cache::{SharedInformerFactory, label};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates metadata informers.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.metadata::<Pod>().index("app", label("app"));
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    let mut apps = pods.indexer().index_values("app");
    apps.sort_unstable();
    for app in apps {
        println!("{app}: {:?}", pods.indexer().index_keys("app", &app)?);
    }
    if let Some(pod) = pods.indexer().list().first() {
        println!("{} was created at {:?}", pod.key(), pod.creation_timestamp());
        println!("  finalizers: {}, owners: {}", pod.finalizers().len(), pod.owners().len());
        println!("  being deleted: {}", pod.deletion_timestamp().is_some());
        println!("  annotations: {}", pod.annotations().iter().count());
        // A cached object has no fields outside of its metadata, so `spec.nodeName` is absent.
        println!("  spec.nodeName: {:?}", pod.field(&"spec.nodeName".parse()?));
    }
    let objects = pods.indexer().list();
    let bytes: usize = objects.iter().map(|pod| pod.held_bytes()).sum();
    println!("{} pods in {bytes} bytes", objects.len());

    // A metadata informer delivers the same events as any other informer.
    let mut events = pods.events();
    let _changes = cluster.changes();
    for _ in 0..objects.len().min(3) {
        if let Some(event) = events.next().await {
            println!("  {event}");
        }
    }
    Ok(())
}
