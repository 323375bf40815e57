//! Fuzzing: the targets of `fuzz/`, under libFuzzer where a nightly toolchain and cargo-fuzz are there, else in the harness.

use std::path::Path;
use std::process::Stdio;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cargo::command;
use crate::go::target;
use crate::report::Report;

/// What to fuzz, and how.
#[derive(Debug, Args)]
pub(crate) struct FuzzArguments {
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What drives the targets.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// libFuzzer where it can be built, else the harness.
    Auto,
    /// Guided by coverage; needs a nightly toolchain and cargo-fuzz.
    Libfuzzer,
    /// Mutated seeds, on any toolchain.
    Harness,
}

pub(crate) fn run(root: &Path, arguments: &FuzzArguments) -> Report {
    let mut report = Report::new("fuzz");
    let guided = match arguments.engine {
        Engine::Auto => has_libfuzzer(),
        Engine::Libfuzzer => true,
        Engine::Harness => false,
    };
    let outcome = match guided {
        true => libfuzzer(root, arguments, &mut report),
        false => harness(root, arguments, &mut report),
    };
    if let Err(problem) = outcome {
        report.problems.push(problem);
    }
    report
}

fn has_libfuzzer() -> bool {
    let answers = |arguments: &[&str]| {
        let status = command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    answers(&["+nightly", "--version"]) && answers(&["fuzz", "--version"])
}

/// Runs the harness over the targets; its last line holds the executions.
fn harness(root: &Path, arguments: &FuzzArguments, report: &mut Report) -> Result<(), String> {
    let mut command = command();
    command.current_dir(root).args(["run", "--quiet", "--release", "--package", "informer-fuzz", "--"]);
    command.args(["--seconds", &arguments.seconds.to_string(), "--seed", &arguments.seed.to_string()]);
    if let Some(target) = &arguments.target {
        command.args(["--target", target]);
    }
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last: Value =
        text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    for (name, count) in last["executions"].as_object().into_iter().flatten() {
        report.figure(format!("{name}, executions"), count.as_f64().unwrap_or_default());
    }
    match output.status.success() {
        true => Ok(()),
        false => Err("a target failed; the lines above show the smallest input found".to_owned()),
    }
}

/// Runs each target under libFuzzer from its seeds. What it finds stays in the corpus below the build products.
fn libfuzzer(root: &Path, arguments: &FuzzArguments, report: &mut Report) -> Result<(), String> {
    let seeds = root.join("fuzz/seeds");
    for name in names(&seeds, arguments)? {
        let corpus = target(root).join("fuzz-corpus").join(&name);
        std::fs::create_dir_all(&corpus)
            .map_err(|error| format!("cannot make {}: {error}", corpus.display()))?;
        let mut command = command();
        command.current_dir(root).env("FUZZ_TARGET", &name);
        command.args(["+nightly", "fuzz", "run", "--fuzz-dir", "fuzz/libfuzzer", "--target-dir"]);
        command.arg(target(root).join("libfuzzer")).arg("target").arg(&corpus).arg(seeds.join(&name));
        command.args(["--", "-print_final_stats=1", "-timeout=20", "-max_len=4096"]);
        command
            .arg(format!("-max_total_time={}", arguments.seconds))
            .arg(format!("-seed={}", arguments.seed));
        let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let figure = |key: &str| text.rsplit_once(key)?.1.split_whitespace().next()?.parse::<f64>().ok();
        report.figure(
            format!("{name}, executions"),
            figure("stat::number_of_executed_units:").unwrap_or_default(),
        );
        report.figure(format!("{name}, edges covered"), figure(" cov: ").unwrap_or_default());
        if !output.status.success() {
            eprintln!("{text}");
            report.problems.push(format!("{name} failed; the lines above show the input"));
        }
    }
    Ok(())
}

/// The targets are those that have seeds.
fn names(seeds: &Path, arguments: &FuzzArguments) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(seeds).map_err(|error| format!("cannot read {}: {error}", seeds.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names.retain(|name| arguments.target.as_ref().is_none_or(|target| target == name));
    match names.is_empty() {
        true => Err("there is no such target; fuzz/seeds has a folder for each".to_owned()),
        false => Ok(names),
    }
}
