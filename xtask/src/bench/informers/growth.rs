//! The commands `bench curve` and `bench kinds`: check that the time of an informer's initial sync per object
//! hardly grows with the number of objects and of kinds.

use std::path::Path;

use clap::Args;

use super::arguments::Kind;
use super::names::{CLIENT_GO, METADATA, OURS, SYNC};
use super::programs::{Built, Lineup, Peer};
use super::server::Server;
use crate::bench::peers::{BenchError, Program, Samples, Turns};
use crate::bench::sections;
use crate::report::{CheckedTarget, Report, number, rounded};

/// Maximum growth of the time of an initial sync per object: the time with many objects or kinds, divided by
/// the time with few. It is above 1 because large informer caches do not fit into processor caches.
const MAX_GROWTH: f64 = 2.0;
/// Minimum share of the processor cores, in percent, that client and server together must keep busy while the
/// informers of ten kinds sync. A lower share means that cores are idle while received bytes wait.
const CORES_MIN: f64 = 80.0;
const CORES: &str = "cores at work during the sync, %";
const EACH: &str = "initial sync, us an object";

#[derive(Debug, Args)]
pub(crate) struct Curve {
    /// Numbers of pods, separated by commas, with which informers of whole objects are measured one after the
    /// other. Numbers after the second are compared with the second.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    objects: Vec<usize>,
    /// Numbers of pods, separated by commas, with which informers that cache only metadata are measured one
    /// after the other. Numbers after the second are compared with the second.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 1_000_000])]
    metadata: Vec<usize>,
    /// The libraries whose informers of whole objects are measured; kube-rs is not. Informers of metadata are
    /// measured only with this library.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Ours, Peer::ClientGo])]
    peers: Vec<Peer>,
}

#[derive(Debug, Args)]
pub(crate) struct Kinds {
    /// Number of objects of each of the ten kinds.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
}

pub(crate) fn curve(root: &Path, options: &Curve, turns: Turns) -> Report {
    Report::of("bench curve", |report| measure_curve(root, options, turns, report))
}

fn measure_curve(root: &Path, options: &Curve, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let built = Built::build(root, &options.peers)?;
    let mut samples = Samples::default();
    let mut names = Vec::new();
    for (sizes, bare) in [(&options.objects, false), (&options.metadata, true)] {
        for &objects in sizes {
            let count = objects.to_string();
            let mut words = vec!["--objects", &*count];
            words.extend(bare.then_some("--bare"));
            let server = Server::start(&built.ours, turns, &words)?;
            let (place, kind) = (&server.place, Kind::Pod);
            let lineup = Lineup { built: &built, place, kind, objects, only_sync: true, all: false };
            let programs: Vec<_> = if bare {
                vec![lineup.ours(METADATA, &["--form", "metadata"], true)]
            } else {
                lineup
                    .everybody()
                    .into_iter()
                    .filter(|program| [OURS, CLIENT_GO].contains(&program.name))
                    .collect()
            };
            for run in 1..=turns.runs() {
                for program in &programs {
                    eprintln!("{objects} objects, run {run}: {}", program.name);
                    samples.run_renamed(program, turns, |case| of_size(case, objects))?;
                }
            }
            names = if bare { names } else { programs };
        }
    }
    let metadata = Program { name: METADATA, path: built.ours.clone(), arguments: Vec::new() };
    println!("{}\n", samples.table(&[names, vec![metadata]].concat()));
    turns.tell(report);
    samples.report(&[OURS], &[CLIENT_GO], report);
    for (name, sizes) in [(OURS, &options.objects), (METADATA, &options.metadata)] {
        judge_curve(name, sizes, &samples, report);
    }
    for size in options.objects.iter().chain(&options.metadata) {
        let (sync, each) = (of_size(SYNC, *size), of_size(EACH, *size));
        samples.derive(&sync, 1e6 / *size as f64, &each);
    }
    sections::by_size(&samples, &[OURS, METADATA], &[CLIENT_GO], report);
    Ok(())
}

/// Returns the name of a case that was measured with this number of objects.
fn of_size(case: &str, objects: usize) -> String {
    format!("{case}, of {objects:>7}")
}

/// Compares the time of an initial sync per object between numbers of objects. Each number after the second
/// one is compared with the second one. The first one is not compared, because its time is mostly the fixed
/// cost of an informer.
fn judge_curve(name: &'static str, sizes: &[usize], samples: &Samples, report: &mut Report) {
    let each = |size: usize| {
        let sync = samples.median(name, &of_size(SYNC, size))?;
        Some(sync * 1e6 / size as f64)
    };
    let [_, few, more @ ..] = sizes else { return };
    let Some(at_few) = each(*few) else { return };
    report.figure(format!("us an object of {few}: {name}"), rounded(at_few));
    for &many in more {
        let Some(at_many) = each(many) else { continue };
        report.figure(format!("us an object of {many}: {name}"), rounded(at_many));
        let limit = at_few * MAX_GROWTH;
        report.targets.push(CheckedTarget {
            case: format!("{EACH}, of {}", number(many as f64)),
            program: name.to_owned(),
            figure: at_many,
            limit: format!("at most {} ({MAX_GROWTH} times that of {})", number(limit), number(*few as f64)),
            limit_in_plot: None,
            met: at_many <= limit,
        });
        if at_many > limit {
            let (at_few, at_many) = (rounded(at_few), rounded(at_many));
            report
                .problems
                .push(format!("{name}: {at_many} us per object with {many} objects, {at_few} us with {few}"));
        }
    }
}

pub(crate) fn kinds(root: &Path, options: &Kinds, turns: Turns) -> Report {
    Report::of("bench kinds", |report| measure_kinds(root, options, turns, report))
}

fn measure_kinds(root: &Path, options: &Kinds, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    const COUNTS: [(&str, &str); 4] =
        [("1 kind", "1"), ("2 kinds", "2"), ("5 kinds", "5"), ("10 kinds", "10")];
    let built = Built::build(root, &[Peer::Ours])?;
    let objects = options.objects;
    let server = Server::start(&built.ours, turns, &["--objects", &objects.to_string(), "--kinds", "10"])?;
    let place = &server.place;
    let lineup = Lineup { built: &built, place, kind: Kind::Pod, objects, only_sync: true, all: false };
    let programs = COUNTS.map(|(name, kinds)| lineup.many(name, kinds));
    let samples = crate::bench::peers::in_turn(&programs, turns)?;
    drop(server);
    println!("{}\n", samples.table(&programs));
    turns.tell(report);
    samples.report(&[], &[], report);
    let names = COUNTS.map(|(name, _)| name);
    sections::by_case(&samples, &names, &[], report);
    let [few, .., many] = names;
    judge_kinds(few, many, &samples, report);
    Ok(())
}

/// Compares the run with the most kinds, `many`, with the run of one kind.
fn judge_kinds(few: &'static str, many: &'static str, samples: &Samples, report: &mut Report) {
    let mut target = |case: &str, figure: f64, (exact, limit): (f64, String), met: bool| {
        let (case, program, limit_in_plot) = (case.to_owned(), many.to_owned(), Some(exact));
        report.targets.push(CheckedTarget { case, program, figure, limit, limit_in_plot, met });
    };
    let each = samples.median(few, EACH).zip(samples.median(many, EACH));
    if let Some((few, many)) = each {
        let limit = few * MAX_GROWTH;
        let shown = format!("at most {} ({MAX_GROWTH} times that of one kind)", number(limit));
        target(EACH, many, (limit, shown), many <= limit);
    }
    let cores = samples.median(many, CORES);
    if let Some(cores) = cores {
        target(CORES, cores, (CORES_MIN, format!("at least {CORES_MIN}")), cores >= CORES_MIN);
    }
    if let Some((few, many)) = each.filter(|(few, many)| *many > few * MAX_GROWTH) {
        report.problems.push(format!("{EACH}: {} with ten kinds, {} with one", rounded(many), rounded(few)));
    }
    if let Some(cores) = cores.filter(|cores| *cores < CORES_MIN) {
        report.problems.push(format!("{CORES}: {} with ten kinds, below {CORES_MIN}", rounded(cores)));
    }
}
