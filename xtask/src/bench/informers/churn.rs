//! The command `bench churn`: an informer of pods that change all the time.

use std::path::Path;

use clap::Args;

use super::arguments::Kind;
use super::names::OURS;
use super::programs::{Built, Lineup, Peer};
use super::server::Server;
use crate::bench::peers::{BenchError, Limit, Samples, Target, Turns, judge};
use crate::bench::sections;
use crate::report::Report;

/// The number of runs without the option `--runs`. A run takes ten minutes.
const RUNS: u16 = 1;

const TARGETS: [Target; 3] = [
    target("change to handler, p99 ms", 5.0),
    target("change to handler, longest, ms", 10.0),
    target("memory growth after the first tenth, maximum, %", 3.0),
];

const fn target(case: &'static str, at_most: f64) -> Target {
    Target { program: OURS, case, limit: Limit::Plain(at_most) }
}

#[derive(Debug, Args)]
pub(crate) struct Churn {
    /// Number of pods in the cache.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Number of changes a second.
    #[arg(long, default_value_t = 10_000)]
    changes_per_second: usize,
    /// Duration of the changes in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: usize,
}

pub(crate) fn churn(root: &Path, options: &Churn, turns: Turns) -> Report {
    Report::of("bench churn", |report| measure(root, options, turns, report))
}

fn measure(root: &Path, options: &Churn, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let built = Built::build(root, &[Peer::Ours])?;
    let objects = options.objects;
    let server = Server::start(&built.ours, turns, &["--objects", &objects.to_string()])?;
    let place = &server.place;
    let lineup = Lineup { built: &built, place, kind: Kind::Pod, objects, only_sync: false, all: false };
    let (rate, seconds) = (options.changes_per_second.to_string(), options.seconds.to_string());
    let programs = [lineup.churn(OURS, &["--changes-per-second", &rate, "--seconds", &seconds])];
    let mut samples = Samples::default();
    let runs = turns.runs_or(RUNS);
    for run in 1..=runs {
        eprintln!("run {run} of {runs}");
        samples.run(&programs[0], turns)?;
    }
    drop(server);
    println!("{}\n", samples.table(&programs));
    report.figure("runs of each program", f64::from(runs));
    report.figure("objects", objects as f64);
    samples.report(&[OURS], &[], report);
    sections::by_case(&samples, &[OURS], &[], report);
    judge(&TARGETS, &samples, report);
    Ok(())
}
