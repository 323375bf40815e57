//! `Reflector`: lists and watches a source and fills a queue, which this program pops itself.
//!
//! It recovers from all failures of the source: an interrupted watch is resumed at the last version, an
//! expired one is followed by a new list, and failures are retried with growing, jittered backoff. Its state
//! can be read at any time.
//!
//! ```sh
//! cargo run -p informer-examples --example reflector
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::cache::queue::InOrderQueue;
use informer::cache::reflector::{Reflector, ReflectorConfig, ReflectorPhase};
use informer::client::{KubeListWatch, Lazy};
use informer::source::DynListWatch;
use informer_apiserver::FaultMatch;
use informer_cache::Change;
use informer_examples::{Result, connect};
use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

/// Demonstrates the reflector.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    if let Some(server) = cluster.server() {
        // The watch after the initial list is cut soon. The reflector opens another one.
        server.faults().on(FaultMatch::watch("pods")).nth(1).cut_after(15);
    }

    let queue = InOrderQueue::new();
    let mut config = ReflectorConfig::named("pods");
    let versions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&versions);
    config.on_version = Some(Arc::new(move |_version| {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let source = DynListWatch::new(KubeListWatch::<Lazy<Pod>>::all(client));
    let reflector = Reflector::new(source, Arc::new(queue.clone()), config);
    let (handle, stop) = (reflector.handle(), CancellationToken::new());
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { reflector.run(stop).await }
    });

    // The consumer counts the pushed changes by type until the queue is closed.
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut counts = BTreeMap::<&str, usize>::new();
            while let Ok(batch) = queue.pop_batch(100).await {
                for change in &batch[..] {
                    let (word, count) = match change {
                        Change::Replaced(list) => ("objects in lists", list.items.len()),
                        Change::Added(_) => ("added", 1),
                        Change::Updated(_) => ("updated", 1),
                        Change::Deleted(_) => ("deleted", 1),
                        _ => ("other changes", 1),
                    };
                    *counts.entry(word).or_default() += count;
                }
            }
            counts
        }
    });

    handle.status_when(|status| status.synced).await;
    cluster.change_for_a_while().await?;
    let status = handle.status_when(|status| status.phase == ReflectorPhase::Watching).await;
    println!("{status}: {} watches, {} relists", status.watches_opened, status.relists.total());
    println!("{} versions, events: {:?}", versions.load(Ordering::Relaxed), status.events);

    stop.cancel();
    running.await??;
    queue.close();
    println!("{}: the queue received {:?}", handle.status(), consumer.await?);
    Ok(())
}
