//! Reads from a cache by namespace, name and label selector. See `README.md` in this folder.

use informer::cache::{SharedInformerFactory, label};
use informer::{LabelSelector, Object};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates listers.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    // A selector on the indexed label `app` reads only the objects with the selected value, and not the whole
    // cache.
    let pods = factory.informer::<Pod>().index("app", label("app"));
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    let lister = pods.lister();
    for text in ["", "app in (web, api)", "app=web, number notin (0, 1)", "!app"] {
        let selector: LabelSelector = text.parse()?;
        println!("{:32} {} pods", format!("{text:?}"), lister.list(&selector).len());
    }

    let namespaced = lister.namespace("default");
    let mut names: Vec<String> =
        namespaced.list(&"app=web".parse()?).iter().map(|pod| pod.key().name().to_owned()).collect();
    names.sort_unstable();
    println!("web in default: {}", names.join(", "));

    // Get a single object, by its name within a namespace or by its key. A missing object is a not-found
    // error.
    match namespaced.get("web-0") {
        Ok(pod) => println!("{} is at version {}", pod.key(), pod.resource_version()),
        Err(error) => println!("{error}"),
    }
    if let Err(error) = lister.get("default/nobody") {
        println!("{error}");
    }

    // An invalid selector is rejected when it is parsed.
    if let Err(error) = "app in web".parse::<LabelSelector>() {
        println!("rejected: {error}");
    }
    if cluster.server().is_some() {
        assert_eq!(lister.list(&"app in (web, api)".parse()?).len(), 8);
    }
    Ok(())
}
