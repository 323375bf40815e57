//! `informer demo`: runs informers, handlers and a controller against the embedded server, measures them, and
//! compares the objects that they received with the objects on the server.

mod child;
mod handlers;
mod objects;
mod page;
mod process;
mod reconcile;
mod report;
pub(crate) mod server;
mod timeline;
mod verdict;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use informer::cache::{
    BufferPolicy, HandlerOptions, HandlerRegistration, SharedInformer, SharedInformerFactory, field,
    owner_uid,
};
use informer::client::{Client, Lazy};
use informer::workqueue::{WorkQueue, Workers};
use informer_report::number;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use tokio::time::Instant;

use self::child::DemoServer;
use self::handlers::View;
use self::reconcile::{OWNER, Reconciler};
use self::report::{Compared, DemoReport, HandlerReport};
use self::server::{ServerArguments, ServerMessage};
use self::timeline::{DemoSample, Timeline};
use self::verdict::{Differences, Truth, Versions};
use crate::failure::Failure;

/// The annotation in which the demo server records when it changed a pod, so that handlers can measure the
/// latency.
const STAMP: &str = "demo.example.com/changed-at";
/// The number of ConfigMaps on the demo server. A second informer watches them, while the first one watches
/// pods.
const CONFIG_MAPS: usize = 2000;
const WORKERS: usize = 4;
/// The timeout of each step of the demo, such as the wait until the caches are up to date.
const PATIENCE: Duration = Duration::from_secs(120);

/// Run informers against an API server with many changes, and verify their caches.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A child process serves the API. Informers, fast and slow handlers and a small controller run against
it, while faults end watches and cut connections. At the end, the objects that they received are
compared with those on the server. Exit code 1 means that they differ.

Example: informer demo --objects 2000 --seconds 5")]
pub(crate) struct DemoArguments {
    /// The number of pods on the server at the beginning. A pod has about 6 KB.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    objects: u32,
    /// The number of changes of pods per second.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// The time for which the server changes pods, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// The seed of the random numbers from which objects and changes are generated.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the report as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Also write the report to this HTML file, with plots of events, waiting events and memory over time.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl DemoArguments {
    /// Returns the command line that repeats the run.
    fn command_line(&self) -> String {
        let Self { objects, rate, seconds, seed, .. } = self;
        format!("informer demo --objects {objects} --rate {rate} --seconds {seconds} --seed {seed}")
    }
}

/// Runs the demo and prints its report. Returns true if the final comparison finds no differences between the
/// objects on the server and those that caches, handlers and the controller received.
pub(crate) async fn run(arguments: DemoArguments) -> Result<bool, Failure> {
    let progress = progress(arguments.json);
    let child_arguments = ServerArguments {
        objects: arguments.objects as usize,
        config_maps: CONFIG_MAPS,
        rate: arguments.rate.into(),
        seconds: arguments.seconds.into(),
        seed: arguments.seed,
    };
    let mut server = DemoServer::spawn(&child_arguments)?;
    let url = filled(&mut server, &progress).await?;
    let mut demo = Demo::start(&url, &progress).await?;
    demo.live(&mut server, &arguments, &progress).await?;
    demo.settle(&url, &progress).await?;
    let timeline = std::mem::take(&mut demo.timeline);
    let report = demo.finish(&url, &arguments, &timeline, &progress).await?;
    progress.finish_and_clear();
    server.end().await;
    if arguments.json {
        println!("{}", report.to_json())
    } else {
        print!("{report}")
    }
    if let Some(path) = &arguments.report {
        let written = page::write(path, &arguments.command_line(), &report, &timeline);
        written
            .map_err(|error| Failure::caused("the demo has ended, but its report was not written", error))?;
    }
    Ok(report.equal)
}

fn progress(json: bool) -> ProgressBar {
    // The progress bar is drawn on stderr, and only if stderr is a terminal.
    let progress = if json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    progress.set_style(style);
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

async fn filled(server: &mut DemoServer, progress: &ProgressBar) -> Result<String, Failure> {
    loop {
        match server.said().await? {
            ServerMessage::Filled(objects) => {
                progress.set_message(format!("filling the API server: {objects} pods"))
            }
            ServerMessage::Listening(url) => return Ok(url),
            ServerMessage::Changed { .. } => {
                return Err(Failure::new("the demo server changed objects too early"));
            }
        }
    }
}

/// The client side of the demo: its informers, handlers and controller. The server runs in a child process.
struct Demo {
    factory: SharedInformerFactory,
    pods: SharedInformer<Lazy<Pod>>,
    config_maps: SharedInformer<Lazy<ConfigMap>>,
    handlers: Vec<Served>,
    reconciler: Reconciler,
    queue: WorkQueue<Box<str>>,
    workers: tokio::task::JoinHandle<()>,
    sync_seconds: f64,
    memory: Memory,
    live_seconds: f64,
    live_events: u64,
    changes: u64,
    timeline: Timeline,
}

struct Served {
    name: &'static str,
    view: View,
    registration: HandlerRegistration<Lazy<Pod>>,
}

impl Demo {
    async fn start(url: &str, progress: &ProgressBar) -> Result<Self, Failure> {
        let base_mb = process::rss_mb();
        let client = client(url)?;
        let factory = SharedInformerFactory::new(client);
        let pods = factory.informer::<Pod>().index("node", field("spec.nodeName")).index(OWNER, owner_uid());
        let config_maps = factory.informer::<ConfigMap>();
        let (queue, reconciler) = (WorkQueue::new(), Reconciler::new(pods.clone()));
        let reconciled = add(&pods, "reconciler", Reconciler::handler(queue.clone()))?;
        let (fast, slow) = (View::new(), View::new());
        let handlers = vec![
            Served { name: "fast", registration: add(&pods, "fast", fast.fast())?, view: fast },
            Served { name: "slow", registration: add_slow(&pods, &slow)?, view: slow },
        ];
        let workers = start_workers(&queue, &reconciler);
        let begin = Instant::now();
        factory.start();
        progress.set_message("syncing");
        factory.wait_for_cache_sync(PATIENCE).await.map_err(|error| Failure::new(error.to_string()))?;
        let sync_seconds = begin.elapsed().as_secs_f64();
        reconciled.wait_for_sync(PATIENCE).await.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self {
            factory,
            pods,
            config_maps,
            handlers,
            reconciler,
            queue,
            workers,
            sync_seconds,
            memory: Memory { base_mb, synced_mb: process::rss_mb() },
            live_seconds: 0.0,
            live_events: 0,
            changes: 0,
            timeline: Timeline::default(),
        })
    }

    /// Waits while the demo server changes pods, and shows the progress. During the changes, adds a handler,
    /// which must then receive all existing pods.
    async fn live(
        &mut self,
        server: &mut DemoServer,
        arguments: &DemoArguments,
        progress: &ProgressBar,
    ) -> Result<(), Failure> {
        for handler in &self.handlers {
            let synced = handler.registration.wait_for_sync(PATIENCE).await;
            synced.map_err(|error| Failure::new(error.to_string()))?;
        }
        let (begin, before) = (Instant::now(), self.events());
        server.begin().await?;
        let late_at = begin + Duration::from_secs(arguments.seconds.into()).mul_f64(0.4);
        let mut ticks = tokio::time::interval(Duration::from_millis(200));
        loop {
            tokio::select! {
                said = server.said() => if let ServerMessage::Changed { changes, seconds } = said? {
                    (self.changes, self.live_seconds) = (changes, seconds);
                    break;
                },
                _ = ticks.tick() => {
                    progress.set_message(self.line());
                    self.timeline.add(self.sample(begin.elapsed()));
                    if Instant::now() >= late_at && self.handlers.len() == 2 {
                        self.join_late()?;
                    }
                }
            }
        }
        self.live_events = self.events() - before;
        Ok(())
    }

    fn join_late(&mut self) -> Result<(), Failure> {
        let view = View::new();
        let registration = add(&self.pods, "late", view.fast())?;
        self.handlers.push(Served { name: "late", view, registration });
        Ok(())
    }

    fn events(&self) -> u64 {
        self.handlers[0].view.read(|seen| seen.events)
    }

    fn sample(&self, elapsed: Duration) -> DemoSample {
        let handlers = self.pods.state().handlers;
        DemoSample {
            seconds: elapsed.as_secs_f64(),
            events: self.events(),
            waiting: handlers.into_iter().map(|handler| (handler.name.to_string(), handler.depth)).collect(),
            memory_mb: process::rss_mb(),
        }
    }

    fn line(&self) -> String {
        let state = self.pods.state();
        let depths: Vec<String> =
            state.handlers.iter().map(|handler| format!("{} {}", handler.name, handler.depth)).collect();
        let (pods, events) = (number(state.objects as f64), number(self.events() as f64));
        let relists = state.reflector.relists.total();
        format!("{pods} pods, {events} events, waiting: {}, relists {relists}", depths.join(", "))
    }

    /// Waits until the cache contains the newest resourceVersion of each pod on the demo server, and the
    /// queues of the handlers and of the controller are empty. Waits for at most the timeout of a step.
    async fn settle(&mut self, url: &str, progress: &ProgressBar) -> Result<(), Failure> {
        if self.handlers.len() == 2 {
            self.join_late()?;
        }
        let deadline = Instant::now() + PATIENCE;
        // The demo server makes no more changes, so these versions of its pods stay the newest ones.
        let versions = Versions::read(url).await?;
        while Instant::now() < deadline {
            progress.set_message(format!("catching up: {}", self.line()));
            let waiting: usize = self.pods.state().handlers.iter().map(|handler| handler.depth).sum();
            if waiting == 0 && versions.agree(&self.pods) {
                // The handlers have received all events, but one may still process its last event, and
                // enqueue a request for the controller. The delay gives it time to do so, before the work
                // queue is expected to become empty.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let _ = tokio::time::timeout_at(deadline, self.queue.idle()).await;
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // If the cache is not up to date when the timeout expires, the demo continues. The final comparison
        // then reports the differences.
        Ok(())
    }

    async fn finish(
        self,
        url: &str,
        arguments: &DemoArguments,
        timeline: &Timeline,
        progress: &ProgressBar,
    ) -> Result<DemoReport, Failure> {
        // Memory and CPU time are measured before the final comparison, because the comparison itself needs
        // much of both.
        let (peak_rss_mb, cpu_seconds) = (process::peak_rss_mb(), process::cpu_seconds());
        progress.set_message("comparing with the server");
        let (truth, config_maps) = (Truth::read(url, "pods").await?, Truth::read(url, "configmaps").await?);
        let mut differences = Differences::new();
        config_maps.compare_cache(&self.config_maps, &mut differences);
        truth.compare_cache(&self.pods, &mut differences);
        for handler in &self.handlers {
            truth.compare_view(handler.name, &handler.view, &mut differences);
        }
        truth.compare_usage(&self.reconciler.usage(), &mut differences);
        let handlers = self.handlers.iter().map(|handler| {
            HandlerReport::of(handler.name, &handler.view, timeline.max_waiting(handler.name))
        });
        let state = self.pods.state();
        let report = DemoReport {
            objects: arguments.objects as usize,
            config_maps: self.config_maps.indexer().len(),
            sync_seconds: self.sync_seconds,
            rss_mb: peak_rss_mb,
            kb_per_object: self.memory.kb_per_object(arguments.objects),
            cpu_seconds,
            changes: self.changes,
            requested_rate: arguments.rate,
            live_seconds: self.live_seconds,
            events_per_second: self.live_events as f64 / self.live_seconds.max(f64::EPSILON),
            handlers: handlers.collect(),
            relists: state.reflector.relists.total(),
            watches: state.reflector.watches_opened,
            reconciles: self.reconciler.reconciles(),
            compared: Compared {
                pods: truth.len(),
                config_maps: config_maps.len(),
                owners: self.reconciler.usage().len(),
            },
            equal: differences.is_empty(),
            differences,
        };
        self.queue.shut_down();
        self.factory.shutdown().await;
        let _ = self.workers.await;
        Ok(report)
    }
}

fn client(url: &str) -> Result<Client, Failure> {
    let failed = "cannot create a client for the demo server";
    let uri = url.parse().map_err(|error: http::uri::InvalidUri| Failure::caused(failed, error))?;
    Client::new(informer::kube_client::Config::new(uri)).map_err(|error| Failure::caused(failed, error))
}

fn add(
    pods: &SharedInformer<Lazy<Pod>>,
    name: &str,
    handler: impl informer::cache::EventHandler<Lazy<Pod>>,
) -> Result<HandlerRegistration<Lazy<Pod>>, Failure> {
    pods.add_handler_with(HandlerOptions::new().name(name), handler)
        .map_err(|error| Failure::caused("cannot add a handler", error))
}

fn add_slow(
    pods: &SharedInformer<Lazy<Pod>>,
    view: &View,
) -> Result<HandlerRegistration<Lazy<Pod>>, Failure> {
    let options = HandlerOptions::new().name("slow").buffer(BufferPolicy::Coalesce);
    pods.add_handler_with(options, view.slow())
        .map_err(|error| Failure::caused("cannot add a handler", error))
}

fn start_workers(queue: &WorkQueue<Box<str>>, reconciler: &Reconciler) -> tokio::task::JoinHandle<()> {
    let reconciler = reconciler.clone();
    let workers = Workers::new(queue.clone()).count(WORKERS);
    tokio::spawn(async move {
        let _ = workers.run(move |owner: Box<str>| reconciler.clone().reconcile(owner)).await;
    })
}

/// The resident memory of the client process, in MB: before its first request, and after its caches have
/// synced. The difference is the memory of the caches.
struct Memory {
    base_mb: Option<f64>,
    synced_mb: Option<f64>,
}

impl Memory {
    fn kb_per_object(&self, objects: u32) -> Option<f64> {
        Some((self.synced_mb? - self.base_mb?) * 1024.0 / f64::from(objects))
    }
}
