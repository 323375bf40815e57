//! Handlers: plain, asynchronous, blocking, filtered and coalescing ones, and a stream of events.
//!
//! Each handler has its own buffer and task: a slow one delays neither the cache nor the other handlers.
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

/// Demonstrates handlers.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer::<Pod>();

    // Runs on a runtime thread and must not block it. A panic is caught and counted.
    pods.add_handler_with(HandlerOptions::new().name("plain"), on_event(|_event| {}))?;

    // Awaits an asynchronous operation before the next event.
    let asynchronous = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(1)).await);
    pods.add_handler_with(HandlerOptions::new().name("async"), asynchronous)?;

    // Runs on a blocking thread, for database drivers or file access.
    let blocked = blocking(|_event| {
        #[expect(clippy::disallowed_methods, reason = "the example demonstrates a blocking handler")]
        std::thread::sleep(Duration::from_millis(20));
    });
    pods.add_handler_with(HandlerOptions::new().name("blocking"), blocked)?;

    // Receives only the events of matching objects. An object that ceases to match is reported as deleted.
    let of_web = filtered(
        |pod: &Lazy<Pod>| pod.labels().get("app") == Some("web"),
        on_event(|event| println!("  web: {event}")),
    );
    pods.add_handler_with(HandlerOptions::new().name("filtered"), of_web)?;

    // Slow, but bounded: pending updates of one object are merged, with the oldest old and the newest new
    // state. No delete is lost.
    let slow = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(20)).await);
    let coalescing = HandlerOptions::new().name("coalescing").buffer(BufferPolicy::Coalesce);
    pods.add_handler_with(coalescing, slow)?;

    // The same events as a `Stream`. Dropping the stream removes the handler.
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
    println!("the stream received {taken} events");
    println!("{:12} {:>6} {:>8} {:>8}", "handler", "calls", "waiting", "at most");
    for handler in pods.state().handlers {
        println!("{:12} {:6} {:8} {:8}", handler.name, handler.calls, handler.depth, handler.max_depth);
    }
    factory.shutdown().await;
    Ok(())
}
