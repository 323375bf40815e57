//! Benchmarks of informers of this library, client-go and kube-rs, each in a separate process, on one server.

mod allocators;
#[path = "../../../benches/src/informers/arguments.rs"]
mod arguments;
mod churn;
mod growth;
mod idle;
mod names;
mod programs;
mod real;
mod server;
mod targets;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use informer_report::DrawError;

use super::peers::{BenchError, Program, Samples, Target, Turns, build_soon, in_turn, judge};
use super::sections::{self, bars};
use crate::report::Report;
pub(super) use allocators::{Allocators, allocators};
use arguments::Kind;
pub(super) use churn::{Churn, churn};
pub(super) use growth::{Curve, Kinds, curve, kinds};
pub(super) use idle::{Idle, idle};
use names::{DELAY, EVENTS, OURS, PEAK, PEAK_EACH, PEERS, RELIST, STEADY, SYNC, SYNC_CPU, SYNC_CPU_EACH};
use programs::{Built, Lineup, Peer};
pub(super) use server::Server;

/// The cases that `--plot` draws, each with the title of its panel, from top to bottom.
const PLOTTED: [(&str, &str); 6] = [
    (SYNC, "initial sync, seconds"),
    (PEAK, "peak memory, MB"),
    (STEADY, "memory an object, KB"),
    (RELIST, "relist with nothing changed, CPU seconds"),
    (EVENTS, "events through one handler, a second"),
    (DELAY, "event to handler, median, microseconds"),
];

#[derive(Debug, Args)]
pub(crate) struct Informers {
    /// Number of objects on the server during the initial list.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Kind of the objects that the informers cache.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// The libraries to measure, separated by commas. Without Go, `client-go` is skipped.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Ours, Peer::ClientGo, Peer::KubeRs])]
    peers: Vec<Peer>,
    /// The server to run against. Targets differ between the two servers.
    #[arg(long, value_enum, default_value_t)]
    server: Which,
    /// With `--server real`: directory of a running real server (`cargo xtask real up`). The created objects
    /// stay on it. Without `--dir`, a real server is started, and stopped afterwards. Has no effect with the
    /// embedded server.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Measure only the initial list, without reads, changes and relists.
    #[arg(long)]
    only_sync: bool,
    /// Also measure variants of client-go and kube-rs with which no target compares this library: client-go
    /// with JSON, with dynamic objects and with metadata, kube-rs with dynamic objects.
    #[arg(long)]
    all: bool,
    /// Also count the allocations of this library's informers during the initial list, in a separate build.
    /// Has no effect with `--server real`.
    #[arg(long)]
    allocations: bool,
    /// Draw the medians of the main cases as bars into this SVG file. An existing file is overwritten.
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The embedded API server. It encodes the responses to initial lists only once, so that its own time
    /// hardly affects the figures.
    #[default]
    Embedded,
    /// kube-apiserver with etcd, over TLS.
    Real,
}

pub(super) fn run(root: &Path, options: &Informers, turns: Turns) -> Report {
    let mut report = Report::new("bench");
    let outcome = match options.server {
        Which::Embedded => embedded(root, options, turns, &mut report).map_err(|error| error.to_string()),
        Which::Real => real::run(root, options, turns, &mut report),
    };
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

fn embedded(root: &Path, options: &Informers, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let built = Built::build(root, &options.peers)?;
    eprintln!("loading {} objects", options.objects);
    let (objects, kind) = (options.objects.to_string(), word(options.kind));
    let server = Server::start(&built.ours, turns, &["--objects", &objects, "--kind", &kind])?;
    let lineup = lineup(&built, &server, options);
    let programs = lineup.everybody();
    let mut samples = in_turn(&programs, turns)?;
    if options.allocations {
        let counted = build_soon(root, "informer-bench-counted")?;
        for mut program in programs.iter().filter(|program| program.name.starts_with(OURS)).cloned() {
            program.path.clone_from(&counted);
            program.arguments.push("--only-sync".to_owned());
            program.arguments.dedup();
            samples.run_only(&program, turns, "allocat")?;
        }
    }
    drop(server);
    tell(&programs, samples, options, &targets::embedded(options.kind), (turns, report))
}

fn lineup<'a>(built: &'a Built, server: &'a Server, options: &Informers) -> Lineup<'a> {
    let (kind, objects) = (options.kind, options.objects);
    Lineup { built, place: &server.place, kind, objects, only_sync: options.only_sync, all: options.all }
}

fn word(kind: Kind) -> String {
    kind.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned())
}

fn tell(
    programs: &[Program],
    mut samples: Samples,
    options: &Informers,
    targets: &[Target],
    (turns, report): (Turns, &mut Report),
) -> Result<(), BenchError> {
    samples.derive(SYNC_CPU, 1e6 / options.objects as f64, SYNC_CPU_EACH);
    samples.derive(PEAK, 1e3 / options.objects as f64, PEAK_EACH);
    println!("{}\n", samples.table(programs));
    turns.tell(report);
    let ours: Vec<_> =
        programs.iter().map(|program| program.name).filter(|name| name.starts_with(OURS)).collect();
    samples.report(&ours, &PEERS, report);
    sections::by_case(&samples, &ours, &PEERS, report);
    judge(targets, &samples, report);
    if let Some(path) = &options.plot {
        let picture = picture(options, &samples).map_err(BenchError::Plot)?;
        std::fs::write(path, picture).map_err(|source| BenchError::Write { path: path.clone(), source })?;
    }
    Ok(())
}

fn picture(options: &Informers, samples: &Samples) -> Result<String, DrawError> {
    let panels = PLOTTED.map(|(case, title)| (title, bars(samples, case, &[])));
    informer_report::stacked(&format!("{} objects of kind {}", options.objects, word(options.kind)), &panels)
}
