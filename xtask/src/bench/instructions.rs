//! Counts the CPU instructions of fixed workloads with valgrind, and compares them with committed counts.
//!
//! In contrast to a time, a count is the same on a busy machine. It depends on the compiler, the target and
//! the C library, so counts of other ones are not compared.

#[path = "../../../benches/src/instructions/cases.rs"]
mod cases;
mod counts;
mod valgrind;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use informer_report::Spread;
use thiserror::Error;

use super::peers::Turns;
use crate::cargo::{Executable, build, is_prebuilt};
use crate::real::told;
use crate::report::{Cell, Report, Section, Table};
use cases::Case;
use counts::{CommittedCounts, Toolchain};
use valgrind::{Work, count};

/// The committed counts, relative to the root of the workspace.
const FILE: &str = "benches/instructions.json";

/// The program with the workloads.
///
/// The packages are those that `.ci/run` builds optimized with one command, so that dependencies have the
/// same features and are compiled only once. Other features or an incremental build would change the counts.
const PROGRAM: Executable<'_> = Executable {
    package: "informer-benches",
    selection: &[
        "--package=informer-simulator",
        "--package=informer-system-simulator",
        "--package=informer-fuzz",
        "--config=profile.release.incremental=false",
        "--features=informer-benches/instructions",
        "--bin=instruction-bench",
    ],
    release: true,
    path: "instruction-bench",
};

/// Options of `cargo xtask bench instructions`.
#[derive(Debug, Args)]
pub(crate) struct Instructions {
    /// Count only this case. The option can be repeated.
    #[arg(long = "case", value_enum, value_name = "NAME")]
    cases: Vec<Case>,
    /// Write the counts to `benches/instructions.json` instead of comparing them with this file.
    #[arg(long)]
    write: bool,
}

#[derive(Debug, Error)]
enum CountError {
    #[error("build instruction-bench: {0}")]
    Build(String),
    #[error(
        "write {FILE}: INFORMER_PREBUILT is set, so instruction-bench is not built, and the existing program \
         may have other features; unset INFORMER_PREBUILT"
    )]
    Prebuilt,
    #[error("run {program}")]
    Start {
        program: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("run valgrind: the program is not installed; install the package `valgrind` of your system")]
    NoValgrind,
    #[error("run {program} for case {case}: {why}")]
    Failed { program: &'static str, case: String, why: String },
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("decode {}; repair the file, or write it again with `--write`", path.display())]
    Decode {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "write {}: it has counts of {committed}, and this is {current}; write all cases, without `--case`",
        path.display()
    )]
    MixedToolchains { path: PathBuf, committed: Box<Toolchain>, current: Box<Toolchain> },
}

/// The counts of a case, per operation.
#[derive(Debug)]
struct MeasuredCase {
    case: Case,
    instructions: Spread,
    allocations: f64,
}

pub(crate) fn run(root: &Path, options: &Instructions, turns: Turns) -> Report {
    let mut report = Report::new("bench instructions");
    if let Err(error) = measure(root, options, turns, &mut report) {
        report.problems.push(told(&error));
    }
    report
}

fn measure(root: &Path, options: &Instructions, turns: Turns, report: &mut Report) -> Result<(), CountError> {
    let selected: BTreeSet<Case> = match &*options.cases {
        [] => Case::value_variants().iter().copied().collect(),
        cases => cases.iter().copied().collect(),
    };
    let path = root.join(FILE);
    let toolchain = Toolchain::of_this_machine(root)?;
    let committed = CommittedCounts::read(&path)?;
    valgrind::find()?;
    if options.write && is_prebuilt() {
        return Err(CountError::Prebuilt);
    }
    let program = build(root, PROGRAM).map_err(CountError::Build)?;
    let measured = count_cases(&program, &selected, turns.runs_or(1))?;
    let counts: BTreeMap<Case, f64> =
        measured.iter().map(|measured| (measured.case, measured.instructions.median)).collect();
    let comparable = committed.clone().filter(|committed| committed.toolchain == toolchain);
    if options.write {
        CommittedCounts::updated(committed, &path, toolchain, &counts)?.write(&path)?;
        println!("{FILE} has the new counts of {} cases\n", counts.len());
    } else {
        let comparison = counts::compare(committed.as_ref(), &toolchain, &counts);
        if let Some(note) = comparison.note {
            println!("{note}\n");
        }
        report.problems.extend(comparison.problems);
        report.figure("cases compared with committed counts", comparison.compared as f64);
    }
    add_figures(&measured, comparable.as_ref(), report);
    Ok(())
}

/// Runs each case once, in turn, and repeats this `runs` times.
fn count_cases(program: &Path, cases: &BTreeSet<Case>, runs: u16) -> Result<Vec<MeasuredCase>, CountError> {
    let mut works: BTreeMap<Case, Vec<Work>> = BTreeMap::new();
    for run in 1..=runs {
        for &case in cases {
            eprintln!("run {run} of {runs}: {}", case.name());
            works.entry(case).or_default().push(count(program, case)?);
        }
    }
    let measured = works.into_iter().filter_map(|(case, works)| {
        let mut instructions: Vec<f64> = works.iter().map(Work::instructions_per_operation).collect();
        instructions.sort_by(f64::total_cmp);
        let allocations = works.first()?.allocations_per_operation();
        Some(MeasuredCase { case, instructions: Spread::of_sorted(&instructions)?, allocations })
    });
    Ok(measured.collect())
}

/// Adds the counts to the report, as figures and as a table, and prints the table.
fn add_figures(measured: &[MeasuredCase], committed: Option<&CommittedCounts>, report: &mut Report) {
    let mut rows = Vec::new();
    println!(
        "| | operation | instructions | committed | change, % | allocations |\n|---|---|---|---|---|---|"
    );
    for MeasuredCase { case, instructions, allocations } in measured {
        let (name, operation) = (case.name(), case.operation());
        let Spread { minimum, median, maximum } = *instructions;
        for (suffix, value) in [("", median), (", least", minimum), (", greatest", maximum)] {
            report.figure_in_section(format!("{name}, instructions: {operation}{suffix}"), value);
        }
        report.figure_in_section(format!("{name}, allocations: {operation}"), *allocations);
        let committed = committed.and_then(|committed| committed.instructions.get(&name).copied());
        let change = committed.map(|committed| counts::tenths(counts::change(median, committed)));
        let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let spread = if minimum < maximum { format!(" ({minimum} to {maximum})") } else { String::new() };
        println!(
            "| {name} | {operation} | {median}{spread} | {} | {} | {allocations} |",
            text(committed),
            text(change)
        );
        let count = Cell::Number(median);
        let compared = [count, committed.into(), change.into(), Cell::Number(*allocations)];
        rows.push([Cell::text(name), Cell::text(operation)].into_iter().chain(compared).collect());
    }
    println!();
    let columns = ["Case", "Operation", "Instructions", "Committed", "Change (%)", "Allocations"];
    let tables = vec![Table::new("Counts of an operation", columns, rows)];
    report.sections.push(Section { title: "Instructions".to_owned(), figures: Vec::new(), tables });
}

#[cfg(test)]
mod tests;
