//! The command `bench idle`: many informers of small kinds in one process.

use std::path::Path;

use clap::Args;

use super::names::OURS;
use crate::bench::peers::{BenchError, Limit, Program, Target, Turns, build_ours, in_turn, judge};
use crate::bench::sections;
use crate::report::Report;

/// A platform of operators has a thousand informers, and should not need more than 25 MB for them. While
/// nothing changes, threads wake up only for what the server sends.
const TARGETS: [Target; 2] =
    [target("memory of an informer, KB", 25.0), target("idle, wake-ups a second", 1.0)];

const fn target(case: &'static str, at_most: f64) -> Target {
    Target { program: OURS, case, limit: Limit::Plain(at_most) }
}

#[derive(Debug, Args)]
pub(crate) struct Idle {
    /// Number of kinds, each with one informer.
    #[arg(long, default_value_t = 1_000)]
    kinds: usize,
    /// Number of objects of each kind: names and labels only.
    #[arg(long, default_value_t = 10)]
    objects: usize,
}

pub(crate) fn idle(root: &Path, options: &Idle, turns: Turns) -> Report {
    Report::of("bench idle", |report| measure(root, options, turns, report))
}

fn measure(root: &Path, options: &Idle, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let (kinds, objects) = (options.kinds.to_string(), options.objects.to_string());
    let arguments = ["idle", "--kinds", &kinds, "--objects", &objects].map(str::to_owned).to_vec();
    let programs = [Program { name: OURS, path: build_ours(root, "informer-bench")?, arguments }];
    let samples = in_turn(&programs, turns)?;
    println!("{}\n", samples.table(&programs));
    turns.tell(report);
    report.figure("informers", options.kinds as f64);
    samples.report(&[OURS], &[], report);
    sections::by_case(&samples, &[OURS], &[], report);
    judge(&TARGETS, &samples, report);
    Ok(())
}
