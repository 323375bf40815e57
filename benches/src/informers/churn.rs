//! Measures a cache whose objects change all the time: delays, pauses, and whether the memory grows.

use std::sync::Arc;
use std::time::Duration;

use informer::cache::{SharedInformer, on_event};
use informer::client::Lazy;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::control::Control;
use super::peer::source;
use super::tally::Tally;
use super::{BenchTarget, Failure, gauge};

const MAX_SYNC: Duration = Duration::from_secs(600);
/// A pause before memory is measured, in which the allocator returns freed memory.
const SETTLE: Duration = Duration::from_secs(1);
/// The number of parts of a measurement. Memory is measured after each part. It may grow in the first one, in
/// which each object changes for the first time and the buffers reach their final size.
const PARTS: usize = 10;

pub(super) async fn churn(
    place: &BenchTarget,
    changes_per_second: usize,
    seconds: usize,
) -> Result<(), Failure> {
    if changes_per_second == 0 || seconds == 0 {
        return Err("--changes-per-second and --seconds must be at least 1".into());
    }
    let mut control = Control::connect(place).await?;
    control.prepare(place, place.encoding_of::<Lazy<Pod>>(), false).await?;
    let informer: SharedInformer<Lazy<Pod>> = SharedInformer::new(source(&place.client().await?, place, 0));
    let tally = Arc::new(Tally::default());
    let heard = Arc::clone(&tally);
    informer.add_handler(on_event(move |event| heard.hear(&event, |_| ())))?;
    let run = informer.start();
    informer.wait_for_sync(MAX_SYNC).await?;

    let count = changes_per_second * seconds.div_ceil(PARTS);
    let (mut memory, mut all) = (Vec::new(), Vec::<u64>::new());
    let (mut spent, mut busy) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..PARTS {
        tally.begin(count);
        let (start, cpu) = (Instant::now(), gauge::cpu());
        control.ask(&format!("paced {count} {changes_per_second}")).await?;
        tally.received(count).await;
        spent += start.elapsed();
        busy += gauge::cpu() - cpu;
        let delays = tally.delays(count).await;
        // One of a hundred delays, and the longest one: all of them would take more memory than the cache.
        all.extend(delays.iter().copied().step_by(100).chain(delays.last().copied()));
        drop(delays);
        sleep(SETTLE).await;
        memory.push(gauge::resident().0);
    }
    all.sort_unstable();
    let at = |part: usize| all[(all.len() - 1) * part / 1000] as f64 / 1e6;
    let changes = (count * PARTS) as f64;
    let reflector = informer.state().reflector;
    if let Some(error) = &reflector.last_error {
        eprintln!("the last error of the reflector: {error}");
    }
    let most = memory.iter().skip(1).copied().fold(0.0, f64::max);
    println!(
        "{}",
        json!({
            "changes, a second": changes / spent.as_secs_f64(),
            "client CPU of a change, us": busy.as_secs_f64() * 1e6 / changes,
            "change to handler, p50 ms": at(500),
            "change to handler, p99 ms": at(990),
            "change to handler, longest, ms": at(1000),
            "lists after the first": reflector.relists.total(),
            "memory after the first tenth, MB": memory[0] / 1e3,
            "memory growth after the first tenth, maximum, %": (most - memory[0]) / memory[0] * 100.0,
        })
    );
    run.stop().await;
    Ok(())
}
