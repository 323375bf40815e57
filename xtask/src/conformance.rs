//! Conformance suites, which run on the embedded API server and on a real kube-apiserver.

mod apiserver;
mod envtest;
mod kubectl;
mod operators;
mod programs;
mod served;
mod validation;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::cargo::{Executable, build, program};
use crate::go::target;
use crate::real::{self, DataFolder, Up};
use crate::report::Report;

/// Arguments that enable the coordinator of leader elections in kube-apiserver, and the API of its
/// LeaseCandidates. Both are off by default.
const COORDINATOR: [&str; 2] =
    ["--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true"];

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The suite to run.
    #[arg(long, value_enum, default_value_t = Suite::Informer)]
    suite: Suite,
    /// The server to run against. The suite validation always uses both servers.
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    server: Kind,
    /// Record the outcome of this run as the new expectation, instead of comparing it. Suites apiserver and
    /// envtest: record the responses or the outcomes of tests; this needs `--server real`. Suite validation:
    /// also compare, and record the responses to objects on which both servers agree. Other suites ignore it.
    #[arg(long)]
    record: bool,
    /// Run only scenarios whose names contain this text. In the suites programs, operators and envtest: only
    /// programs, operators or packages; in the suite validation: only kinds. The suite kubectl ignores it.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The number of generated objects per kind in the suite validation. Other suites ignore it.
    #[arg(long, default_value_t = 300, value_name = "NUMBER")]
    objects: u32,
    /// The seed of the first generated object in the suite validation. Other suites ignore it.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    seed: u64,
    /// Suite informer: skip the scenarios that take almost a minute or longer. Suite operators: skip the runs
    /// of operators without a necessary permission. Other suites ignore it.
    #[arg(long)]
    quick: bool,
    /// With `--server real`, in the suites informer, programs and operators: directory of a running real
    /// server (`cargo xtask real up`). Without this option, and in all other suites, a real server is started
    /// for the suite and stopped afterwards.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Behavior of this library's informers on a server.
    Informer,
    /// Commands of kubectl, against `informer serve` or a real server. Needs Go.
    Kubectl,
    /// Scripts of HTTP requests. Responses are compared with the recorded responses of a real server. Needs
    /// Go with `--server real`.
    Apiserver,
    /// Generated objects, most of them invalid, on the embedded and on the real server. Compares whether each
    /// server accepts an object, and the reasons and causes of rejections. Needs Go.
    Validation,
    /// Typical programs on client-go, controller-runtime and kube-rs, against `informer serve` or a real
    /// server with its controllers. Needs Go.
    Programs,
    /// The example operators, each with the minimal role that it ships, against `informer serve` or a real
    /// server with its controllers. Needs Go to build kubectl.
    Operators,
    /// controller-runtime's own test suites, with the `kube-apiserver` and `etcd` that `informer envtest
    /// install` writes, or with the real ones. Compares the outcomes with the recorded ones of the real
    /// kube-apiserver and etcd. Needs Go.
    Envtest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The embedded API server (`informer-apiserver`), in the process of the test or as a process of
    /// `informer serve`.
    Embedded,
    /// A real kube-apiserver with etcd. Building them needs Go.
    Real,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    outcomes: Vec<Outcome>,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    name: String,
    failure: Option<String>,
    seconds: f64,
}

pub(crate) fn run(root: &Path, options: &Conformance) -> Report {
    match options.suite {
        Suite::Informer => informer(root, options),
        Suite::Apiserver => apiserver::run(root, options),
        Suite::Validation => validation::run(root, options),
        Suite::Kubectl => kubectl::run(root, options),
        Suite::Programs => programs::run(root, options),
        Suite::Operators => operators::run(root, options),
        Suite::Envtest => envtest::run(root, options),
    }
}

fn informer(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance");
    let outcome = match (options.server, &options.dir) {
        (Kind::Embedded, _) => suite(root, options, None, &mut report),
        (Kind::Real, Some(folder)) => suite(root, options, Some(folder), &mut report),
        (Kind::Real, None) => {
            let place = DataFolder { dir: Some(target(root).join("conformance-real")) };
            let apiserver_flag = COORDINATOR.map(str::to_owned).to_vec();
            let up = Up { place, controllers: false, apiserver_flag };
            with_servers(root, &up, &mut report, |folder, report| suite(root, options, Some(folder), report))
        }
    };
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

/// Starts a real server whose data is in the folder `name` of cargo's target folder. Calls `work` with the
/// path of this folder, and stops the server afterwards.
pub(crate) fn with_server(
    root: &Path,
    name: &str,
    report: &mut Report,
    work: impl FnOnce(&Path, &mut Report) -> Result<(), String>,
) -> Result<(), String> {
    let place = DataFolder { dir: Some(target(root).join(name)) };
    with_servers(root, &Up { place, controllers: false, apiserver_flag: Vec::new() }, report, work)
}

/// Starts real servers with the options `up`, calls `work` with their directory, and stops them afterwards,
/// even if `work` returns an error.
pub(crate) fn with_servers(
    root: &Path,
    up: &Up,
    report: &mut Report,
    work: impl FnOnce(&Path, &mut Report) -> Result<(), String>,
) -> Result<(), String> {
    let place = up.place.clone();
    // If an earlier run was killed, its servers may still run. They are stopped first, because no second
    // cluster can start in their directory.
    let _ = real::down(root, &place);
    real::up(root, up, report).map_err(|error| real::told(&error))?;
    let outcome = work(&place.folder(root), report);
    let down = real::down(root, &place).map_err(|error| real::told(&error));
    outcome.and(down)
}

fn suite(root: &Path, options: &Conformance, real: Option<&Path>, report: &mut Report) -> Result<(), String> {
    let verdict_path = target(root).join("conformance.json");
    let _ = std::fs::remove_file(&verdict_path);
    let name = "informer-conformance";
    let suite = Executable { package: name, selection: &["--bin", name], release: false, path: name };
    let mut command = program(build(root, suite)?);
    command.current_dir(root).arg("--json").arg(&verdict_path);
    if let Some(folder) = real {
        let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        command.arg("--real").arg(folder).arg("--xtask").arg(xtask);
    }
    if let Some(part) = &options.scenario {
        command.arg("--scenario").arg(part);
    }
    if options.quick {
        command.arg("--quick");
    }
    let status = command.status().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = std::fs::read(&verdict_path)
        .map_err(|error| format!("the suite wrote no verdict ({status}): {error}"))?;
    let verdict: Verdict = serde_json::from_slice(&text)
        .map_err(|error| format!("cannot read the verdict of the suite: {error}"))?;
    tell(&verdict, report);
    Ok(())
}

fn tell(verdict: &Verdict, report: &mut Report) {
    let failed = verdict.outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    report.figure("passed", (verdict.outcomes.len() - failed) as f64);
    report.figure("failed", failed as f64);
    report.figure("took, s", verdict.seconds);
    for outcome in &verdict.outcomes {
        if let Some(failure) = &outcome.failure {
            report.problems.push(format!("{}, after {} s: {failure}", outcome.name, outcome.seconds));
        }
    }
    if verdict.outcomes.is_empty() {
        report.problems.push("no scenario ran".to_owned());
    }
}
