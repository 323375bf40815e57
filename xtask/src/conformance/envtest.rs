//! Runs controller-runtime's own test suites with the `kube-apiserver` and `etcd` that `informer envtest
//! install` writes, or with the real ones.

mod outcome;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Conformance, Kind};
use crate::deadline::Deadline;
use crate::go::{Go, GoError, Module, target};
use crate::real::Process;
use crate::report::Report;
use outcome::Outcome;

/// Minimum number of tests that must pass in all packages together, so that tests cannot silently stop
/// running. It is checked only if all packages run.
const PASSED_MIN: usize = 1_200;
/// The packages of controller-runtime whose tests start an API server.
const PACKAGES: [&str; 18] = [
    "builder",
    "cache",
    "client",
    "client/apiutil",
    "cluster",
    "controller",
    "controller/controllerutil",
    "envtest",
    "handler",
    "internal/controller",
    "internal/recorder",
    "internal/testing/controlplane",
    "manager",
    "manager/internal/integration",
    "metrics/filters",
    "reconcile",
    "source",
    "webhook",
];
/// The Kubernetes version and platform that some tests request. The Go package envtest searches its folder of
/// downloads for them, so `informer envtest install` is also run for that folder.
const DOWNLOADED: &str = "1.28.0-linux-amd64";

/// The recorded outcomes of the packages with the real kube-apiserver and etcd. The outcomes with the
/// programs of `informer envtest install` are compared with them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Recorded(BTreeMap<String, Outcome>);

/// A known difference: a test that passes with the real kube-apiserver and etcd, but fails with the programs
/// of `informer envtest install`, and the reason why that is accepted.
#[derive(Debug, Deserialize)]
struct Difference {
    package: String,
    /// A substring of the names of the tests that are known to differ.
    test: String,
    reason: String,
}

#[derive(Debug, Error)]
enum EnvtestError {
    #[error(transparent)]
    Go(#[from] GoError),
    #[error("cannot {attempt}: {source}")]
    Io { attempt: String, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Data { path: PathBuf, source: serde_json::Error },
    #[error("{command} failed; see the messages above")]
    Failed { command: &'static str },
    #[error("outcomes are recorded only with the real server: add `--server real`")]
    RecordEmbedded,
    #[error("{package} did not run to its end: {why}")]
    Broken { package: String, why: String },
}

fn io_error(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> EnvtestError {
    let attempt = attempt.into();
    move |source| EnvtestError::Io { attempt, source }
}

pub(super) fn run(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance envtest");
    if let Err(error) = suites(root, options, &mut report) {
        report.problems.push(error.to_string());
    }
    report
}

fn suites(root: &Path, options: &Conformance, report: &mut Report) -> Result<(), EnvtestError> {
    if options.record && options.server != Kind::Real {
        return Err(EnvtestError::RecordEmbedded);
    }
    let module = root.join("conformance/go/envtest");
    let assets = assets(root, options.server)?;
    let part = options.scenario.as_deref().unwrap_or_default();
    let modfile = sources::prepare(&module, &target(root).join("envtest-go"))?;
    let mut outcomes = BTreeMap::new();
    for package in PACKAGES.iter().filter(|package| package.contains(part)) {
        let deadline = Deadline::after(outcome::PACKAGE_WAIT);
        let outcome = outcome::of_package(&module, &modfile, package, &assets)?;
        eprintln!("{package:<32} {outcome}, {:.0} s", deadline.elapsed().as_secs_f64());
        outcomes.insert((*package).to_owned(), outcome);
    }
    let recording = module.join("real.json");
    if options.record {
        let mut recorded: Recorded = read(&recording).unwrap_or_default();
        recorded.0.extend(outcomes);
        let text = serde_json::to_string_pretty(&recorded).expect("strings and numbers are JSON") + "\n";
        return fs::write(&recording, text).map_err(io_error("write the recording"));
    }
    let differences: Vec<Difference> = read(&module.join("differences.json"))?;
    compare(&outcomes, &read(&recording)?, &differences, report);
    if part.is_empty() && sum(&outcomes, |outcome| outcome.passed.len()) < PASSED_MIN {
        report.problems.push(format!("fewer than {PASSED_MIN} tests pass"));
    }
    Ok(())
}

fn sum(outcomes: &BTreeMap<String, Outcome>, of: impl Fn(&Outcome) -> usize) -> usize {
    outcomes.values().map(of).sum()
}

/// Reports the numbers of tests by outcome. The "real pair" in the figures is the real kube-apiserver and
/// etcd. A test that passes only with the real pair is a problem, unless `differences` lists it with a
/// reason. A listed test that passes is a problem, too.
fn compare(
    outcomes: &BTreeMap<String, Outcome>,
    recorded: &Recorded,
    differences: &[Difference],
    report: &mut Report,
) {
    let mut used = vec![false; differences.len()];
    for (package, outcome) in outcomes {
        let real = recorded.0.get(package).cloned().unwrap_or_default();
        report.figure(format!("{package}: passed"), outcome.passed.len() as f64);
        report.figure(format!("{package}: passed, real pair"), real.passed.len() as f64);
        for test in real.passed.iter().filter(|test| !outcome.passed.contains(*test)) {
            let known = differences.iter().position(|known| {
                known.package == *package && test.contains(&known.test) && !known.reason.is_empty()
            });
            match known {
                Some(index) => used[index] = true,
                None => report.problems.push(format!("{package}: {test}: {}", outcome.why(test))),
            }
        }
    }
    let ran = |known: &Difference| outcomes.contains_key(&known.package);
    for (known, _) in differences.iter().zip(used).filter(|(known, used)| ran(known) && !used) {
        report
            .problems
            .push(format!("{}: {} passes now; remove it from differences.json", known.package, known.test));
    }
    let failed = sum(outcomes, |outcome| outcome.failed.len());
    report.figure("passed", sum(outcomes, |outcome| outcome.passed.len()) as f64);
    report.figure("failed", failed as f64);
    report.figure("skipped", sum(outcomes, |outcome| outcome.skipped) as f64);
    report.figure("passed, real pair", sum(&recorded.0, |outcome| outcome.passed.len()) as f64);
    report.figure("failed, real pair", sum(&recorded.0, |outcome| outcome.failed.len()) as f64);
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, EnvtestError> {
    let text = fs::read(path).map_err(io_error(format!("read {}", path.display())))?;
    serde_json::from_slice(&text).map_err(|source| EnvtestError::Data { path: path.to_owned(), source })
}

#[derive(Debug)]
struct Assets {
    programs: PathBuf,
    data: PathBuf,
}

fn assets(root: &Path, server: Kind) -> Result<Assets, EnvtestError> {
    let go = Go::find(root)?;
    let kubectl = go.build(Module::Servers, "kubectl")?;
    // The real kube-apiserver and etcd get a separate data folder without downloads. The other data folder
    // contains the programs of `informer envtest install` as a downloaded version, and tests that request
    // this version would run against them.
    let data = target(root).join(if server == Kind::Real { "envtest-data-real" } else { "envtest-data" });
    let programs = match server {
        Kind::Real => {
            for program in ["etcd", "kube-apiserver"] {
                go.build(Module::Servers, program)?;
            }
            kubectl.parent().map(Path::to_owned).unwrap_or_default()
        }
        Kind::Embedded => {
            let mut build = crate::cargo::command();
            build.current_dir(root).args(["build", "--quiet", "--package", "informer-cli"]);
            succeed("cargo build", &mut build)?;
            let programs = target(root).join("envtest");
            let downloaded = data.join("kubebuilder-envtest/k8s").join(DOWNLOADED);
            for folder in [&programs, &downloaded] {
                let mut install = Command::new(target(root).join("debug/informer"));
                install.args(["envtest", "install"]).arg(folder).arg("--kubectl").arg(&kubectl);
                succeed("informer envtest install", install.stdout(Stdio::null()))?;
            }
            programs
        }
    };
    Ok(Assets { programs, data })
}

fn succeed(name: &'static str, command: &mut Command) -> Result<(), EnvtestError> {
    let status = command.status().map_err(io_error(format!("run {name}")))?;
    if status.success() { Ok(()) } else { Err(EnvtestError::Failed { command: name }) }
}

impl Assets {
    /// Stops the processes of kube-apiserver and etcd that a test has started and not stopped.
    fn sweep(&self) {
        for process in
            ["kube-apiserver", "etcd"].iter().flat_map(|name| Process::all_of(&self.programs.join(name)))
        {
            if let Err(error) = process.stop() {
                eprintln!("a server that a test left running cannot be stopped: {error}");
            }
        }
    }
}
