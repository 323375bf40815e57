//! Informers of kinds whose Rust types are unknown at compile time. See `README.md` in this folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::cache::{HandlerOptions, SharedInformer, SharedInformerFactory};
use informer::client::{Dynamic, ResourceKind};
use informer::{Gvr, Object};
use informer_apiserver::KindDefinition;
use informer_examples::{Cluster, PATIENCE, Result, connect};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Demonstrates dynamic and generic informers.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let kind = kind(&cluster)?;
    let factory = SharedInformerFactory::new(client);
    let path = "spec.replicas".parse()?;
    let replicas = move |object: &Dynamic| object.field(&path).map(|number| number.into_owned());
    let objects = factory.dynamic(kind.clone()).index("replicas", replicas);
    // The function `by_resource` uses these informers later without knowing their types.
    factory.informer::<Pod>();
    factory.metadata::<Deployment>();
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    println!("{} objects of kind {kind}", objects.indexer().len());
    show(&objects)?;
    by_resource(&factory, &kind.gvr()).await?;
    factory.shutdown().await;
    Ok(())
}

/// Returns the kind whose objects the example reads: on the embedded server a new custom kind with two
/// objects, on any other cluster the built-in kind ReplicaSet.
fn kind(cluster: &Cluster) -> Result<ResourceKind> {
    let Some(server) = cluster.server() else {
        return Ok(ResourceKind::new("apps", "v1", "ReplicaSet", "replicasets"));
    };
    // On the embedded server, this has the effect of a CustomResourceDefinition.
    let site = KindDefinition::custom("example.com", "v1", "Website");
    server.register(site.clone());
    for (name, replicas) in [("blog", 2), ("shop", 5)] {
        let spec = json!({"host": format!("{name}.example.com"), "replicas": replicas});
        let metadata = json!({"name": name, "labels": {"app": "web"}});
        server.create(
            site.gvr(),
            "default",
            json!({
                "apiVersion": "example.com/v1", "kind": "Website", "metadata": metadata, "spec": spec,
            }),
        )?;
    }
    Ok(ResourceKind::new("example.com", "v1", "Website", "websites"))
}

/// Reads dynamic objects in four ways: as JSON values, by single fields, by an index, and converted to kube's
/// `DynamicObject`.
fn show(objects: &SharedInformer<Dynamic>) -> Result {
    let mut list = objects.lister().list(&"".parse()?);
    list.sort_by(|a, b| a.key().cmp(b.key()));
    for object in &list {
        let (value, host) = (object.value()?, object.field(&"spec.host".parse()?));
        println!("  {} ({}), host {:?}", object.key(), value["apiVersion"], host.as_deref());
    }
    let mut values = objects.indexer().index_values("replicas");
    values.sort_unstable();
    for value in values {
        println!("  with {value} replicas: {:?}", objects.indexer().index_keys("replicas", &value)?);
    }
    if let Some(object) = list.first() {
        // A dynamic object can also be converted to any other type with matching fields.
        let kube = object.to_dynamic_object()?;
        println!("  as kube's DynamicObject: {:?}", kube.metadata.name);
    }
    Ok(())
}

/// Finds informers by resource and reads their objects without knowing the types, as a garbage collector or a
/// debug page does.
async fn by_resource(factory: &SharedInformerFactory, dynamic: &Gvr) -> Result {
    let events = Arc::new(AtomicUsize::new(0));
    for gvr in [dynamic, &Gvr::new("", "v1", "pods"), &Gvr::new("apps", "v1", "deployments")] {
        let informer = factory.existing(gvr)?.ok_or_else(|| format!("no informer of {gvr}"))?;
        let counter = Arc::clone(&events);
        let handler = informer.add_handler(HandlerOptions::new().name("count"), move |_event| {
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
        handler.wait_for_sync(PATIENCE).await?;

        let lister = informer.lister().namespace("default");
        let mut objects = lister.list(&"app in (web, api)".parse()?);
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        println!("{gvr}: {} objects of web and api in default", objects.len());
        for object in objects.iter().take(1) {
            let node = object.field(&"spec.nodeName".parse()?);
            println!("  {}: app {:?}, node {node:?}", object.key(), object.labels().get("app"));
        }
        println!("  default/web-0 exists: {}", lister.get("web-0").is_some());
    }
    println!("an informer of secrets: {}", factory.existing(&Gvr::new("", "v1", "secrets"))?.is_some());
    println!("{} events of three kinds in one type", events.load(Ordering::Relaxed));
    Ok(())
}
