//! Dynamic informers: kinds known only at run time, as trees of JSON values.
//!
//! ```sh
//! cargo run -p informer-examples --example dynamic
//! ```

use informer::Object;
use informer::cache::SharedInformerFactory;
use informer::client::{Dynamic, ResourceKind};
use informer_apiserver::Kind;
use informer_examples::{PATIENCE, Result, connect};
use serde_json::json;

/// Demonstrates dynamic informers.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    // Equivalent to a CustomResourceDefinition and two objects of its kind.
    let site = Kind::custom("example.com", "v1", "Website");
    if let Some(server) = cluster.server() {
        server.register(site.clone());
        for (name, replicas) in [("blog", 2), ("shop", 5)] {
            let spec = json!({"host": format!("{name}.example.com"), "replicas": replicas});
            server.create(site.gvr(), "default", json!({
                "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name}, "spec": spec,
            }))?;
        }
    }
    // On a real cluster, a kind that every cluster serves.
    let kind = match cluster.server() {
        Some(_) => ResourceKind::new("example.com", "v1", "Website", "websites"),
        None => ResourceKind::new("apps", "v1", "Deployment", "deployments"),
    };

    let factory = SharedInformerFactory::new(client);
    let replicas =
        |object: &Dynamic| object.value()["spec"]["replicas"].as_u64().map(|number| number.to_string());
    let objects = factory.dynamic(kind.clone()).index("replicas", replicas);
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    println!("{} objects of kind {kind}", objects.indexer().len());
    for object in objects.lister().list(&"".parse()?) {
        let (api_version, host) = (&object.value()["apiVersion"], object.field(&"spec.host".parse()?));
        println!("  {} ({api_version}), host {:?}", object.key(), host.as_deref());
    }
    for value in objects.indexer().index_values("replicas") {
        println!("with {value} replicas: {:?}", objects.indexer().index_keys("replicas", &value)?);
    }

    // Converted to kube's type, or to any type with matching fields.
    if let Some(object) = objects.indexer().list().first() {
        let kube = object.to_dynamic_object()?;
        println!("as kube's DynamicObject: {:?}", kube.metadata.name);
    }
    Ok(())
}
