//! A wait with a deadline, whose error names the informers that are not synced.
//! See `README.md` in this folder.

use std::time::Duration;

use informer::cache::{CacheSynced, SharedInformerFactory, wait_for_cache_sync};
use informer::client::ResourceKind;
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates waiting for informers that sync, and for one that does not.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, _cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>();
    let unicorns = factory.dynamic(ResourceKind::new("example.com", "v1", "Unicorn", "unicorns"));
    let handler = pods.on_event(|_event| {})?;
    factory.start();

    // Wait for an informer, and for a handler that has processed the first list.
    wait_for_cache_sync([&pods as &dyn CacheSynced, &handler], PATIENCE).await?;
    println!("pods are synced, and so is their handler");

    // The informer of unicorns never syncs, because the server does not serve this kind. A program logs the
    // error and exits; otherwise the informer would continue to retry.
    let Err(error) = factory.wait_for_cache_sync(Duration::from_millis(400)).await else {
        return Err("the server serves unicorns".into());
    };
    println!("{error}");
    for unsynced in error.unsynced() {
        println!("name: {}\ndoing: {}", unsynced.name, unsynced.doing);
        println!("last error: {}", unsynced.last_error.as_deref().unwrap_or("none"));
    }

    // The state of an informer can be read at any time, without waiting.
    let state = unicorns.state();
    println!("synced: {}, attempts failed: {}", state.synced, state.reflector.failures);
    if let Some(error) = &state.reflector.last_error {
        println!("kind of failure: {}", error.kind());
    }
    Ok(())
}
