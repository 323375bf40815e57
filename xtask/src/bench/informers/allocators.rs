//! The command `bench allocators`: the initial sync in each representation with the allocators that programs
//! with large caches use.

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
    let mut report = Report::new("bench allocators");
    if let Err(error) = measure(root, options, turns, &mut report) {
        report.problems.push(error.to_string());
    }
    report
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
                samples.run_of(&program, turns, representation)?;
            }
        }
    }
    drop(server);
    for (representation, _) in REPRESENTATIONS {
        let case = |case: &str| format!("{case}, {representation}");
        samples.derive(&case(SYNC_CPU), 1e6 / objects as f64, &case(SYNC_CPU_EACH));
        samples.derive(&case(PEAK), 1e3 / objects as f64, &case(PEAK_EACH));
    }
    // The name of a case is followed by the representation. Another case may begin with the same words.
    let is_kept = |case: &str| {
        let mut rests = CASES.iter().filter_map(|kept| case.strip_prefix(kept));
        rests.any(|rest| rest.starts_with(", "))
    };
    samples.keep(is_kept);
    let columns = programs.map(|(name, path)| Program { name, path, arguments: Vec::new() });
    println!("{}\n", samples.table(&columns));
    turns.tell(report);
    report.figure("objects", objects as f64);
    samples.report(&[], &[], report);
    sections::by_case(&samples, &ALLOCATORS, &[], report);
    Ok(())
}
