//! Runs schedules of the simulator. `cargo xtask simulate` starts this program.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use informer_simulator::{
    Coverage, NamedDistribution, Plan, Script, Tally, run, run_kube_rs_model, run_many, run_with_timeline,
    shrink,
};
use serde::Serialize;

/// Tests the shipped state machines of an informer against a model of an API server, in simulated time.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of schedules to run.
    #[arg(long)]
    schedules: Option<u64>,
    /// The first seed. Without a number of schedules, the schedule of this seed is replayed.
    #[arg(long)]
    seed: Option<u64>,
    /// Run schedules until this time has passed, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run the script in this file instead of random schedules.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Run the schedules against a model of the rules of kube-rs's watcher instead of this library.
    #[arg(long)]
    kube_rs_model: bool,
    /// Number of threads that run schedules.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print nothing but a violation, and do not shrink its schedule.
    #[arg(long)]
    quiet: bool,
    /// Write the statistics as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The JSON report that `cargo xtask` reads.
#[derive(Debug, Default, Serialize)]
struct Report {
    problems: Vec<String>,
    figures: Vec<(String, f64)>,
    distributions: Vec<NamedDistribution>,
    invariant: Option<&'static str>,
}

const SCHEDULES_DEFAULT: u64 = 100_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The message of a panic is not printed here; the report contains it with the seed of the schedule.
    std::panic::set_hook(Box::new(|_| {}));
    let report = match (&arguments.script, arguments.seed) {
        (None, seed) if arguments.kube_rs_model => kube_rs(&arguments, seed.unwrap_or_default()),
        (Some(path), _) => match std::fs::read_to_string(path).map(|text| text.parse::<Script>()) {
            Ok(Ok(script)) => replay(&script),
            Ok(Err(error)) => return refuse(&format!("{}: {error}", path.display())),
            Err(error) => return refuse(&format!("cannot read {}: {error}", path.display())),
        },
        (None, Some(seed)) if arguments.schedules.is_none() && arguments.seconds.is_none() => {
            println!("seed {seed}");
            replay(&Script::of_seed(seed))
        }
        (None, seed) => many(&arguments, seed.unwrap_or_default()),
    };
    if arguments.json.is_none() {
        report.figures.iter().for_each(|(name, value)| println!("{name:<40} {value}"));
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string(&report).expect("strings and numbers are JSON");
        if let Err(error) = std::fs::write(path, text) {
            return refuse(&format!("cannot write {}: {error}", path.display()));
        }
    }
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

/// Replays one schedule with a timeline. A failing schedule is shrunk first.
fn replay(script: &Script) -> Report {
    let mut report = Report::default();
    let outcome = match run(script).violation {
        None => run_with_timeline(script),
        Some(violation) => {
            let short = shrink(script, &violation);
            println!("\n{short}");
            run_with_timeline(&short)
        }
    };
    outcome.timeline.iter().for_each(|line| println!("{line}"));
    match outcome.violation {
        None => println!("every invariant holds"),
        Some(violation) => {
            println!("broken: {violation}");
            report.invariant = Some(violation.invariant);
            report.problems.push(violation.to_string());
        }
    }
    report.figures.push(("steps".to_owned(), outcome.steps as f64));
    report
}

/// Counts, for each known problem of kube-rs's watcher, the schedules in which the model of its rules shows
/// that problem.
fn kube_rs(arguments: &Arguments, seed: u64) -> Report {
    let schedules = arguments.schedules.unwrap_or(SCHEDULES_DEFAULT);
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for index in 0..schedules {
        for what in run_kube_rs_model(&Script::of_seed(seed.wrapping_add(index))) {
            found.entry(what).or_insert((index + 1, 0)).1 += 1;
        }
    }
    println!("| problem | first in schedule | in schedules |\n|---|---|---|");
    found.iter().for_each(|(what, (first, count))| println!("| {what} | {first} | {count} |"));
    let mut report = Report::default();
    report.figures.push(("schedules of the peer's model".to_owned(), schedules as f64));
    report.figures.extend(found.iter().map(|(what, (_, count))| (format!("peer: {what}"), *count as f64)));
    report
}

fn many(arguments: &Arguments, seed: u64) -> Report {
    let time = arguments.seconds.map(Duration::from_secs);
    let without = if time.is_some() { u64::MAX } else { SCHEDULES_DEFAULT };
    let schedules = arguments.schedules.unwrap_or(without);
    let plan = Plan { seed, schedules, time, threads: arguments.threads };
    let terminal = std::io::stderr().is_terminal() && !arguments.quiet;
    let tally = run_many(&plan, &|count| {
        if terminal && count.is_multiple_of(6400) {
            eprint!("\r{count} schedules");
        }
    });
    if terminal {
        eprint!("\r                              \r");
    }
    let mut report = figures(&tally, plan.threads);
    if let Some((seed, violation)) = &tally.failure {
        report.invariant = Some(violation.invariant);
        report.problems.push(format!("seed {seed}: {violation}"));
        if !arguments.quiet {
            println!("seed {seed}: {violation}\n\n{}", shrink(&Script::of_seed(*seed), violation));
        }
    }
    report
}

fn figures(tally: &Tally, threads: usize) -> Report {
    let mut report = Report::default();
    let count = tally.schedules.max(1) as f64;
    let seconds = tally.elapsed.as_secs_f64();
    let rows = [
        ("schedules", tally.schedules as f64),
        ("seconds", seconds),
        ("threads", threads as f64),
        ("steps", tally.steps as f64),
        ("steps a second and thread", tally.steps as f64 / seconds / threads as f64),
        ("steps of a schedule, mean", tally.steps as f64 / count),
        ("verbs of a schedule, mean", tally.verbs as f64 / count),
        ("keys of a schedule, mean", tally.keys as f64 / count),
        ("faults of a schedule, mean", tally.faults as f64 / count),
    ];
    report.figures.extend(rows.map(|(name, value)| (name.to_owned(), value)));
    report.figures.extend(covered(&tally.coverage));
    report.distributions = vec![
        tally.by_second.clone().named("schedules by second", 1),
        tally.by_steps.clone().named("steps of a schedule", Tally::STEPS_WIDTH),
    ];
    report
}

fn covered(coverage: &Coverage) -> impl Iterator<Item = (String, f64)> {
    coverage.rows().into_iter().map(|(name, count)| (name, count as f64))
}
