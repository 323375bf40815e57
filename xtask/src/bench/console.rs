//! Benchmark of the console: the processor time that it adds to a program.

use std::path::Path;

use super::peers::{BenchError, Limit, Program, Target, Turns, build_with, in_turn, judge};
use super::sections;
use crate::report::Report;

const OURS: &str = "informer";

/// The goal is 1 % of a core while a page is open, and nothing otherwise. Differences below 0.2 % cannot be
/// measured.
const TARGETS: [Target; 2] = [
    target("console that nobody reads, added % of a core", 0.2),
    target("console with one page, added % of a core", 1.0),
];

const fn target(case: &'static str, at_most: f64) -> Target {
    Target { program: OURS, case, limit: Limit::Plain(at_most) }
}

pub(crate) fn run(root: &Path, turns: Turns) -> Report {
    Report::of("bench console", |report| measure(root, turns, report))
}

fn measure(root: &Path, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let path = build_with(root, "console-bench", "console")?;
    let programs = [Program { name: OURS, path, arguments: Vec::new() }];
    let samples = in_turn(&programs, turns)?;
    println!("{}\n", samples.table(&programs));
    turns.tell(report);
    samples.report(&[OURS], &[], report);
    sections::by_case(&samples, &[OURS], &[], report);
    judge(&TARGETS, &samples, report);
    Ok(())
}
