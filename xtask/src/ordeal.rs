//! Chaos test: runs a program with informers against servers and connections that fail, in real time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clap::Args;
use serde::Deserialize;

use crate::cargo::command;
use crate::conformance::{Kind, with_server};
use crate::go::target;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Ordeal {
    /// The server to run against: a process of `informer serve`, or a real server, which is started for the
    /// test and stopped afterwards.
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    server: Kind,
    /// Number of objects on the server before the first fault.
    #[arg(long, default_value_t = 2000)]
    objects: usize,
    /// Minimum time in seconds during which faults are injected. Each fault happens at least once, even if
    /// that takes longer.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the random order of the faults, and of the changes to objects.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of connections to break after the last fault, while no object changes. The memory, tasks and
    /// file descriptors of the tested program are reported before and after; growth is a problem.
    #[arg(long, default_value_t = 1000)]
    reconnects: u64,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    faults: BTreeMap<String, Suffered>,
    changes: f64,
    connections: f64,
    reconnects: Reconnects,
    problems: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Suffered {
    times: f64,
    recovered_after: f64,
}

#[derive(Debug, Deserialize)]
struct Reconnects {
    connections: f64,
    footprint: Option<Flat>,
}

#[derive(Debug, Deserialize)]
struct Flat {
    before: Footprint,
    after: Footprint,
}

#[derive(Debug, Deserialize)]
struct Footprint {
    descriptors: f64,
    tasks: f64,
    resident: f64,
}

pub(crate) fn run(root: &Path, options: &Ordeal) -> Report {
    let mut report = Report::new("ordeal");
    let outcome = build(root).and_then(|()| match options.server {
        Kind::Embedded => ordeal(root, options, None, &mut report),
        Kind::Real => with_server(root, "ordeal-real", &mut report, |folder, report| {
            ordeal(root, options, Some(folder), report)
        }),
    });
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

fn build(root: &Path) -> Result<(), String> {
    let mut command = command();
    command.current_dir(root).args(["build", "--quiet", "--bins"]);
    command.args(["--package", "informer-conformance", "--package", "informer-cli"]);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("cannot build the programs of the chaos test; see the messages above".to_owned())
    }
}

fn ordeal(root: &Path, options: &Ordeal, real: Option<&Path>, report: &mut Report) -> Result<(), String> {
    let path = target(root).join("ordeal.json");
    let _ = std::fs::remove_file(&path);
    let programs = target(root).join("debug");
    let mut command = Command::new(programs.join("ordeal"));
    command.arg("--json").arg(&path).arg("--peer").arg(programs.join("fleet-peer"));
    command.args(["--objects", &options.objects.to_string(), "--seconds", &options.seconds.to_string()]);
    command.args(["--seed", &options.seed.to_string(), "--reconnects", &options.reconnects.to_string()]);
    match real {
        Some(folder) => {
            let xtask =
                std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
            command.arg("--real").arg(folder).arg("--xtask").arg(xtask);
        }
        None => {
            command.arg("--command").arg(programs.join("informer"));
        }
    }
    let status = command.status().map_err(|error| format!("cannot run the chaos test: {error}"))?;
    let text = std::fs::read(&path).map_err(|_| format!("the chaos test wrote no outcome ({status})"))?;
    let outcome: Outcome = serde_json::from_slice(&text)
        .map_err(|error| format!("cannot read the outcome of the chaos test: {error}"))?;
    tell(&outcome, report);
    if !status.success() && report.passed() {
        return Err(format!("the chaos test ended with {status}"));
    }
    Ok(())
}

fn tell(outcome: &Outcome, report: &mut Report) {
    for (name, fault) in &outcome.faults {
        report.figure(format!("{name}: times"), fault.times);
        report.figure(format!("{name}: equal again after, s"), fault.recovered_after);
    }
    report.figure("changes", outcome.changes);
    report.figure("connections", outcome.connections);
    report.figure("reconnects while nothing changed", outcome.reconnects.connections);
    if let Some(Flat { before, after }) = &outcome.reconnects.footprint {
        for (name, before, after) in [
            ("descriptors", before.descriptors, after.descriptors),
            ("tasks", before.tasks, after.tasks),
            ("resident, KiB", before.resident, after.resident),
        ] {
            report.figure(format!("{name}: before"), before);
            report.figure(format!("{name}: after"), after);
        }
    }
    report.problems.extend(outcome.problems.iter().cloned());
}
