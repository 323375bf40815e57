//! Developer commands of this workspace: `cargo xtask COMMAND`.

mod bench;
mod book;
mod capabilities;
mod cargo;
mod conformance;
mod console;
mod deadline;
mod diagnostics;
mod explore;
mod features;
mod fleet;
mod fuzz;
mod go;
mod mutants;
mod ordeal;
mod parity;
mod real;
mod report;
mod scaffold;
mod schema;
mod simulate;
mod stress;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::{Report, RunFacts, page};

/// Developer commands of this workspace. Each command prints problems first and figures last.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Also write the report (problems and figures) to this file, as JSON. An existing file is overwritten.
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the report to `index.html` in this folder, as a page with tables, and for `bench` and
    /// `simulate` with plots. The folder is created if it does not exist. An existing page is overwritten.
    #[arg(long, global = true, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// Exit with status 1 if the report has a problem, such as a missed target or a broken rule. The command
    /// `real` does so even without this option. With this option, `schema`, `console` and `capabilities`
    /// compare the files of the repository instead of writing them.
    #[arg(long, global = true)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the state machines of an informer in simulated time under random faults, and check invariants.
    /// With `--system`, run whole programs instead. See docs/simulator.md.
    Simulate(simulate::SimulateArguments),
    /// Run the sample controller, copies of it with a deliberate defect each, and known bug patterns under
    /// injected faults. Measures the time until each defect is found.
    Explore(explore::ExploreArguments),
    /// Check the rules that the compiler does not check: dependencies between crates and layers, file sizes,
    /// names of files and types, real time in tests, language, and names that docs mention.
    Tidy(tidy::TidyArguments),
    /// Check that the library crates compile without features, with each feature and with all, and run the
    /// tests of some combinations. Needs cargo-hack.
    Features(features::FeaturesArguments),
    /// Mutation testing: run cargo-mutants over the library crates, and report mutants that no test catches.
    /// Needs cargo-mutants.
    Mutants(mutants::MutantsArguments),
    /// Run all tests except documentation tests several times alongside busy processes, to find tests that
    /// depend on real time.
    Stress(stress::StressArguments),
    /// Fuzz the parsers of untrusted input under libFuzzer, or, if it is not installed, with a harness that
    /// has no coverage feedback.
    Fuzz(fuzz::FuzzArguments),
    /// Compile programs with mistakes, and compare the messages of this library in the compiler's errors with
    /// the committed ones.
    Diagnostics(diagnostics::DiagnosticsArguments),
    /// Build the book in docs/book and check its links. Needs mdbook.
    Book,
    /// Run benchmarks of this library, of client-go, controller-runtime and kube-rs, and of kube-apiserver in
    /// turn. Reports medians, minima, maxima, ratios and missed targets.
    Bench(bench::Bench),
    /// Run a conformance suite on the embedded API server or on a real one.
    Conformance(conformance::Conformance),
    /// Run informers of client-go, kube-rs and this library on one server, and compare their caches after
    /// changes and broken connections. Needs Go.
    Fleet(fleet::Fleet),
    /// Chaos test: kill, pause and restart processes and break connections under a running informer, in real
    /// time.
    Ordeal(ordeal::Ordeal),
    /// Generate the table of the built-in kinds from the published Go types and a real API server. With
    /// `--check`, compare the output with the files in the repository instead of writing them. Needs Go.
    Schema(schema::Options),
    /// Build the pages of the console and of the embedded API server from `console/`. With `--check`, compare
    /// the committed pages with a new build instead of replacing them. Needs Node.js.
    Console(console::ConsoleArguments),
    /// Build, lint and test the projects that `informer new` and `informer add` write.
    Scaffold(scaffold::ScaffoldArguments),
    /// Run client-go and this library on the same scripts (informer, work queue, leader election) and compare
    /// their traces. Needs Go.
    Parity(parity::ParityArguments),
    /// Generate docs/capabilities.md from docs/capabilities.json. With `--check`, compare the existing page
    /// with the JSON file instead of writing it.
    Capabilities,
    /// Build, start and stop a real kube-apiserver with etcd on loopback. Needs Go.
    Real {
        /// The operation on kube-apiserver, etcd and kube-controller-manager.
        #[command(subcommand)]
        command: real::RealCommand,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = match &arguments.command {
        Command::Explore(arguments) => explore::run(root(), arguments),
        Command::Tidy(arguments) => tidy::run(root(), arguments),
        Command::Features(arguments) => features::run(root(), arguments),
        Command::Mutants(arguments) => mutants::run(root(), arguments),
        Command::Stress(arguments) => stress::run(root(), arguments),
        Command::Fuzz(arguments) => fuzz::run(root(), arguments),
        Command::Diagnostics(arguments) => diagnostics::run(root(), arguments),
        Command::Book => book::run(root()),
        Command::Bench(bench) => bench::run(root(), bench),
        Command::Conformance(options) => conformance::run(root(), options),
        Command::Fleet(options) => fleet::run(root(), options),
        Command::Ordeal(options) => ordeal::run(root(), options),
        Command::Schema(options) => schema::run(root(), options, arguments.check),
        Command::Console(options) => console::run(root(), options, arguments.check),
        Command::Scaffold(arguments) => scaffold::run(root(), arguments),
        Command::Parity(parity) => parity::run(root(), parity),
        Command::Capabilities => capabilities::run(root(), arguments.check),
        Command::Simulate(arguments) => simulate::run(root(), arguments),
        Command::Real { command } => real::run(root(), command),
    };
    finish(&report, &arguments)
}

/// Prints a report and returns the exit code. It is 2 if the report cannot be written to the file of
/// `--json` or to the folder of `--report`. Otherwise it is 1 if the report has a problem and either
/// `--check` is set or the command is `real`, and 0 in all other cases.
fn finish(report: &Report, arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        // For `real`, stdout contains only the result, such as a path or the state of the servers, for use in
        // scripts. The report goes to stderr.
        Command::Real { .. } => eprintln!("{report}"),
        _ => println!("{report}"),
    }
    let json = write_json(report, arguments.json.as_deref());
    let page = match &arguments.report {
        Some(folder) => page::write(report, &RunFacts::of_this_run(root()), folder),
        None => Ok(()),
    };
    let errors = [json.err(), page.err().map(|error| error.to_string())];
    if errors.iter().flatten().inspect(|error| eprintln!("{error}")).count() > 0 {
        return ExitCode::from(2);
    }
    // The command `real` exits with status 1 for a problem even without `--check`, because its problems are
    // errors, such as a server that does not start.
    let strict = arguments.check || matches!(arguments.command, Command::Real { .. });
    if strict && !report.passed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Writes a report as JSON to the file of `--json`, if it is set.
fn write_json(report: &Report, path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, report.to_json()).map_err(|error| {
        let remedy =
            "repeat the command with a file that can be written as `--json`, or use the figures above";
        format!("write figures {}: {error}; {remedy}", path.display())
    })
}

/// Returns the root of the workspace: the parent of the folder of this crate.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in a folder of the workspace")
}

#[cfg(test)]
mod tests;
