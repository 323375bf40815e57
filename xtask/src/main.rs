//! The commands of the project: `cargo xtask COMMAND`.

mod bench;
mod book;
mod cargo;
mod conformance;
mod deadline;
mod features;
mod fleet;
mod fuzz;
mod go;
mod mutants;
mod ordeal;
mod parity;
mod real;
mod report;
mod schema;
mod simulate;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::Report;

/// The project's own commands. Each prints its figures last.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Write the figures to this file, too, as JSON.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 1 when a target is missed.
    #[arg(long, global = true)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The state machines of an informer under seeds that draw faults; see docs/simulator.md.
    Simulate(simulate::SimulateArguments),
    /// Check the rules that the compiler does not: dependencies between crates and layers, sizes, names,
    /// language, tests that docs name.
    Tidy(tidy::TidyArguments),
    /// Check that each combination of features compiles, and run the tests of some of them. Needs cargo-hack.
    Features(features::FeaturesArguments),
    /// Mutation testing: run cargo-mutants over the library crates and report mutants that no test catches.
    Mutants(mutants::MutantsArguments),
    /// Give mutated bytes to everything that reads bytes of others.
    Fuzz(fuzz::FuzzArguments),
    /// Build the book in docs/book and check its links. Needs mdbook.
    Book,
    /// Measure our parts beside their peers, in the same run: medians, spread, ratios.
    Bench(bench::Bench),
    /// The suite of informer behaviour, on the embedded server or on a real one.
    Conformance(conformance::Conformance),
    /// Informers of client-go, of kube-rs and ours on one server, whose views must be equal after changes and
    /// cuts.
    Fleet(fleet::Fleet),
    /// Our pipeline against processes that are killed, held and restarted, and connections that break, in
    /// real time.
    Ordeal(ordeal::Ordeal),
    /// Write the table of the built-in kinds from published Go types and a real server; with `--check`, say
    /// whether it is what they give.
    Schema(schema::Options),
    /// client-go's informer, work queue and leader election beside ours on the same scripts: equal, or
    /// different as listed. Needs Go.
    Parity(parity::ParityArguments),
    /// A real kube-apiserver with its etcd, built from published Go modules and run on loopback.
    Real {
        /// What to do.
        #[command(subcommand)]
        command: real::RealCommand,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = match &arguments.command {
        Command::Tidy(arguments) => tidy::run(root(), arguments),
        Command::Features(arguments) => features::run(root(), arguments),
        Command::Mutants(arguments) => mutants::run(root(), arguments),
        Command::Fuzz(arguments) => fuzz::run(root(), arguments),
        Command::Book => book::run(root()),
        Command::Bench(bench) => bench::run(root(), bench),
        Command::Conformance(options) => conformance::run(root(), options),
        Command::Fleet(options) => fleet::run(root(), options),
        Command::Ordeal(options) => ordeal::run(root(), options),
        Command::Schema(options) => schema::run(root(), options, arguments.check),
        Command::Parity(parity) => parity::run(root(), parity),
        Command::Simulate(arguments) => simulate::run(root(), arguments),
        Command::Real { command } => real::run(root(), command),
    };
    finish(&report, &arguments)
}

/// Prints a report and turns it into an exit code: 0, 1 for a missed target with `--check`, 2 for a report
/// that could not be written.
fn finish(report: &Report, arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        // What was asked for goes to stdout by itself: a path, a state.
        Command::Real { .. } => eprintln!("{report}"),
        _ => println!("{report}"),
    }
    if let Some(path) = &arguments.json
        && let Err(error) = std::fs::write(path, report.to_json())
    {
        eprintln!("cannot write the figures to {}: {error}", path.display());
        return ExitCode::from(2);
    }
    // A server that does not start is a failure whoever asks.
    let strict = arguments.check || matches!(arguments.command, Command::Real { .. });
    match strict && !report.passed() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The workspace: the folder above this crate's.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in a folder of the workspace")
}
