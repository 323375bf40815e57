//! The suite apiserver: runs `informer-differential`, which compares the responses of the embedded or of a
//! real API server with recorded ones.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::{Conformance, Kind};
use crate::cargo::{Executable, build, program};
use crate::go::{Go, GoError, Module, target};
use crate::report::Report;

#[derive(Debug, Deserialize)]
struct Figures {
    scenarios: u32,
    responses: u32,
    known: u32,
    unknown: Vec<String>,
}

#[derive(Debug, Error)]
enum RunError {
    #[error(transparent)]
    Go(#[from] GoError),
    #[error("cannot build the runner: {0}")]
    Build(String),
    #[error("cannot run the runner, or read its output: {0}")]
    Io(#[from] std::io::Error),
    #[error("the runner failed; see the messages above")]
    Failed,
    #[error("the runner wrote no figures: {0}")]
    Figures(#[from] serde_json::Error),
}

pub(super) fn run(root: &Path, arguments: &Conformance) -> Report {
    let mut report = Report::new("conformance apiserver");
    match figures(root, arguments) {
        Ok(figures) => tell(figures, &mut report),
        Err(error) => report.problems.push(error.to_string()),
    }
    report
}

fn tell(figures: Figures, report: &mut Report) {
    report.figure("scenarios", figures.scenarios.into());
    report.figure("responses compared", figures.responses.into());
    report.figure("known differences met", figures.known.into());
    report.problems = figures.unknown;
    if figures.responses == 0 {
        report.problems.push("no response was compared".to_owned());
    }
}

fn figures(root: &Path, arguments: &Conformance) -> Result<Figures, RunError> {
    let json = target(root).join("differential.json");
    let name = "informer-differential";
    let differential = Executable { package: name, selection: &[], release: false, path: name };
    let mut command = program(build(root, differential).map_err(RunError::Build)?);
    command
        .current_dir(root)
        .arg("--json")
        .arg(&json)
        .args(["--scenario", arguments.scenario.as_deref().unwrap_or("")]);
    if arguments.server == Kind::Real {
        command.args(["--server", "real", "--programs"]).arg(programs(root)?);
    }
    if arguments.record {
        command.arg("--record");
    }
    // If the program fails before it writes its output file, the file of an earlier run must not be read
    // instead.
    let _ = std::fs::remove_file(&json);
    let status = command.status()?;
    // The program `informer-differential` exits with status 1 if responses differ from the recorded ones.
    // This is no error: its output file lists the differences, which are reported.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(RunError::Failed);
    }
    Ok(serde_json::from_slice(&std::fs::read(json)?)?)
}

/// Returns the folder with the programs etcd and kube-apiserver. If one of them is missing, both are built,
/// which needs Go.
pub(super) fn programs(root: &Path) -> Result<PathBuf, GoError> {
    let folder = target(root).join("go");
    if !["etcd", "kube-apiserver"].iter().all(|program| folder.join(program).exists()) {
        let go = Go::find(root)?;
        for program in ["etcd", "kube-apiserver"] {
            go.build(Module::Servers, program)?;
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_problem_if_no_response_is_compared() {
        let problems = |responses, unknown: &[&str]| {
            let unknown = unknown.iter().map(|&one| one.to_owned()).collect();
            let mut report = Report::new("conformance apiserver");
            tell(Figures { scenarios: 1, responses, known: 0, unknown }, &mut report);
            report.problems
        };
        assert_eq!(problems(3, &[]), [""; 0]);
        assert_eq!(problems(3, &["lists at 2"]), ["lists at 2"]);
        assert_eq!(problems(0, &[]), ["no response was compared"]);
    }
}
