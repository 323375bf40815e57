//! `GenericInformer` and `GenericLister`: informers found by resource, without the type of their objects.
//!
//! For code that handles arbitrary kinds: a garbage collector, a debug page, a backup. Keys, labels, owners,
//! versions and single fields of any object can be read.
//!
//! ```sh
//! cargo run -p informer-examples --example generic_informer
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::Gvr;
use informer::cache::{HandlerOptions, SharedInformerFactory};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

/// Demonstrates generic informers.
#[tokio::main]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    // One part of the program creates informers, each with its type and representation ...
    factory.informer::<Pod>();
    factory.typed::<Deployment>();
    factory.metadata::<ConfigMap>();
    factory.start();

    // ... and another part finds them by resource.
    let gvrs =
        [Gvr::new("", "v1", "pods"), Gvr::new("apps", "v1", "deployments"), Gvr::new("", "v1", "configmaps")];
    let events = Arc::new(AtomicUsize::new(0));
    for gvr in &gvrs {
        let Some(informer) = factory.for_resource(gvr) else {
            return Err(format!("no informer of {gvr}").into());
        };
        let counter = Arc::clone(&events);
        informer.add_handler(HandlerOptions::new().name("count"), move |_event| {
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
        informer.wait_for_sync(PATIENCE).await?;

        let lister = informer.lister().namespace("default");
        let objects = lister.list(&"app in (web, api)".parse()?);
        println!("{gvr}: {} objects of web and api in default", objects.len());
        for object in objects.iter().take(2) {
            let node = object.field(&"spec.nodeName".parse()?);
            println!(
                "  {} at version {}, node {:?}",
                object.key(),
                object.resource_version(),
                node.as_deref()
            );
        }
        println!("  default/web exists: {}", lister.get("web").is_some());
    }
    println!("no informer of secrets: {}", factory.for_resource(&Gvr::new("", "v1", "secrets")).is_none());
    factory.shutdown().await;
    println!("{} events, of three kinds, in one type", events.load(Ordering::Relaxed));
    Ok(())
}
