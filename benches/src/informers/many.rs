//! Measures many informers in one process that sync concurrently. The result shows whether the time per
//! object is independent of the number of informers, and whether cores are idle while received bytes wait to
//! be processed.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use informer::cache::SharedInformer;
use informer::client::{Client, Lazy, Metadata, Representation};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::arguments::{Encoding, Kind};
use super::control::Control;
use super::peer::source;
use super::{BenchTarget, Failure, gauge};

const MAX_SYNC: Duration = Duration::from_secs(600);

enum Any {
    Pods(SharedInformer<Lazy<Pod>>),
    Lazy(SharedInformer<Lazy<Value>>),
    Metadata(SharedInformer<Metadata<Value>>),
}

pub(super) async fn many(place: &BenchTarget, kinds: usize) -> Result<(), Failure> {
    let mut control = Control::connect(place).await?;
    for metadata in [false, true] {
        control.prepare(place, Encoding::Protobuf, metadata).await?;
    }
    let client = place.client().await?;
    let informers: Vec<_> = (0..kinds).flat_map(|at| pair(&client, place, at)).collect();
    let server_before = control.cpu().await?;
    let (before, _) = gauge::resident();
    gauge::forget_peak();
    let (start, busy) = (Instant::now(), gauge::cpu());
    let runs: Vec<_> = informers.iter().map(Any::start).collect();
    let mut held = 0;
    for informer in &informers {
        held += informer.synced().await?;
    }
    let (spent, busy) = (start.elapsed().as_secs_f64(), (gauge::cpu() - busy).as_secs_f64());
    let server = control.cpu().await? - server_before;
    let (_, peak) = gauge::resident();
    if held != 2 * kinds * place.objects {
        return Err(format!(
            "{held} objects in the caches of {kinds} kinds, {} on the server",
            place.objects
        )
        .into());
    }
    let cores = available_parallelism().map_or(1, NonZero::get) as f64;
    println!(
        "{}",
        json!({
            "initial sync, s": spent,
            "initial sync, client CPU us an object": busy * 1e6 / held as f64,
            "initial sync, us an object": spent * 1e6 / held as f64,
            "cores at work during the sync, %": (busy + server) / (spent * cores) * 100.0,
            "peak RSS an object, KB": (peak - before) / held as f64,
            "objects in all caches": held,
        })
    );
    for run in runs {
        run.stop().await;
    }
    Ok(())
}

fn pair(client: &Client, place: &BenchTarget, at: usize) -> [Any; 2] {
    let objects = match (at, place.kind) {
        (0, Kind::Pod) => Any::Pods(SharedInformer::new(source(client, place, at))),
        _ => Any::Lazy(SharedInformer::new(source(client, place, at))),
    };
    [objects, Any::Metadata(SharedInformer::new(source(client, place, at)))]
}

impl Any {
    fn start(&self) -> informer::cache::InformerRun {
        match self {
            Self::Pods(informer) => informer.start(),
            Self::Lazy(informer) => informer.start(),
            Self::Metadata(informer) => informer.start(),
        }
    }

    async fn synced(&self) -> Result<usize, Failure> {
        async fn of<O: Representation>(informer: &SharedInformer<O>) -> Result<usize, Failure> {
            informer.wait_for_sync(MAX_SYNC).await?;
            Ok(informer.indexer().len())
        }
        match self {
            Self::Pods(informer) => of(informer).await,
            Self::Lazy(informer) => of(informer).await,
            Self::Metadata(informer) => of(informer).await,
        }
    }
}
