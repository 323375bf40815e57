//! `SharedInformer`: one cache and many handlers, each with its own queue and resync period, added and
//! removed at run time.
//!
//! ```sh
//! cargo run -p informer-examples --example shared_informer
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer::cache::{Event, HandlerOptions, SharedInformer, handler_funcs, on_event};
use informer::client::{KubeListWatch, Lazy};
use informer_examples::{PATIENCE, Result, connect};
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates the shared informer.
#[tokio::main]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let pods = SharedInformer::new(KubeListWatch::<Lazy<Pod>>::all(client));

    // A handler of three callbacks, and one with a resync period of one second.
    let counted = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let [adds, updates, deletes] = [0, 1, 2].map(|which| {
        let counted = Arc::clone(&counted);
        move || {
            counted[which].fetch_add(1, Ordering::Relaxed);
        }
    });
    let counts = pods.add_handler(
        handler_funcs()
            .on_add(move |_pod, _initial| adds())
            .on_update(move |_old, _new| updates())
            .on_delete(move |_last| deletes()),
    )?;
    let resynced = Arc::new(AtomicUsize::new(0));
    let resyncs = Arc::clone(&resynced);
    let resyncing = HandlerOptions::new().name("resyncing").resync(Duration::from_secs(1));
    pods.add_handler_with(
        resyncing,
        on_event(move |event| {
            if let Event::Updated { resync: true, .. } = event {
                resyncs.fetch_add(1, Ordering::Relaxed);
            }
        }),
    )?;

    // The informer runs until `run` is dropped. The cache is synced first, and each handler after its initial
    // adds.
    let run = pods.start();
    pods.wait_for_sync(PATIENCE).await?;
    counts.wait_for_sync(PATIENCE).await?;
    cluster.change_for_a_while().await?;

    // A late handler first receives the cached objects as initial adds, then the changes.
    let initial = Arc::new(AtomicUsize::new(0));
    let replayed = Arc::clone(&initial);
    let late = pods.add_handler(on_event(move |event| {
        replayed
            .fetch_add(usize::from(matches!(event, Event::Added { initial: true, .. })), Ordering::Relaxed);
    }))?;
    late.wait_for_sync(PATIENCE).await?;
    println!("the late handler received {} pods", initial.load(Ordering::Relaxed));

    // A removed handler is not called any more.
    late.remove();
    let calls = late.state().calls;
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("removed after {calls} calls, {} since", late.state().calls - calls);

    let resyncs = resynced.load(Ordering::Relaxed);
    if resyncs == 0 {
        return Err("no object was resynced within a second".into());
    }
    let [adds, updates, deletes] = [0, 1, 2].map(|which| counted[which].load(Ordering::Relaxed));
    println!("{adds} adds, {updates} updates, {deletes} deletes; {resyncs} resyncs");
    for handler in pods.state().handlers {
        println!(
            "  {}: {} calls, {} waiting, at most {}",
            handler.name, handler.calls, handler.depth, handler.max_depth
        );
    }
    run.stop().await;
    println!("stopped: {}, and {} pods can still be read", pods.is_stopped(), pods.indexer().len());
    Ok(())
}
