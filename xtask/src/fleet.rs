//! `cargo xtask fleet`: runs informers of client-go, kube-rs and this library on one server, and compares
//! their caches.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::Deserialize;

use crate::cargo::{Executable, build, cargo};
use crate::conformance::{Kind, with_server};
use crate::go::{Go, Module, target};
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Fleet {
    /// The server to run against. A real server is started for the test and stopped afterwards.
    #[arg(long, value_enum)]
    server: Kind,
    /// Number of objects on the server before the test changes objects.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Minimum time in seconds during which objects change and connections are broken. Each object changes at
    /// least once, even if that takes longer.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    objects: f64,
    churned: Churned,
    created_seconds: f64,
    peers: Vec<Peer>,
}

#[derive(Debug, Deserialize)]
struct Churned {
    updates: f64,
    deletes: f64,
    creates: f64,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Peer {
    name: String,
    cuts: f64,
    connections: f64,
    equal_after_seconds: Option<f64>,
    differences: Vec<String>,
}

pub(crate) fn run(root: &Path, options: &Fleet) -> Report {
    let mut report = Report::new("fleet");
    let outcome = peers(root).and_then(|peers| match options.server {
        Kind::Embedded => fleet(root, options, &peers, None, &mut report),
        Kind::Real => with_server(root, "fleet-real", &mut report, |folder, report| {
            fleet(root, options, &peers, Some(folder), report)
        }),
    });
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

fn peers(root: &Path) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let go = Go::find(root).map_err(|error| error.to_string())?;
    eprintln!("building the peers (minutes for the first time, seconds after that)");
    let client_go = go.build(Module::Peers, "fleet").map_err(|error| error.to_string())?;
    // docs/side-by-side.md quotes programs, which must compile. The Go program `website` is therefore built,
    // although this command does not run it. Its kube-rs counterpart is built with all other programs of
    // `conformance/kube-rs`.
    go.build(Module::Peers, "website").map_err(|error| error.to_string())?;
    let selection = &["--bins"];
    let peer = Executable { package: "informer-conformance", selection, release: false, path: "fleet-peer" };
    let peer = build(root, peer)?;
    // The kube-rs programs get a separate build folder, because their workspace uses the same dependencies as
    // this workspace, but with other features.
    let folder = target(root).join("kube-rs");
    let manifest = ["build", "--quiet", "--locked", "--manifest-path", "conformance/kube-rs/Cargo.toml"];
    cargo(root, &manifest, Some(&folder))?;
    Ok(vec![("client-go", client_go), ("kube-rs", folder.join("debug/kube-rs-peer")), ("informer", peer)])
}

fn fleet(
    root: &Path,
    options: &Fleet,
    peers: &[(&'static str, PathBuf)],
    real: Option<&Path>,
    report: &mut Report,
) -> Result<(), String> {
    let path = target(root).join("fleet.json");
    let _ = std::fs::remove_file(&path);
    let mut command = Command::new(target(root).join("debug/fleet"));
    command.arg("--json").arg(&path);
    command.args(["--objects", &options.objects.to_string(), "--seconds", &options.seconds.to_string()]);
    for (name, program) in peers {
        command.arg("--peer").arg(format!("{name}={}", program.display()));
    }
    if let Some(folder) = real {
        let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        command.arg("--real").arg(folder).arg("--xtask").arg(xtask);
    }
    let status = command.status().map_err(|error| format!("cannot run the mixed clients: {error}"))?;
    let text = std::fs::read(&path).map_err(|_| format!("the mixed clients wrote no outcome ({status})"))?;
    let outcome: Outcome = serde_json::from_slice(&text)
        .map_err(|error| format!("cannot read the outcome of the mixed clients: {error}"))?;
    tell(&outcome, report);
    if !status.success() && report.passed() {
        return Err(format!("the mixed clients ended with {status}"));
    }
    Ok(())
}

fn tell(outcome: &Outcome, report: &mut Report) {
    report.figure("objects created, s", outcome.created_seconds);
    report.figure("objects at the end", outcome.objects);
    report.figure("updates", outcome.churned.updates);
    report.figure("deletes", outcome.churned.deletes);
    report.figure("creates", outcome.churned.creates);
    report.figure("changed for, s", outcome.churned.seconds);
    for peer in &outcome.peers {
        let name = &peer.name;
        report.figure(format!("{name}: cuts"), peer.cuts);
        report.figure(format!("{name}: connections"), peer.connections);
        if let Some(seconds) = peer.equal_after_seconds {
            report.figure(format!("{name}: asked until equal, s"), seconds);
        }
        let differences = peer.differences.iter();
        report.problems.extend(differences.map(|difference| format!("{name}: {difference}")));
    }
}
