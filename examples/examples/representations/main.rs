//! The four representations of an object and the memory of each. See `README.md` in this folder.

use informer::Object;
use informer::cache::{SharedInformer, SharedInformerFactory};
use informer::client::{Dynamic, Lazy, Metadata, Representation, ResourceKind, Typed};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates the representations.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let lazy = factory.informer::<Pod>();
    let typed = factory.typed::<Pod>();
    let dynamic = factory.dynamic(ResourceKind::of::<Pod>());
    let metadata = factory.metadata::<Pod>();
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    println!("{:10} {:>5} {:>9}  the node of one pod", "form", "pods", "bytes");
    // A lazy object consists of the received bytes. It is decoded on first access, and the decoded object is
    // dropped with the last reference to it.
    show("lazy", &lazy, |pod: &Lazy<Pod>| {
        Ok(pod.get()?.spec.as_ref().and_then(|spec| spec.node_name.clone()))
    });
    // A typed object is decoded on arrival. An access costs nothing, but the object takes several times the
    // memory.
    show("typed", &typed, |pod: &Typed<Pod>| Ok(pod.spec.as_ref().and_then(|spec| spec.node_name.clone())));
    // A dynamic object consists of JSON text, for kinds without a Rust type. `value` parses it.
    show("dynamic", &dynamic, |pod: &Dynamic| {
        Ok(pod.value()?["spec"]["nodeName"].as_str().map(str::to_owned))
    });
    // A metadata object contains only metadata, and the server sends nothing else.
    show("metadata", &metadata, |_: &Metadata<Pod>| Ok(None));

    // A single field of a lazy object is read from its bytes, without decoding the object.
    if let Some(pod) = lazy.indexer().list().first() {
        let path = "status.containerStatuses".parse()?;
        println!("{}: {} bytes of {:?}, without managedFields", pod.key(), pod.raw().len(), pod.encoding());
        println!(
            "phase {:?}, a list is not a scalar: {:?}",
            pod.field(&"status.phase".parse()?),
            pod.field(&path)
        );
    }
    Ok(())
}

fn show<O: Representation>(
    form: &str,
    pods: &SharedInformer<O>,
    node: impl Fn(&O) -> Result<Option<String>>,
) {
    let objects = pods.indexer().list();
    let bytes: usize = objects.iter().map(|pod| pod.held_bytes()).sum();
    let node = objects.first().map(|pod| node(pod));
    println!("{form:10} {:5} {bytes:9}  {node:?}", objects.len());
}
