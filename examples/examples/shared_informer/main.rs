//! One cache and many handlers, each with its own buffer and task. See `README.md` in this folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer::Object;
use informer::cache::{
    AddHandlerError, BufferPolicy, Event, EventStream, HandlerOptions, SharedInformer, blocking, filtered,
    handler_funcs, on_event, on_event_async,
};
use informer::client::{KubeListWatch, Lazy};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

type Pods = SharedInformer<Lazy<Pod>>;

/// Runs an informer with many handlers.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let pods = SharedInformer::new(KubeListWatch::<Lazy<Pod>>::all(client));

    // This handler consists of three callbacks. They run on a thread of the runtime and must not block it.
    let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let [adds, updates, deletes] = [0, 1, 2].map(|kind| {
        let counts = Arc::clone(&counts);
        move || {
            counts[kind].fetch_add(1, Ordering::Relaxed);
        }
    });
    let callbacks = handler_funcs()
        .on_add(move |_pod, _initial| adds())
        .on_update(move |_old, _new| updates())
        .on_delete(move |_last| deletes());
    let counting = pods.add_handler_with(HandlerOptions::new().name("counting"), callbacks)?;
    add_other_handlers(&pods)?;
    // The same events can be read as a `Stream`. Dropping the stream removes its handler.
    let stream = pods.events_with(HandlerOptions::new().name("stream"))?;

    // The informer runs until `run` is dropped. The cache is synced after the initial list; a handler is
    // synced after it has processed the initial adds of this list.
    let run = pods.start();
    pods.wait_for_sync(PATIENCE).await?;
    counting.wait_for_sync(PATIENCE).await?;
    cluster.change_for_a_while().await?;
    let [adds, updates, deletes] = [0, 1, 2].map(|kind| counts[kind].load(Ordering::Relaxed));
    println!("{adds} adds, {updates} updates, {deletes} deletes");

    drain(stream).await;
    resync(&pods).await?;
    add_and_remove_late(&pods).await?;

    println!("{:12} {:>6} {:>8} {:>8}", "handler", "calls", "waiting", "at most");
    for handler in pods.state().handlers {
        println!("{:12} {:6} {:8} {:8}", handler.name, handler.calls, handler.depth, handler.max_depth);
    }
    run.stop().await;
    println!("stopped: {}, and {} pods can still be read", pods.is_stopped(), pods.indexer().len());
    Ok(())
}

fn add_other_handlers(pods: &Pods) -> Result<(), AddHandlerError> {
    // This handler awaits an asynchronous operation before it receives the next event.
    let asynchronous = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(1)).await);
    pods.add_handler_with(HandlerOptions::new().name("async"), asynchronous)?;

    // This handler runs on a blocking thread, for example to use a database driver or files.
    let blocked = blocking(|_event| {
        #[expect(clippy::disallowed_methods, reason = "the example demonstrates a blocking handler")]
        std::thread::sleep(Duration::from_millis(1));
    });
    pods.add_handler_with(HandlerOptions::new().name("blocking"), blocked)?;

    // This handler receives only the events of matching objects. An object that no longer matches is reported
    // as deleted.
    let db = filtered(
        |pod: &Lazy<Pod>| pod.labels().get("app") == Some("db"),
        on_event(|event| println!("  filtered: {event}")),
    );
    pods.add_handler_with(HandlerOptions::new().name("filtered"), db)?;

    // This handler is slow, but its buffer is bounded: pending updates of one object are merged into one with
    // the oldest old state and the newest new state. No deletion is lost.
    let slow = on_event_async(async |_event| tokio::time::sleep(Duration::from_millis(50)).await);
    let coalescing = HandlerOptions::new().name("coalescing").buffer(BufferPolicy::Coalesce);
    pods.add_handler_with(coalescing, slow)?;
    Ok(())
}

/// Reads a stream of events until it has no event for a moment, and then removes its handler by dropping the
/// stream.
async fn drain(mut stream: EventStream<Lazy<Pod>>) {
    let (mut events, mut deletes) = (0, 0);
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(100), stream.next()).await {
        events += 1;
        deletes += usize::from(event.is_deleted());
    }
    println!("the stream received {events} events, of which {deletes} are deletes");
}

/// Adds a handler with a resync period. In each period it receives all cached objects again, without a
/// request to the server.
async fn resync(pods: &Pods) -> Result {
    let resynced = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&resynced);
    let options = HandlerOptions::new().name("resyncing").resync(Duration::from_secs(1));
    let handler = pods.add_handler_with(
        options,
        on_event(move |event| {
            if let Event::Updated { resync: true, .. } = event {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }),
    )?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    println!("{} resyncs after 1.5 s with a period of 1 s", resynced.load(Ordering::Relaxed));
    handler.remove();
    Ok(())
}

/// Adds a handler to the running informer, and removes it again. The handler first receives the cached
/// objects as initial adds.
async fn add_and_remove_late(pods: &Pods) -> Result {
    let initial = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&initial);
    let late = pods.on_event(move |event| {
        counter
            .fetch_add(usize::from(matches!(event, Event::Added { initial: true, .. })), Ordering::Relaxed);
    })?;
    late.wait_for_sync(PATIENCE).await?;
    println!("the late handler received {} initial adds", initial.load(Ordering::Relaxed));
    late.remove_and_wait().await;
    Ok(())
}
