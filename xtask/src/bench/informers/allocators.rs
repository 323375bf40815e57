//! The command `bench allocators`: the initial sync in each representation with three memory allocators.

use std::path::{Path, PathBuf};

use clap::Args;

use super::arguments::Kind;
use super::names::{PEAK, PEAK_EACH, STEADY, SYNC, SYNC_CPU, SYNC_CPU_EACH};
use super::programs::{Built, Lineup, Peer};
use super::server::Server;
use crate::bench::peers::{BenchError, Program, Samples, Turns, build_with};
use crate::bench::sections;
use crate::report::Report;

const SYSTEM: &str = "system";
const MIMALLOC: &str = "mimalloc";
const JEMALLOC: &str = "jemalloc";
const ALLOCATORS: [&str; 3] = [SYSTEM, MIMALLOC, JEMALLOC];

/// The measured representations, each with the arguments that select it.
const REPRESENTATIONS: [(&str, &[&str]); 6] = [
    ("lazy", &[]),
    ("lazy, JSON", &["--encoding", "json"]),
    ("dynamic", &["--form", "dynamic"]),
    ("typed", &["--form", "typed"]),
    ("packed", &["--form", "packed"]),
    ("metadata", &["--form", "metadata"]),
];

/// The cases in the table. Programs measure more of them.
const CASES: [&str; 4] = [SYNC, SYNC_CPU_EACH, PEAK_EACH, STEADY];

#[derive(Debug, Args)]
pub(crate) struct Allocators {
    /// Number of pods on the server.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
}

pub(crate) fn allocators(root: &Path, options: &Allocators, turns: Turns) -> Report {
    Report::of("bench allocators", |report| measure(root, options, turns, report))
}

fn measure(root: &Path, options: &Allocators, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let built = Built::build(root, &[Peer::Ours])?;
    let programs: [(&'static str, PathBuf); 3] = [
        (SYSTEM, build_with(root, "informer-bench-system", "allocators")?),
        (MIMALLOC, built.ours.clone()),
        (JEMALLOC, build_with(root, "informer-bench-jemalloc", "allocators")?),
    ];
    let objects = options.objects;
    let server = Server::start(&built.ours, turns, &["--objects", &objects.to_string()])?;
    let place = &server.place;
    let lineup = Lineup { built: &built, place, kind: Kind::Pod, objects, only_sync: true, all: false };
    let mut samples = Samples::default();
    for run in 1..=turns.runs() {
        for (representation, words) in REPRESENTATIONS {
            for (allocator, path) in &programs {
                eprintln!("run {run} of {}: {representation}, {allocator}", turns.runs());
                let mut program = lineup.ours(allocator, words, true);
                program.path.clone_from(path);
                samples.run_renamed(&program, turns, |case| case_of(representation, case))?;
            }
        }
    }
    drop(server);
    for (representation, _) in REPRESENTATIONS {
        let name = |case| case_of(representation, case);
        samples.derive(&name(SYNC_CPU), 1e6 / objects as f64, &name(SYNC_CPU_EACH));
        samples.derive(&name(PEAK), 1e3 / objects as f64, &name(PEAK_EACH));
    }
    let shown: Vec<_> =
        REPRESENTATIONS.iter().flat_map(|(name, _)| CASES.map(|case| case_of(name, case))).collect();
    samples.keep(|case| shown.iter().any(|shown| shown == case));
    let columns = programs.map(|(name, path)| Program { name, path, arguments: Vec::new() });
    println!("{}\n", samples.table(&columns));
    turns.tell(report);
    report.figure("objects", objects as f64);
    samples.report(&[], &[], report);
    sections::by_case(&samples, &ALLOCATORS, &[], report);
    Ok(())
}

/// Returns the name of a case that was measured with a representation. It ends with the unit of the case.
fn case_of(representation: &str, case: &str) -> String {
    format!("{representation}: {case}")
}
