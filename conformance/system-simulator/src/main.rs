//! Runs scenarios of the system simulator. `cargo xtask simulate --system` starts this program.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use informer_simulator::NamedDistribution;
use informer_system_simulator::{InvariantFailures, Plan, Scenario, Tally, run_many, run_printing};
use serde::Serialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Runs clients, caches and managers against the embedded API server, in simulated time and under seeded
/// faults.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of schedules to run.
    #[arg(long)]
    schedules: Option<u64>,
    /// Seed of the first schedule. The next schedules use the following numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run schedules until this time has passed, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run only the schedule of this seed, and print its trace. With the environment variable RUST_LOG, such
    /// as `RUST_LOG=informer_cache=debug`, also print the log of the library, between the lines of the trace.
    #[arg(long)]
    replay: Option<u64>,
    /// Continue after a failure, and list the failures by invariant.
    #[arg(long)]
    keep_going: bool,
    /// Number of threads that run schedules.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Write the figures as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Exit with 1 if an invariant does not hold. Always on; accepted for symmetry with `cargo xtask`.
    #[arg(long)]
    check: bool,
}

/// The JSON report that `cargo xtask` reads.
#[derive(Debug, Default, Serialize)]
struct Report {
    problems: Vec<String>,
    figures: Vec<(String, f64)>,
    distributions: Vec<NamedDistribution>,
    invariant: Option<&'static str>,
}

/// The default number of schedules, if no time is given.
const SCHEDULES_DEFAULT: u64 = 1000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = match arguments.replay {
        Some(seed) => replay(seed),
        None => many(&arguments),
    };
    match &arguments.json {
        None => report.figures.iter().for_each(|(name, value)| println!("{name:<40} {value}")),
        Some(path) => {
            let text = serde_json::to_string(&report).expect("strings and numbers are JSON");
            if let Err(error) = std::fs::write(path, text) {
                eprintln!("write {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64) -> Report {
    // Invalid parts of the variable are reported on stderr, and ignored.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).init();
    let outcome = run_printing(&Scenario::of_seed(seed));
    let mut report = Report::default();
    report.figures.push(("simulated seconds".to_owned(), outcome.simulated.as_secs_f64()));
    for violation in outcome.violations {
        println!("{violation}");
        report.invariant.get_or_insert(violation.invariant);
        report.problems.push(format!("seed {seed}: {violation}"));
    }
    report
}

fn many(arguments: &Arguments) -> Report {
    let time = arguments.seconds.map(Duration::from_secs);
    let without = if time.is_some() { u64::MAX } else { SCHEDULES_DEFAULT };
    let schedules = arguments.schedules.unwrap_or(without);
    let (seed, threads, keep_going) = (arguments.seed, arguments.threads, arguments.keep_going);
    let tally = run_many(&Plan { seed, schedules, time, threads, keep_going });
    let mut report = Report::default();
    if let Some((seed, violation)) = &tally.failure {
        println!("seed {seed}: {violation}");
        println!("replay it with: cargo xtask simulate --system --replay {seed}");
        report.invariant = Some(violation.invariant);
        report.problems.push(format!("seed {seed}: {violation}"));
    }
    for (invariant, failures) in tally.failures.iter().filter(|_| keep_going) {
        let InvariantFailures { seed, scenarios, text } = failures;
        println!("{invariant}: in {scenarios} schedules, first with seed {seed}: {text:.600}");
    }
    let rows = [
        ("schedules", tally.schedules as f64),
        ("seconds", tally.elapsed.as_secs_f64()),
        ("threads", arguments.threads as f64),
        ("steps", tally.steps as f64),
        ("faults", tally.faults as f64),
        ("requests", tally.requests as f64),
        ("simulated hours", tally.simulated.as_secs_f64() / 3600.0),
    ];
    report.figures.extend(rows.map(|(name, value)| (name.to_owned(), value)));
    let by_kind = tally.faults_by_kind.iter().map(|(fault, count)| (format!("fault {fault}"), *count as f64));
    report.figures.extend(by_kind);
    report.distributions = vec![
        tally.by_second.named("schedules by second", 1),
        tally.by_simulated_time.named("simulated seconds of a schedule", Tally::SIMULATED_WIDTH),
    ];
    report
}
