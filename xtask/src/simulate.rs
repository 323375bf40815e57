//! Runs the simulator of state machines or, with `--system`, of whole programs. With `--mutants`, runs it on
//! copies of the tree that each contain one deliberate defect.

mod mutants;
mod sections;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::cargo::{Executable, build, program};
use crate::deadline::Deadline;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// Number of schedules [default: 100,000, or 1,000 with `--system`; unlimited with `--seconds`]. Has no
    /// effect with `--mutants`, `--script` and `--replay`.
    #[arg(long)]
    schedules: Option<u64>,
    /// Seed of the first schedule; each next schedule has the next number as its seed [default: 0]. If no
    /// other option of this command is given, only the schedule of this seed runs, with a timeline. With
    /// `--mutants --sample`, the seed of the sample.
    #[arg(long)]
    seed: Option<u64>,
    /// Run schedules until this time has passed, in seconds, and at most `--schedules`. With `--mutants`, no
    /// defect is started after this time. Has no effect with `--script`, `--replay` and `--kube-rs-model`.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run the script in this file instead of random schedules, and print a timeline.
    #[arg(long)]
    script: Option<std::path::PathBuf>,
    /// Run each deliberate defect of `conformance/simulator/mutants` in a copy of the tree, instead of the
    /// code of the tree. The simulator must detect each defect from each of three seeds.
    #[arg(long)]
    mutants: bool,
    /// With `--mutants`: run a random sample of this number of defects, which depends on `--seed`. Defects
    /// that the simulator misses in some runs are never in a sample [default: all defects].
    #[arg(long, requires = "mutants")]
    sample: Option<usize>,
    /// With `--mutants`: run only defects whose names contain this text; separate several texts by commas.
    #[arg(long)]
    only: Option<String>,
    /// Run the schedules against a model of the rules of kube-rs's watcher instead of this library, and count
    /// the known problems that the model shows. Has no effect with `--script` and `--mutants`.
    #[arg(long)]
    kube_rs_model: bool,
    /// Run the simulator of whole programs: clients, caches and managers against the embedded API server.
    ///
    /// With `--mutants`, runs the deliberate defects of `conformance/system-simulator/mutants`.
    #[arg(long, conflicts_with_all = ["script", "kube_rs_model"])]
    system: bool,
    /// With `--system`: run only the schedule of this seed and print its trace. Has no effect with
    /// `--mutants`.
    #[arg(long, requires = "system")]
    replay: Option<u64>,
    /// With `--system`: continue after a failure. At the end, print for each violated invariant the number of
    /// failed schedules, the first seed and its message.
    #[arg(long, requires = "system")]
    keep_going: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Written {
    problems: Vec<String>,
    figures: Vec<(String, f64)>,
    #[serde(default)]
    distributions: Vec<sections::Distribution>,
    invariant: Option<String>,
}

/// Minimum number of schedules of a run in which each case that [`COVERED`] selects must happen at least
/// once. The rarest case happens 7 times in 100,000 schedules, so a shorter run may miss it.
const SCHEDULES_TO_COVER: f64 = 150_000.0;

/// Prefixes of the simulator's figures that count how often a case happened, such as a fault or a state
/// transition. If a run has [`SCHEDULES_TO_COVER`] schedules or more, a count of 0 is a problem.
const COVERED: [&str; 5] = ["fault ", "transition ", "list ", "notice ", "reached "];

pub(crate) fn run(root: &Path, arguments: &SimulateArguments) -> Report {
    if arguments.mutants {
        return mutants::run(root, arguments);
    }
    let mut report = Report::new("simulate");
    let json = root.join("target").join("simulate.json");
    let package = if arguments.system { "informer-system-simulator" } else { "informer-simulator" };
    let simulator = Executable { package, selection: &["--bin", package], release: true, path: package };
    let mut command = match build(root, simulator) {
        Ok(path) => program(path),
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    };
    command.current_dir(root);
    if let Some(seed) = arguments.replay {
        command.arg("--replay").arg(seed.to_string());
    }
    if arguments.keep_going {
        command.arg("--keep-going");
    }
    for (name, value) in
        [("--schedules", arguments.schedules), ("--seed", arguments.seed), ("--seconds", arguments.seconds)]
    {
        command.args(value.iter().flat_map(|value| [name.to_owned(), value.to_string()]));
    }
    if let Some(script) = &arguments.script {
        command.arg("--script").arg(script);
    }
    if arguments.kube_rs_model {
        command.arg("--kube-rs-model");
    }
    match start(command, &json, None) {
        Ok(written) => {
            report.problems.extend(written.problems);
            report.figures.extend(written.figures);
            sections::of_schedules(&written.distributions, &mut report);
        }
        Err(problem) => report.problems.push(problem),
    }
    check_coverage(&mut report);
    report
}

/// Runs a simulator, and returns the figures and problems that it writes to the file `json`, because its
/// printed output is for people. A simulator that does not exit within the time limit is killed, which is an
/// error.
fn start(mut command: Command, json: &Path, time_max: Option<Duration>) -> Result<Written, String> {
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    }
    // If the simulator fails before it writes its output file, the file of an earlier run must not be read
    // instead.
    let _ = std::fs::remove_file(json);
    let failed = |error: std::io::Error| format!("cannot run the simulator: {error}");
    let mut running = command.arg("--json").arg(json).spawn().map_err(failed)?;
    if let Some(limit) = time_max {
        let ended = Deadline::after(limit).poll(|| running.try_wait().transpose());
        if ended.is_none() {
            running.kill().map_err(failed)?;
            running.wait().map_err(failed)?;
            return Err(format!("the simulator did not end within {limit:?}"));
        }
    }
    running.wait().map_err(failed)?;
    let text = std::fs::read_to_string(json)
        .map_err(|error| format!("the simulator has written no figures to {}: {error}", json.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("cannot read {}: {error}", json.display()))
}

/// Reports the cases that no schedule of a run with at least [`SCHEDULES_TO_COVER`] schedules reached,
/// because the run has not tested them.
fn check_coverage(report: &mut Report) {
    let schedules = report.figures.iter().find(|(name, _)| name == "schedules");
    if schedules.is_none_or(|(_, count)| *count < SCHEDULES_TO_COVER) {
        return;
    }
    let missed = |(name, count): &&(String, f64)| {
        *count == 0.0 && COVERED.iter().any(|prefix| name.starts_with(prefix))
    };
    let missed: Vec<_> = report.figures.iter().filter(missed).map(|(name, _)| name.clone()).collect();
    report.problems.extend(missed.into_iter().map(|name| format!("never reached: {name}")));
}
