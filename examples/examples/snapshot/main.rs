//! Snapshots: one version of a whole cache. See `README.md` in this folder.

use informer::Object;
use informer::cache::{SharedInformerFactory, field};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates snapshots.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>().index("node", field("spec.nodeName"));
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    let before = pods.snapshot();
    cluster.change_for_a_while().await?;
    let after = pods.snapshot();
    println!("before: {} pods at version {}", before.len(), before.resource_version());
    println!("after:  {} pods at version {}", after.len(), after.resource_version());

    // A snapshot copies only references, so objects that did not change between two snapshots are shared.
    let (mut same, mut changed) = (0, 0);
    for (key, old) in before.iter() {
        match after.get(key) {
            Some(new) if std::sync::Arc::ptr_eq(old, new) => same += 1,
            Some(new) => {
                changed += 1;
                println!("{key}: {} -> {}", old.resource_version(), new.resource_version());
            }
            None => println!("{key}: deleted"),
        }
    }
    println!("{same} pods are shared by both snapshots, {changed} changed");

    // The indexes of a snapshot are of the same version as its objects, so the counts of all index values add
    // up to the total.
    let mut nodes = before.index_values("node");
    nodes.sort_unstable();
    for node in nodes {
        println!("{node} had {} pods", before.by_index("node", &node)?.len());
    }
    if cluster.server().is_some() && changed == 0 {
        return Err("nothing changed, although the generator was running".into());
    }
    Ok(())
}
