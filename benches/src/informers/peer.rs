//! Our informer, through everything that is measured.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use informer::{
    Client, Dynamic, KubeListWatch, LabelSelector, Lazy, Metadata, Representation, SharedInformer,
    StreamingLists, Typed, on_event,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::control::Control;
use crate::tally::Tally;
use crate::{BenchKind, Encoding, Failure, Form, Where, gauge, objects};

const SYNC_MAX: Duration = Duration::from_secs(600);
/// What is freed after the first list is given back by then.
const SETTLE: Duration = Duration::from_secs(1);
const LOOKUPS: usize = 1_000_000;
const SNAPSHOTS: u32 = 100;
/// Changes whose delay is measured, and how many a second: seldom enough to find everything asleep.
const PACED: usize = 400;
const PACED_A_SECOND: usize = 200;
const HANDLERS: usize = 10;
/// Changes that come as fast as they are taken.
const BURST: usize = 20_000;

/// Reads an object as its type, as a program does that wants one field of it.
type Read<O> = fn(&O) -> bool;

pub(crate) async fn peer(place: &Where, form: Form) -> Result<(), Failure> {
    if place.encoding == Encoding::Protobuf {
        return Err("the client does not speak protobuf".into());
    }
    let figures = match (form, place.kind) {
        (Form::Lazy, BenchKind::Pod) => {
            measure::<Lazy<Pod>>(place, |o| o.get().is_ok_and(|o| o.spec.is_some())).await
        }
        (Form::Lazy, BenchKind::Configmap) => {
            measure::<Lazy<ConfigMap>>(place, |o| o.get().is_ok_and(|o| o.data.is_some())).await
        }
        (Form::Lazy, BenchKind::Secret) => {
            measure::<Lazy<Secret>>(place, |o| o.get().is_ok_and(|o| o.data.is_some())).await
        }
        (Form::Lazy, BenchKind::Node) => {
            measure::<Lazy<Node>>(place, |o| o.get().is_ok_and(|o| o.spec.is_some())).await
        }
        (Form::Lazy, BenchKind::Crd) => {
            measure::<Lazy<Value>>(place, |o| o.get().is_ok_and(|o| !o["spec"].is_null())).await
        }
        (Form::Typed, BenchKind::Pod) => {
            measure::<Typed<Pod>>(place, |o| o.get().is_ok_and(|o| o.spec.is_some())).await
        }
        (Form::Dynamic, _) => measure::<Dynamic>(place, |o| !o.value().is_null()).await,
        (Form::Metadata, _) => measure::<Metadata<Value>>(place, |_| true).await,
        (Form::Typed, _) => Err("typed is measured with pods".into()),
    }?;
    println!("{}", Value::from(figures));
    Ok(())
}

/// One informer, and what it is asked.
struct Bench<O: Representation> {
    informer: SharedInformer<O>,
    tally: Arc<Tally>,
    control: Control,
    keys: Arc<Vec<String>>,
    read: Read<O>,
    figures: Map<String, Value>,
}

async fn measure<O: Representation>(place: &Where, read: Read<O>) -> Result<Map<String, Value>, Failure> {
    let mut control = Control::connect(place).await?;
    control.prepare(place).await?;
    let client = Client::new(kube_client::Config::new(place.server.parse()?))?;
    let streaming = if place.list { StreamingLists::Off } else { StreamingLists::On };
    let source = KubeListWatch::<O>::of(client, place.kind.resource()).streaming_lists(streaming);
    let informer = SharedInformer::new(source);
    let keys = Arc::new((0..place.objects).map(|n| key(place.kind, n)).collect());
    let mut bench = Bench { informer, tally: Arc::default(), control, keys, read, figures: Map::new() };
    bench.add_handlers(1)?;
    let run = bench.sync().await?;
    bench.reads().await;
    bench.lookups();
    bench.relist().await?;
    bench.delays(1).await?;
    bench.bursts().await?;
    bench.add_handlers(HANDLERS - 1)?;
    bench.delays(HANDLERS).await?;
    run.stop().await;
    Ok(bench.figures)
}

fn key(kind: BenchKind, n: usize) -> String {
    let (namespace, name) = (objects::namespace_of(kind, n), objects::name_of(n));
    if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
}

impl<O: Representation> Bench<O> {
    fn set(&mut self, case: &str, figure: f64) {
        self.figures.insert(case.to_owned(), Value::from(figure));
    }

    fn add_handlers(&self, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            let (tally, read) = (Arc::clone(&self.tally), self.read);
            self.informer.add_handler(on_event(move |event| {
                tally.hear(&event, |object| {
                    black_box(read(object));
                });
            }))?;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<informer::InformerRun, Failure> {
        let server_before = self.control.cpu().await?;
        let (before, _) = gauge::resident();
        gauge::forget_peak();
        let (start, busy) = (Instant::now(), gauge::cpu());
        let run = self.informer.start();
        self.informer.wait_for_sync(SYNC_MAX).await?;
        let (spent, busy) = (start.elapsed(), gauge::cpu() - busy);
        let server = self.control.cpu().await? - server_before;
        let held = self.informer.lister().list(&LabelSelector::everything()).len();
        if held != self.keys.len() {
            return Err(format!("{held} objects in the cache, {} on the server", self.keys.len()).into());
        }
        sleep(SETTLE).await;
        let (after, peak) = gauge::resident();
        self.set("initial sync, s", spent.as_secs_f64());
        self.set("initial sync, client CPU s", busy.as_secs_f64());
        self.set("initial sync, server CPU s", server);
        self.set("peak RSS, MB", (peak - before) / 1e3);
        self.set("steady RSS an object, KB", (after - before) / held as f64);
        Ok(run)
    }

    /// Every object typed, once.
    async fn reads(&mut self) {
        let (start, read) = (Instant::now(), self.read);
        for object in self.informer.lister().list(&LabelSelector::everything()) {
            black_box(read(&object));
        }
        let spent = start.elapsed().as_secs_f64();
        let sync = self.figures["initial sync, s"].as_f64().unwrap_or_default();
        self.set("sync and every object read typed, s", sync + spent);
        self.set("typed read of a cached object, us", spent * 1e6 / self.keys.len() as f64);
    }

    fn lookups(&mut self) {
        self.set("lookup, ns", lookups(&self.informer, &self.keys, LOOKUPS));
        let everything = LabelSelector::everything();
        let team = self.informer.lister().namespace("team-00");
        let (start, mut listed) = (Instant::now(), 0);
        for _ in 0..SNAPSHOTS {
            listed += black_box(team.list(&everything)).len();
        }
        if listed > 0 {
            self.set("list of a namespace, ns an object", nanos(start.elapsed()) / listed as f64);
        }
        let start = Instant::now();
        for _ in 0..SNAPSHOTS {
            let _ = black_box(self.informer.snapshot());
        }
        self.set("snapshot, us", nanos(start.elapsed()) / f64::from(SNAPSHOTS) / 1e3);
    }

    /// The server ends the watch with a 410, and nothing has changed.
    async fn relist(&mut self) -> Result<(), Failure> {
        self.tally.begin();
        gauge::forget_peak();
        let ((before, _), busy) = (gauge::resident(), gauge::cpu());
        self.control.ask("expire").await?;
        self.tally.relisted().await;
        let (busy, (_, peak)) = (gauge::cpu() - busy, gauge::resident());
        self.set("relist, nothing changed, client CPU s", busy.as_secs_f64());
        self.set("relist, nothing changed, peak above before, %", (peak - before) / before * 100.0);
        Ok(())
    }

    async fn delays(&mut self, handlers: usize) -> Result<(), Failure> {
        self.tally.begin();
        self.control.ask(&format!("paced {PACED} {PACED_A_SECOND}")).await?;
        let delays = self.tally.delays(PACED * handlers).await;
        let at = |part: usize| delays[delays.len() * part / 100] as f64 / 1e3;
        let of = if handlers == 1 { "1 handler".to_owned() } else { format!("{handlers} handlers") };
        self.set(&format!("event to handler, {of}, p50 us"), at(50));
        self.set(&format!("event to handler, {of}, p99 us"), at(99));
        Ok(())
    }

    async fn bursts(&mut self) -> Result<(), Failure> {
        let count = BURST.min(self.keys.len());
        let burst = format!("burst {count}");
        self.tally.begin();
        self.control.ask(&burst).await?;
        let rate = self.tally.burst_done(count).await;
        self.set("events through one handler, a second", rate);

        self.tally.begin();
        self.tally.reads.store(true, Ordering::Relaxed);
        self.control.ask(&burst).await?;
        let rate = self.tally.burst_done(count).await;
        self.tally.reads.store(false, Ordering::Relaxed);
        self.set("events through one handler, read typed, a second", rate);

        self.tally.begin();
        let (stop, found) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let reader = tokio::task::spawn_blocking({
            let (informer, keys, tally) =
                (self.informer.clone(), Arc::clone(&self.keys), Arc::clone(&self.tally));
            let (stop, found) = (Arc::clone(&stop), Arc::clone(&found));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let busy = tally.burst() > 0;
                    let each = lookups(&informer, &keys, 10_000);
                    if busy {
                        found.store(each.to_bits(), Ordering::Relaxed);
                    }
                }
            }
        });
        self.control.ask(&burst).await?;
        self.tally.burst_done(count).await;
        stop.store(true, Ordering::Relaxed);
        reader.await?;
        self.set("lookup beside a busy writer, ns", f64::from_bits(found.load(Ordering::Relaxed)));
        Ok(())
    }
}

/// Nanoseconds a lookup, in an order that no cache foresees.
fn lookups<O: Representation>(informer: &SharedInformer<O>, keys: &[String], count: usize) -> f64 {
    let lister = informer.lister();
    let (start, mut at) = (Instant::now(), 0);
    for _ in 0..count {
        at = (at + 7_919) % keys.len();
        let _ = black_box(lister.get(&keys[at]));
    }
    nanos(start.elapsed()) / count as f64
}

fn nanos(spent: Duration) -> f64 {
    spent.as_nanos() as f64
}
