//! Handlers: plain, asynchronous, blocking, filtered, coalescing, and a stream of events instead of one.
//!
//! Each has a buffer and a task of its own: a slow one delays neither the cache nor the others.
//!
//! ```sh
//! cargo run -p informer-examples --example handlers
//! ```

use std::time::Duration;

use informer::Object;
use informer::cache::{
    BufferPolicy, HandlerOptions, SharedInformerFactory, blocking, filtered, on_event, on_event_async,
};
use informer::client::Lazy;
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Shows handlers.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>();

    // Runs on a thread of the runtime and must not block it. A panic is contained and counted.
    pods.add_handler_with(HandlerOptions::new().name("plain"), on_event(|_event| {}))?;

    // Waits for something asynchronous before the next event.
    let asynchronous = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(1)).await);
    pods.add_handler_with(HandlerOptions::new().name("async"), asynchronous)?;

    // Blocks a thread of its own, as a database driver or a file would.
    let blocked = blocking(|_event| {
        #[expect(clippy::disallowed_methods, reason = "that it blocks is what is shown")]
        std::thread::sleep(Duration::from_millis(20));
    });
    pods.add_handler_with(HandlerOptions::new().name("blocking"), blocked)?;

    // Receives the events of matching objects only: one that ceases to match is reported as deleted.
    let of_web = filtered(
        |pod: &Lazy<Pod>| pod.labels().get("app") == Some("web"),
        on_event(|event| println!("  web: {event}")),
    );
    pods.add_handler_with(HandlerOptions::new().name("filtered"), of_web)?;

    // Slow, but bounded: what waits for one object merges, oldest old and newest new. No delete is lost.
    let slow = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(20)).await);
    let coalescing = HandlerOptions::new().name("coalescing").buffer(BufferPolicy::Coalesce);
    pods.add_handler_with(coalescing, slow)?;

    // The same events for people who think in streams. Dropping the stream takes it away.
    let mut events = pods.events_with(HandlerOptions::new().name("stream"))?;

    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    let _changes = cluster.changes();
    let mut taken = 0;
    let end = tokio::time::Instant::now() + Duration::from_millis(500);
    while let Ok(Some(event)) = tokio::time::timeout_at(end, events.next()).await {
        taken += 1;
        if event.is_deleted() {
            println!("  stream: {event}");
        }
    }
    println!("{taken} events came by the stream");
    println!("{:12} {:>6} {:>8} {:>8}", "handler", "calls", "waiting", "at most");
    for handler in pods.state().handlers {
        println!("{:12} {:6} {:8} {:8}", handler.name, handler.calls, handler.depth, handler.max_depth);
    }
    factory.shutdown().await;
    Ok(())
}
