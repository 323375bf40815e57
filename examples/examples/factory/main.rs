//! One factory that creates, starts, awaits and stops the informers of many kinds.
//! See `README.md` in this folder.

use std::time::Duration;

use informer::cache::SharedInformerFactory;
use informer::client::StreamingLists;
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

/// Demonstrates the factory.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;

    // This factory's informers cache all objects in all namespaces. Every call for the same kind returns the
    // same informer.
    let all = SharedInformerFactory::new(client.clone()).resync(Duration::from_secs(600));
    let (pods, deployments, config_maps) =
        (all.informer::<Pod>(), all.informer::<Deployment>(), all.informer::<ConfigMap>());
    let again = all.informer::<Pod>();

    // This factory's informers cache the objects of one namespace with a label. The server sends only
    // matching objects.
    let web = SharedInformerFactory::new(client)
        .namespace("default")
        .labels("app in (web)".parse()?)
        .streaming_lists(StreamingLists::Off);
    let web_pods = web.informer::<Pod>();

    for factory in [&all, &web] {
        factory.start();
        factory.wait_for_cache_sync(PATIENCE).await?;
    }
    println!(
        "{} pods, {} deployments, {} config maps",
        pods.indexer().len(),
        deployments.indexer().len(),
        config_maps.indexer().len()
    );
    println!("{} pods of web in default", web_pods.indexer().len());
    println!("requested twice, created once: {} pods again", again.indexer().len());

    // Print the status of each informer, which needs no request to the server.
    println!("{:24} {:>7} {:>8} {:>7}  reflector", "informer", "objects", "version", "watches");
    for state in all.states() {
        let (version, reflector) = (state.version.to_string(), state.reflector);
        println!(
            "{:24} {:7} {version:>8} {:7}  {reflector}",
            state.name, state.objects, reflector.watches_opened
        );
    }

    // Wait until every task of the informers has ended. The caches remain readable.
    all.shutdown().await;
    web.shutdown().await;
    println!("shut down: {}", pods.is_stopped() && web_pods.is_stopped());
    if cluster.server().is_some() {
        assert_eq!((pods.indexer().len(), web_pods.indexer().len()), (12, 4));
    }
    Ok(())
}
