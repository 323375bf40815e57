//! Fuzzing: runs the targets of `fuzz/`. By default they run under libFuzzer if a nightly toolchain and
//! cargo-fuzz are installed, otherwise with the harness, a program that mutates seeds without coverage
//! feedback.

use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cargo::{Executable, build, command};
use crate::go::target;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct FuzzArguments {
    /// Fuzz only the target with this name, a subfolder of fuzz/seeds [default: all targets].
    #[arg(long)]
    target: Option<String>,
    /// Time in seconds for which each target is fuzzed.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the random mutations of inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of targets that are fuzzed at the same time [default: the number of cores].
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// The engine that runs the targets.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// libFuzzer if a nightly toolchain and cargo-fuzz are installed, otherwise the harness.
    Auto,
    /// libFuzzer, which is guided by code coverage. Fails without a nightly toolchain and cargo-fuzz.
    Libfuzzer,
    /// A program of this workspace that mutates the seeds without coverage feedback; runs on any toolchain.
    Harness,
}

impl FuzzArguments {
    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().ok();
        self.jobs.or_else(cores).map_or(1, NonZeroUsize::get)
    }
}

pub(crate) fn run(root: &Path, arguments: &FuzzArguments) -> Report {
    let mut report = Report::new("fuzz");
    let guided = match arguments.engine {
        Engine::Auto => has_libfuzzer(),
        Engine::Libfuzzer => true,
        Engine::Harness => false,
    };
    let outcome =
        if guided { libfuzzer(root, arguments, &mut report) } else { harness(root, arguments, &mut report) };
    if let Err(problem) = outcome {
        report.problems.push(problem);
    }
    report
}

fn has_libfuzzer() -> bool {
    let succeeds = |arguments: &[&str]| {
        let status = command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    succeeds(&["+nightly", "--version"]) && succeeds(&["fuzz", "--version"])
}

#[derive(Debug, PartialEq)]
struct Outcome {
    executions: Option<f64>,
    problem: Option<String>,
}

/// Runs each fuzz target in a separate process of the harness, because a stack overflow ends the whole
/// process. The other targets thus continue.
fn harness(root: &Path, arguments: &FuzzArguments, report: &mut Report) -> Result<(), String> {
    let fuzz = Executable { package: "informer-fuzz", selection: &[], release: true, path: "informer-fuzz" };
    let program = build(root, fuzz)?;
    let (names, jobs) = (names(&root.join("fuzz/seeds"), arguments)?, arguments.jobs());
    let outcomes = side_by_side(&names, jobs, |name| {
        let mut command = Command::new(&program);
        command.args(["--target", name, "--seconds", &arguments.seconds.to_string()]);
        let output = command.args(["--seed", &arguments.seed.to_string()]).output();
        let output = output.map_err(|error| format!("cannot run the harness: {error}"));
        output.map(|Output { status, stdout, stderr }| {
            tell(&stderr);
            outcome_of(name, &stdout, status)
        })
    });
    for (name, outcome) in names.iter().zip(outcomes) {
        let Outcome { executions, problem } = outcome?;
        report.figure(format!("{name}, executions"), executions.unwrap_or_default());
        report.problems.extend(problem);
    }
    Ok(())
}

/// Returns the number of executions of a fuzz target, which the harness prints in its last line, and a
/// problem if the harness failed or did not print this line.
fn outcome_of(name: &str, stdout: &[u8], status: ExitStatus) -> Outcome {
    let text = String::from_utf8_lossy(stdout);
    let last: Value =
        text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let executions = last["executions"][name].as_f64();
    let problem = match (executions, status.success()) {
        (Some(_), true) => None,
        (Some(_), false) => Some(format!("{name} failed; the lines above show the smallest input found")),
        (None, _) => Some(format!("{name} ended without figures ({status}); see the lines above")),
    };
    Outcome { executions, problem }
}

/// Prints the output of one fuzz process to stderr in a single write, so that the outputs of concurrent
/// processes are not mixed.
fn tell(said: &[u8]) {
    // A failed write is ignored: if the terminal was closed, fuzzing continues without output.
    let _ = std::io::stderr().lock().write_all(said);
}

/// Runs each fuzz target under libFuzzer, starting from its seeds in `fuzz/seeds`. Inputs that libFuzzer adds
/// to its corpus stay in the folder `fuzz-corpus` of cargo's target folder.
fn libfuzzer(root: &Path, arguments: &FuzzArguments, report: &mut Report) -> Result<(), String> {
    let (names, jobs) = (names(&root.join("fuzz/seeds"), arguments)?, arguments.jobs());
    let built = cargo_fuzz(root, "build").arg("target").status();
    if !built.map_err(|error| format!("cannot run cargo: {error}"))?.success() {
        return Err("cannot build the targets for libFuzzer; see the messages above".to_owned());
    }
    let outputs = side_by_side(&names, jobs, |name| guided(root, name, arguments));
    for (name, output) in names.iter().zip(outputs) {
        let (success, text) = output?;
        let figure = |key: &str| text.rsplit_once(key)?.1.split_whitespace().next()?.parse::<f64>().ok();
        let executions = figure("stat::number_of_executed_units:").unwrap_or_default();
        report.figure(format!("{name}, executions"), executions);
        report.figure(format!("{name}, edges covered"), figure(" cov: ").unwrap_or_default());
        if !success {
            report.problems.push(format!("{name} failed; the lines above show the input"));
        }
    }
    Ok(())
}

/// Runs one fuzz target under libFuzzer. Returns whether it found no failure, and the output of libFuzzer.
fn guided(root: &Path, name: &str, arguments: &FuzzArguments) -> Result<(bool, String), String> {
    let corpus = target(root).join("fuzz-corpus").join(name);
    std::fs::create_dir_all(&corpus)
        .map_err(|error| format!("cannot create {}: {error}", corpus.display()))?;
    let mut command = cargo_fuzz(root, "run");
    command.env("FUZZ_TARGET", name).arg("target").arg(&corpus).arg(root.join("fuzz/seeds").join(name));
    command.args(["--", "-print_final_stats=1", "-timeout=20", "-max_len=4096"]);
    command.arg(format!("-max_total_time={}", arguments.seconds)).arg(format!("-seed={}", arguments.seed));
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if output.status.success() {
        eprintln!("{name}: no failure found")
    } else {
        tell(&output.stderr)
    }
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn cargo_fuzz(root: &Path, what: &str) -> Command {
    let mut command = command();
    command.current_dir(root).args([
        "+nightly",
        "fuzz",
        what,
        "--fuzz-dir",
        "fuzz/libfuzzer",
        "--target-dir",
    ]);
    command.arg(target(root).join("libfuzzer"));
    command
}

/// Calls a function for each item on up to `jobs` threads. Returns the results in the order of the items.
fn side_by_side<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let take = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        };
        std::iter::from_fn(take).map(|(at, item)| (at, work(item))).collect::<Vec<_>>()
    };
    let mut outcomes: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(items.len())).map(|_| scope.spawn(worker)).collect();
        let joined =
            |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        workers.into_iter().flat_map(joined).collect()
    });
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Returns the names of the selected fuzz targets, sorted. Each subfolder of `fuzz/seeds` is a target.
/// Returns an error if none is selected.
fn names(seeds: &Path, arguments: &FuzzArguments) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(seeds).map_err(|error| format!("cannot read {}: {error}", seeds.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names.retain(|name| arguments.target.as_ref().is_none_or(|target| target == name));
    if names.is_empty() {
        Err("unknown target; fuzz/seeds has a folder for each target".to_owned())
    } else {
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
