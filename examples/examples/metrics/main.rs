//! Metrics of informers and work queues in one prometheus registry. See `README.md` in this folder.

use std::sync::Arc;

use informer::ObjectKey;
use informer::cache::metrics::prometheus::PrometheusInformers;
use informer::cache::{HandlerOptions, SharedInformerFactory, on_event};
use informer::workqueue::{PrometheusMetrics, WorkQueue, Workers};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;
use prometheus_client::registry::Registry;

/// Demonstrates metrics.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let mut registry = Registry::default();
    let informers = PrometheusInformers::register(&mut registry);
    let queues = PrometheusMetrics::register(&mut registry);

    let factory = SharedInformerFactory::new(client).metrics(Arc::new(informers));
    let pods = factory.informer::<Pod>();
    let queue = WorkQueue::<ObjectKey>::builder().metrics(queues.queue("pods")).build();
    let keys = queue.clone();
    pods.add_handler_with(
        HandlerOptions::new().name("enqueue"),
        on_event(move |event| {
            keys.add(event.key().clone());
        }),
    )?;
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;

    let report =
        Workers::new(queue.clone()).count(2).run_until(cluster.change_for_a_while(), async |_key| {}).await;
    println!("{} keys were processed", report.done);

    // Render the response to a Prometheus scrape. The example does not print histogram buckets and zeros,
    // because the response is long.
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket")) {
        if !line.ends_with(" 0") && !line.ends_with(" 0.0") {
            println!("{line}");
        }
    }
    factory.shutdown().await;
    Ok(())
}
