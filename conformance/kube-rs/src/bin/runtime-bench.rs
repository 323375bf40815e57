//! Measures the scheduler, runner and applier of kube-rs once in each case. Prints one line of JSON:
//! `{"CASE": FIGURE}`. The cases are those of `benches/src/runtime/controllers.rs`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::mpsc;

const KEYS: usize = 50_000;
const ROUNDS: usize = 3;
const TRIGGERS: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(2);

type BoxError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut many = f64::INFINITY;
    for _ in 0..ROUNDS {
        many = many.min(runtime.block_on(async { tokio::spawn(many_keys()).await })?);
    }
    let (p50, p99) = runtime.block_on(async { tokio::spawn(idle()).await })??;
    let figures = json!({
        "50,000 keys through one worker, ms": many,
        "event to reconcile, idle controller, p50 us": p50,
        "event to reconcile, idle controller, p99 us": p99,
    });
    println!("{figures}");
    Ok(())
}

fn object(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map
}

fn filled(objects: &[ConfigMap]) -> Store<ConfigMap> {
    let (reader, mut writer) = store::<ConfigMap>();
    writer.apply_watcher_event(&Event::Init);
    objects.iter().for_each(|object| writer.apply_watcher_event(&Event::InitApply(object.clone())));
    writer.apply_watcher_event(&Event::InitDone);
    reader
}

fn retry(_: Arc<ConfigMap>, _: &std::convert::Infallible, _: Arc<()>) -> Action {
    Action::await_change()
}

/// Measures the time in milliseconds from the first request for a key to the end of the last reconcile.
/// Reconciles run one at a time.
async fn many_keys() -> f64 {
    let objects: Vec<ConfigMap> = (0..KEYS).map(|n| object(&format!("key-{n}"))).collect();
    let reader = filled(&objects);
    let refs: Vec<ObjectRef<ConfigMap>> = objects.iter().map(ObjectRef::from_obj).collect();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let begin = Instant::now();
    let queue = futures::stream::iter(refs).map(Ok::<_, std::convert::Infallible>).chain(futures::stream::pending());
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, std::convert::Infallible>(Action::await_change()))
    };
    let config = Config::default().concurrency(1);
    let mut applied = Box::pin(applier(reconcile, retry, Arc::new(()), reader, queue, config));
    while count.load(Ordering::Relaxed) < KEYS {
        let _ = applied.try_next().await;
    }
    begin.elapsed().as_secs_f64() * 1e3
}

/// Measures the time in microseconds from sending a request to the channel to the start of its reconcile.
/// Returns the 50th and the 99th percentile.
async fn idle() -> Result<(f64, f64), BoxError> {
    let object = object("idle");
    let reader = filled(std::slice::from_ref(&object));
    let (sender, receiver) = mpsc::channel::<ObjectRef<ConfigMap>>(1);
    let (told, mut heard) = mpsc::channel(1);
    let queue = futures::stream::unfold(receiver, |mut receiver| async move {
        let request = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(request), receiver))
    });
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        let (now, told) = (Instant::now(), told.clone());
        // `applier` requires a future that is `Unpin`.
        Box::pin(async move {
            let _ = told.send(now).await;
            Ok::<_, std::convert::Infallible>(Action::await_change())
        })
    };
    let applied = applier(reconcile, retry, Arc::new(()), reader, queue, Config::default().concurrency(1));
    tokio::spawn(applied.for_each(|_| std::future::ready(())));
    let mut times = Vec::with_capacity(TRIGGERS);
    for _ in 0..TRIGGERS {
        tokio::time::sleep(PAUSE).await;
        let sent = Instant::now();
        sender.send(ObjectRef::from_obj(&object)).await?;
        let reconciled = heard.recv().await.ok_or("the controller ended")?;
        times.push(reconciled.duration_since(sent).as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[TRIGGERS / 2], times[TRIGGERS * 99 / 100]))
}
