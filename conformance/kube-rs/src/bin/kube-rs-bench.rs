//! Measures a reflector of kube-rs once in each case. Prints one line of JSON: `{"CASE": FIGURE}`. The cases
//! and their order are those of `benches/src/informers/peer.rs` of the main workspace, as far as kube-rs
//! supports them, on the server of `serve.rs` in the same folder.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::core::DynamicObject;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use mimalloc::MiMalloc;
use serde_json::{Map, Value};
use tokio::sync::Notify;

type Failure = Box<dyn Error + Send + Sync>;

const SETTLE: Duration = Duration::from_secs(1);
const LOOKUPS: usize = 1_000_000;
const LISTS: u32 = 100;
const PACED: usize = 400;
const PACED_A_SECOND: usize = 200;
const BURST: usize = 20_000;
const LABEL: &str = "bench-sent";
/// Number of objects that the read benchmark reads repeatedly, and number of reads of each of them.
const HOT: usize = 1_000;
const HOT_ROUNDS: usize = 100;
const USAGE: &str = "usage: kube-rs-bench --server URL|--kubeconfig FILE --control ADDRESS --kind KIND --objects COUNT [--dynamic] [--streaming] [--only-sync]";

/// The memory allocator, which is the same in all measured programs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let place = BenchTarget {
        server: value(&arguments, "--server"),
        kubeconfig: value(&arguments, "--kubeconfig"),
        control: value(&arguments, "--control").ok_or(USAGE)?,
        kind: value(&arguments, "--kind").unwrap_or("pod"),
        objects: value(&arguments, "--objects").ok_or(USAGE)?.parse()?,
        streaming: arguments.iter().any(|word| word == "--streaming"),
        only_sync: arguments.iter().any(|word| word == "--only-sync"),
    };
    let dynamic = arguments.iter().any(|word| word == "--dynamic");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        match (place.kind, dynamic) {
            ("pod", false) => measure::<Pod>(&place, ()).await,
            ("configmap", false) => measure::<ConfigMap>(&place, ()).await,
            ("secret", false) => measure::<Secret>(&place, ()).await,
            ("node", false) => measure::<Node>(&place, ()).await,
            (kind, _) => {
                let (group, kind) = match kind {
                    "crd" => ("bench.informer.dev", "Widget"),
                    "configmap" => ("", "ConfigMap"),
                    "secret" => ("", "Secret"),
                    "node" => ("", "Node"),
                    _ => ("", "Pod"),
                };
                let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
                measure::<DynamicObject>(&place, kube::core::ApiResource::from_gvk(&gvk)).await
            }
        }
    })?;
    println!("{}", Value::from(figures));
    Ok(())
}

fn value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|word| word == name)?;
    arguments.get(at + 1).map(String::as_str)
}

struct BenchTarget<'a> {
    server: Option<&'a str>,
    /// The kubeconfig of a real server. If it is set, cases that need the embedded server are skipped.
    kubeconfig: Option<&'a str>,
    control: &'a str,
    kind: &'a str,
    objects: usize,
    streaming: bool,
    only_sync: bool,
}

impl BenchTarget<'_> {
    async fn config(&self) -> Result<Config, Failure> {
        match (self.kubeconfig, self.server) {
            (Some(path), _) => {
                let kubeconfig = kube::config::Kubeconfig::read_from(path)?;
                Ok(Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?)
            }
            (None, Some(server)) => Ok(Config::new(server.parse()?)),
            (None, None) => Err(USAGE.into()),
        }
    }
}

async fn measure<K>(place: &BenchTarget<'_>, kind: K::DynamicType) -> Result<Map<String, Value>, Failure>
where
    K: Resource + Clone + Debug + Send + Sync + k8s_openapi::serde::de::DeserializeOwned + 'static,
    K::DynamicType: Clone + Eq + Hash + Send + Sync + Unpin,
{
    let mut figures = Map::new();
    let mut set = |case: &str, figure: f64| figures.insert(case.to_owned(), Value::from(figure));
    let mut control = Control::connect(place.control)?;
    control.ask(if place.streaming { "prepare streaming" } else { "prepare" })?;
    let keys: Vec<ObjectRef<K>> = (0..place.objects)
        .map(|n| {
            let key = ObjectRef::new_with(&format!("object-{n:07}"), kind.clone());
            if place.kind == "node" { key } else { key.within(&format!("team-{:02}", n / 25 % 80)) }
        })
        .collect();
    let client = Client::try_from(place.config().await?)?;
    let api: Api<K> = Api::all_with(client, &kind);
    let (store, writer) = {
        let writer = reflector::store::Writer::<K>::new(kind.clone());
        (writer.as_reader(), writer)
    };
    let tally = Arc::new(Tally::default());

    let server = control.cpu()?;
    let (before, _) = resident();
    forget_peak();
    let (start, busy) = (Instant::now(), cpu());
    let config = match place.streaming {
        true => watcher::Config::default().streaming_lists(),
        false => watcher::Config::default(),
    };
    let events = watcher(api, config).default_backoff().reflect(writer);
    tokio::spawn(events.for_each({
        let tally = Arc::clone(&tally);
        move |event| {
            if let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = &event {
                tally.hear(object);
            }
            std::future::ready(())
        }
    }));
    store.wait_until_ready().await?;
    let sync = start.elapsed().as_secs_f64();
    set("initial sync, s", sync);
    set("initial sync, client CPU s", cpu() - busy);
    set("initial sync, server CPU s", control.cpu()? - server);
    let held = store.len();
    if held != place.objects {
        return Err(format!("{held} objects in the store, {} on the server", place.objects).into());
    }
    tokio::time::sleep(SETTLE).await;
    let (after, peak) = resident();
    set("peak RSS, MB", (peak - before) / 1e3);
    set("steady RSS an object, KB", (after - before) / held as f64);
    if place.only_sync {
        return Ok(figures);
    }

    let begun = Instant::now();
    for object in store.state() {
        black_box(object.labels().len());
    }
    set("sync and every object read typed, s", sync + begun.elapsed().as_secs_f64());
    set("typed read, cold, us", reads(&store, &keys, keys.len(), 1));
    set("typed read, hot, us", reads(&store, &keys, HOT.min(keys.len()), HOT_ROUNDS));

    set("lookup, ns", lookups(&store, &keys, LOOKUPS));
    let (begun, mut listed) = (Instant::now(), 0);
    for _ in 0..LISTS {
        let team: Vec<_> =
            store.state().into_iter().filter(|object| object.namespace().as_deref() == Some("team-00")).collect();
        listed += black_box(team).len();
    }
    if listed > 0 {
        set("list of a namespace, ns an object", begun.elapsed().as_nanos() as f64 / listed as f64);
    }
    let begun = Instant::now();
    for _ in 0..LISTS {
        black_box(store.state());
    }
    set("snapshot, us", begun.elapsed().as_nanos() as f64 / f64::from(LISTS) / 1e3);

    if place.kubeconfig.is_none() {
        tally.begin(1);
        forget_peak();
        let ((before, _), busy) = (resident(), cpu());
        control = tokio::task::spawn_blocking(move || control.ask("expire").map(|_| control)).await??;
        tally.until(|heard| heard.relisted).await;
        set("relist, nothing changed, client CPU s", cpu() - busy);
        set("relist, nothing changed, peak above before, %", (resident().1 - before) / before * 100.0);
    }

    tally.begin(PACED);
    let paced = format!("paced {PACED} {PACED_A_SECOND}");
    control = tokio::task::spawn_blocking(move || control.ask(&paced).map(|_| control)).await??;
    tally.until(|heard| heard.delays.len() >= PACED).await;
    let mut delays = std::mem::take(&mut tally.heard.lock().expect("no handler panics").delays);
    delays.sort_unstable();
    set("event to handler, 1 handler, p50 us", delays[delays.len() / 2] as f64 / 1e3);
    set("event to handler, 1 handler, p99 us", delays[delays.len() * 99 / 100] as f64 / 1e3);

    if place.kubeconfig.is_some() {
        return Ok(figures);
    }
    let count = BURST.min(held);
    tally.begin(count);
    let burst = format!("burst {count}");
    tokio::task::spawn_blocking(move || control.ask(&burst).map(|_| control)).await??;
    tally.until(|heard| heard.burst >= count).await;
    let rate = {
        let heard = tally.heard.lock().expect("no handler panics");
        let spent = heard.burst_began.zip(heard.burst_ended).map(|(began, ended)| ended - began);
        count as f64 / spent.unwrap_or_default().as_secs_f64()
    };
    // The figures with and without reads of typed fields are equal, since objects arrive decoded, and reading
    // typed fields costs nothing more.
    set("events through one handler, a second", rate);
    set("events through one handler, read typed, a second", rate);
    Ok(figures)
}

/// Measures the time of reads of cached objects, and of reading one field of each, in microseconds.
fn reads<K>(store: &Store<K>, keys: &[ObjectRef<K>], count: usize, rounds: usize) -> f64
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    let begun = Instant::now();
    for n in (1..=count).cycle().take(count * rounds) {
        let object = store.get(&keys[n * 7_919 % keys.len()]);
        black_box(object.map(|object| object.labels().len()));
    }
    begun.elapsed().as_secs_f64() * 1e6 / (count * rounds) as f64
}

fn lookups<K>(store: &Store<K>, keys: &[ObjectRef<K>], count: usize) -> f64
where
    K: Resource + Clone + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    let (start, mut at) = (Instant::now(), 0);
    for _ in 0..count {
        at = (at + 7_919) % keys.len();
        black_box(store.get(&keys[at]));
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

#[derive(Default)]
struct Heard {
    /// The number of events after which the waiting task is notified.
    wanted: usize,
    delays: Vec<u64>,
    burst: usize,
    burst_began: Option<Instant>,
    burst_ended: Option<Instant>,
    relisted: bool,
}

#[derive(Default)]
struct Tally {
    heard: std::sync::Mutex<Heard>,
    news: Notify,
}

impl Tally {
    fn hear<K: ResourceExt>(&self, object: &K) {
        let Some(sent) = object.labels().get(LABEL).filter(|sent| *sent != "none") else { return };
        let mut heard = self.heard.lock().expect("no handler panics");
        if let Some(sent) = sent.strip_prefix('t').and_then(|sent| sent.parse::<u64>().ok()) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            heard.delays.push(now.saturating_sub(sent));
        } else if sent.starts_with("burst-") {
            heard.burst += 1;
            let now = Instant::now();
            heard.burst_began.get_or_insert(now);
            heard.burst_ended = Some(now);
        } else if sent.starts_with("relisted-") {
            heard.relisted = true;
        }
        let done = heard.relisted || heard.burst + heard.delays.len() >= heard.wanted;
        drop(heard);
        if done {
            self.news.notify_one();
        }
    }

    fn begin(&self, wanted: usize) {
        *self.heard.lock().expect("no handler panics") = Heard { wanted, ..Heard::default() };
    }

    async fn until(&self, done: impl Fn(&Heard) -> bool) {
        while !done(&self.heard.lock().expect("no handler panics")) {
            self.news.notified().await;
        }
    }
}

struct Control {
    responses: BufReader<TcpStream>,
}

impl Control {
    fn connect(address: &str) -> Result<Self, Failure> {
        Ok(Self { responses: BufReader::new(TcpStream::connect(address)?) })
    }

    fn ask(&mut self, command: &str) -> Result<String, Failure> {
        self.responses.get_mut().write_all(format!("{command}\n").as_bytes())?;
        let mut response = String::new();
        self.responses.read_line(&mut response)?;
        match response.strip_prefix("error: ") {
            Some(error) => Err(format!("{command}: {error}").into()),
            None => Ok(response.trim_end().to_owned()),
        }
    }

    fn cpu(&mut self) -> Result<f64, Failure> {
        Ok(self.ask("cpu")?.parse::<f64>()? / 1e9)
    }
}

/// Returns the processor time of this process in seconds, with a resolution of a hundredth of a second.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

/// Returns the resident memory of this process in kilobytes: the present value, and the maximum since
/// `forget_peak`.
fn resident() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
    };
    (line("VmRSS:"), line("VmHWM:"))
}

fn forget_peak() {
    // Errors are ignored: without the permission to write this file, the peak is not reset.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
