//! The suite programs: runs programs that use client-go, controller-runtime and kube-rs against the embedded
//! or a real server. A program does not know which server it uses. It performs typical operations and reports
//! the outcome of each step.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::Conformance;
use super::served::{For, Running, with_administrator};
use crate::cargo::cargo;
use crate::deadline::Deadline;
use crate::go::{Go, Module, target};
use crate::real::last_lines;
use crate::report::Report;

/// Time limit of a program. Each wait inside a program has a shorter limit. The sum of these limits may
/// exceed the time limit of the program, but not all waits reach their limits.
const PROGRAM_WAIT: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize)]
struct Verdict {
    steps: Vec<Step>,
    figures: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
struct Step {
    name: String,
    failure: Option<String>,
    seconds: f64,
}

pub(super) fn run(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance programs");
    let part = options.scenario.as_deref().unwrap_or_default();
    let outcome = build(root, part).and_then(|programs| {
        let asking = For { name: "programs", flags: &[] };
        with_administrator(root, options, asking, &mut report, |config, report| {
            for (name, program) in &programs {
                match verdict(name, program, config) {
                    Ok(verdict) => tell(name, &verdict, report),
                    Err(why) => report.problems.push(format!("{name}: {why}")),
                }
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

/// Builds the test programs whose names contain `part`. Returns the name and the path of each.
fn build(root: &Path, part: &str) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let mut programs = Vec::new();
    let go = Go::find(root).map_err(|error| error.to_string())?;
    eprintln!("building the programs (minutes for the first time, seconds after that)");
    for (name, command) in [("client-go", "program-client-go"), ("controller-runtime", "program-manager")] {
        if name.contains(part) {
            programs.push((name, go.build(Module::Peers, command).map_err(|error| error.to_string())?));
        }
    }
    if "kube-rs".contains(part) {
        // The kube-rs programs get a separate build folder, because their workspace uses the same
        // dependencies as this workspace, but with other features.
        let folder = target(root).join("kube-rs");
        let manifest = "conformance/kube-rs/Cargo.toml";
        let build = ["build", "--quiet", "--locked", "--manifest-path", manifest, "--bin", "kube-rs-program"];
        cargo(root, &build, Some(&folder))?;
        programs.push(("kube-rs", folder.join("debug/kube-rs-program")));
    }
    if programs.is_empty() { Err(format!("no program has {part:?} in its name")) } else { Ok(programs) }
}

fn verdict(name: &str, program: &Path, config: &Path) -> Result<Verdict, String> {
    let beside = |what: &str| config.with_file_name(format!("{name}.{what}"));
    let (printed, log) = (beside("json"), beside("log"));
    let create =
        |path: &Path| File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()));
    let mut command = Command::new(program);
    command.arg(config).stdin(Stdio::null()).stdout(create(&printed)?).stderr(create(&log)?);
    let mut running = Running(command.spawn().map_err(|error| format!("cannot start it: {error}"))?);
    let ended = Deadline::after(PROGRAM_WAIT).poll(|| running.0.try_wait().ok().flatten());
    let status = ended.ok_or_else(|| format!("did not exit within {PROGRAM_WAIT:?}"))?;
    let text = fs::read_to_string(&printed).unwrap_or_default();
    serde_json::from_str(&text)
        .map_err(|error| format!("{status}, and no verdict ({error}):\n{}", last_lines(&log, 5)))
}

fn tell(name: &str, verdict: &Verdict, report: &mut Report) {
    report.figure(format!("{name}: steps"), verdict.steps.len() as f64);
    report.figure(format!("{name}: took, s"), verdict.steps.iter().map(|step| step.seconds).sum());
    for (figure, value) in verdict.figures.iter().flatten() {
        report.figure(format!("{name}: {figure}"), *value);
    }
    if verdict.steps.is_empty() {
        report.problems.push(format!("{name} ran no step"));
    }
    for step in &verdict.steps {
        if let Some(failure) = &step.failure {
            report.problems.push(format!("{name}: {}: {failure}", step.name));
        }
    }
}
