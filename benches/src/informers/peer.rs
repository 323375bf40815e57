//! Runs an informer of this library through all cases of the benchmark.

use std::any::Any;
use std::hint::black_box;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use informer::LabelSelector;
use informer::cache::{SharedInformer, on_event};
use informer::client::{
    Client, Dynamic, Encodings, KubeListWatch, Lazy, Metadata, Packed, Representation, SplitLists,
    StreamingLists, Typed,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::arguments::{Encoding, Form, Kind};
use super::control::Control;
use super::tally::Tally;
use super::{BenchTarget, Failure, gauge, objects, resource};

const MAX_SYNC: Duration = Duration::from_secs(600);
/// A pause before memory is measured, in which the allocator returns the memory that was freed after the
/// initial list.
const SETTLE: Duration = Duration::from_secs(1);
const LOOKUPS: usize = 1_000_000;
const SNAPSHOTS: u32 = 100;
/// The number of changes whose delay is measured, and their rate per second. The rate is low enough that all
/// threads sleep between two changes.
const PACED: usize = 400;
const PACED_A_SECOND: usize = 200;
const HANDLERS: usize = 10;
/// Number of changes in a burst, which the server sends as fast as possible.
const BURST: usize = 20_000;

/// Number of objects that are read repeatedly, while their decoded form is kept in memory.
const HOT: usize = 1_000;
/// How often each of the `HOT` objects is read.
const HOT_ROUNDS: usize = 100;

/// A function that decodes an object and reads one of its fields, as a controller does with a typed object.
/// It returns the decoded object, which stays in memory as long as the caller keeps it.
type Read<O> = fn(&O) -> Option<Arc<dyn Any + Send + Sync>>;

/// Expands to a [`Read`] function that decodes an object, checks whether the given field is present, and
/// returns the decoded object.
macro_rules! view {
    ($($field:tt)+) => {
        |object| {
            let view = object.get().ok()?;
            black_box(view$($field)+.is_some());
            Some(view)
        }
    };
}

pub(super) async fn peer(place: &BenchTarget, form: Form, only_sync: bool) -> Result<(), Failure> {
    let asked = InformerCase { place, only_sync };
    let figures = match (form, place.kind) {
        (Form::Lazy, Kind::Pod) => asked.measure::<Lazy<Pod>>(view!(.spec)).await,
        (Form::Lazy, Kind::Configmap) => asked.measure::<Lazy<ConfigMap>>(view!(.data)).await,
        (Form::Lazy, Kind::Secret | Kind::SmallSecret) => asked.measure::<Lazy<Secret>>(view!(.data)).await,
        (Form::Lazy, Kind::Node) => asked.measure::<Lazy<Node>>(view!(.spec)).await,
        (Form::Lazy, Kind::Crd) => asked.measure::<Lazy<Value>>(view!(.get("spec"))).await,
        (Form::Packed, Kind::Pod) => asked.measure::<Packed<Pod>>(view!(.spec)).await,
        (Form::Typed, Kind::Pod) => asked.measure::<Typed<Pod>>(view!(.spec)).await,
        // Packed and typed objects are measured only with pods, because each further type would double the
        // build time.
        (Form::Packed | Form::Typed, _) => Err("this representation is measured only with pods".into()),
        (Form::Dynamic, _) => {
            let read: Read<Dynamic> = |object| {
                let value = object.value().ok()?;
                black_box(value.get("spec").is_some());
                Some(value)
            };
            asked.measure::<Dynamic>(read).await
        }
        (Form::Metadata, _) => asked.measure::<Metadata<Value>>(|_| None).await,
    }?;
    println!("{}", Value::from(figures));
    Ok(())
}

struct InformerCase<'a> {
    place: &'a BenchTarget,
    only_sync: bool,
}

impl InformerCase<'_> {
    async fn measure<O: Representation>(&self, read: Read<O>) -> Result<Map<String, Value>, Failure> {
        let place = self.place;
        let mut control = Control::connect(place).await?;
        control.prepare(place, place.encoding_of::<O>(), O::METADATA_ONLY).await?;
        let informer = SharedInformer::new(source::<O>(&place.client().await?, place, 0));
        let keys = Arc::new((0..place.objects).map(|n| objects::key(place.kind, n)).collect());
        let mut bench = Bench { informer, tally: Arc::default(), control, keys, read, figures: Map::new() };
        bench.add_handlers(1)?;
        let run = bench.sync().await?;
        if !self.only_sync {
            // Lookups are measured first, because they only copy references. Decoding and freeing objects
            // fragments the allocator's memory.
            bench.lookups();
            bench.reads();
            bench.changes(place.is_real()).await?;
        }
        run.stop().await;
        Ok(bench.figures)
    }
}

pub(super) fn source<O: Representation>(client: &Client, place: &BenchTarget, at: usize) -> KubeListWatch<O> {
    let streaming = if place.list { StreamingLists::Off } else { StreamingLists::On };
    let encodings = match place.encoding {
        Encoding::Json => Encodings::Json,
        Encoding::Protobuf => Encodings::Auto,
    };
    let source = KubeListWatch::of(client, resource(place.kind, at));
    let source = source.streaming_lists(streaming).encodings(encodings);
    if place.split { source.split_lists(SplitLists::default()) } else { source }
}

struct Bench<O: Representation> {
    informer: SharedInformer<O>,
    tally: Arc<Tally>,
    control: Control,
    keys: Arc<Vec<String>>,
    read: Read<O>,
    figures: Map<String, Value>,
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

    async fn sync(&mut self) -> Result<informer::cache::InformerRun, Failure> {
        let server_before = self.control.cpu().await?;
        let (before, _) = gauge::resident();
        gauge::forget_peak();
        let (start, busy, allocated) = (Instant::now(), gauge::cpu(), gauge::allocations());
        let run = self.informer.start();
        self.informer.wait_for_sync(MAX_SYNC).await?;
        let (spent, busy) = (start.elapsed(), gauge::cpu() - busy);
        if let (Some((before, old)), Some((now, new))) = (allocated, gauge::allocations()) {
            let each = self.keys.len() as f64;
            self.set("allocations of the initial sync, an object", (now - before) / each);
            self.set("bytes allocated in the initial sync, an object", (new - old) / each);
        }
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

    /// Reads every object in typed form: once with a thread per core, once with a single thread, then some of
    /// them repeatedly while references to the parsed values are kept.
    fn reads(&mut self) {
        let (lister, read) = (self.informer.lister(), self.read);
        let start = Instant::now();
        let (objects, cores) = (lister.list(&LabelSelector::everything()), available_parallelism());
        std::thread::scope(|scope| {
            for part in objects.chunks(objects.len().div_ceil(cores.map_or(1, NonZero::get)).max(1)) {
                scope.spawn(move || {
                    for object in part {
                        black_box(read(object));
                    }
                });
            }
        });
        let spent = start.elapsed().as_secs_f64();
        let sync = self.figures["initial sync, s"].as_f64().unwrap_or_default();
        self.set("sync and every object read typed, s", sync + spent);
        let start = Instant::now();
        for at in stride(self.keys.len(), self.keys.len()) {
            black_box(lister.get(&self.keys[at]).ok().and_then(|object| read(&object)));
        }
        self.set("typed read, cold, us", nanos(start.elapsed()) / self.keys.len() as f64 / 1e3);
        let hot: Vec<_> = stride(self.keys.len(), HOT.min(self.keys.len())).collect();
        let views: Vec<_> =
            hot.iter().map(|&at| lister.get(&self.keys[at]).ok().and_then(|object| read(&object))).collect();
        let start = Instant::now();
        for &at in hot.iter().cycle().take(hot.len() * HOT_ROUNDS) {
            black_box(lister.get(&self.keys[at]).ok().and_then(|object| read(&object)));
        }
        self.set("typed read, hot, us", nanos(start.elapsed()) / (hot.len() * HOT_ROUNDS) as f64 / 1e3);
        drop(views);
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

    /// Measures relists, event delays and bursts. Relists and bursts are skipped on a real server, which
    /// cannot compact its history on command or encode a burst in advance.
    async fn changes(&mut self, real: bool) -> Result<(), Failure> {
        if !real {
            self.relist().await?;
        }
        self.delays(1).await?;
        if !real {
            self.bursts().await?;
        }
        self.add_handlers(HANDLERS - 1)?;
        self.delays(HANDLERS).await
    }

    /// Measures a relist after the server ended the watch with a 410, while no object has changed.
    async fn relist(&mut self) -> Result<(), Failure> {
        self.tally.begin(1);
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
        self.tally.begin(PACED * handlers);
        let response = self.control.ask(&format!("paced {PACED} {PACED_A_SECOND}")).await?;
        let delays = self.tally.delays(PACED * handlers).await;
        let at = |part: usize| delays[delays.len() * part / 100] as f64 / 1e3;
        let of = if handlers == 1 { "1 handler".to_owned() } else { format!("{handlers} handlers") };
        self.set(&format!("event to handler, {of}, p50 us"), at(50));
        self.set(&format!("event to handler, {of}, p99 us"), at(99));
        self.acknowledged(&response, &of);
        Ok(())
    }

    /// Records how long the server took to acknowledge the writes of the command `paced`. Only
    /// `informer-bench remote` reports these times in its response.
    fn acknowledged(&mut self, response: &str, of: &str) {
        let mut words = response.split(' ').skip(1).filter_map(|word| word.parse().ok());
        if let (Some(p50), Some(p99)) = (words.next(), words.next()) {
            self.set(&format!("write to acknowledgement, {of}, p50 us"), p50);
            self.set(&format!("write to acknowledgement, {of}, p99 us"), p99);
        }
    }

    async fn bursts(&mut self) -> Result<(), Failure> {
        let count = BURST.min(self.keys.len());
        let burst = format!("burst {count}");
        self.tally.begin(count);
        self.control.ask(&burst).await?;
        let rate = self.tally.burst_done(count).await;
        self.set("events through one handler, a second", rate);

        self.tally.begin(count);
        self.tally.reads.store(true, Ordering::Relaxed);
        self.control.ask(&burst).await?;
        let rate = self.tally.burst_done(count).await;
        self.tally.reads.store(false, Ordering::Relaxed);
        self.set("events through one handler, read typed, a second", rate);

        self.tally.begin(count);
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

/// Returns `count` indexes below `of`, in an order that CPU caches cannot predict.
fn stride(of: usize, count: usize) -> impl Iterator<Item = usize> {
    (1..=count).map(move |n| n * 7_919 % of)
}

/// Reads `count` objects from the cache by key, and returns the nanoseconds per read.
fn lookups<O: Representation>(informer: &SharedInformer<O>, keys: &[String], count: usize) -> f64 {
    let lister = informer.lister();
    let start = Instant::now();
    for at in stride(keys.len(), count) {
        let _ = black_box(lister.get(&keys[at]));
    }
    nanos(start.elapsed()) / count as f64
}

fn nanos(spent: Duration) -> f64 {
    spent.as_nanos() as f64
}
