//! The same on a real kube-apiserver: what its own delivery takes is the floor.

use std::path::Path;
use std::process::{Command, Stdio};

use super::programs::Built;
use super::server::Server;
use super::{Informers, lineup, targets, tell, word};
use crate::bench::peers::{Turns, in_turn};
use crate::conformance::with_server;
use crate::real::Cluster;
use crate::report::Report;

pub(super) fn run(root: &Path, options: &Informers, turns: Turns, report: &mut Report) -> Result<(), String> {
    match &options.dir {
        Some(folder) => measure(root, folder, options, (turns, report)),
        None => with_server(root, "bench-real", report, |folder, report| {
            measure(root, folder, options, (turns, report))
        }),
    }
}

fn measure(
    root: &Path,
    folder: &Path,
    options: &Informers,
    (turns, report): (Turns, &mut Report),
) -> Result<(), String> {
    let told = |error: crate::bench::peers::BenchError| error.to_string();
    let built = Built::build(root, &options.peers).map_err(told)?;
    let cluster = Cluster::open(folder).map_err(|error| crate::real::told(&error))?;
    let pids: Vec<_> = cluster.servers.iter().map(|started| started.process.pid).collect();
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    eprintln!("{} objects on a real server, which takes minutes unless they are there", options.objects);
    let (objects, kind) = (options.objects.to_string(), word(options.kind));
    let words = ["--objects", &objects, "--kind", &kind, "--pids", &list];
    let server = Server::remote(&built.ours, &folder.join("admin.conf"), &words).map_err(told)?;
    let programs = lineup(&built, &server, options).everybody();
    let all = [pids, vec![server.pid()]].concat();
    if turns.is_realtime() {
        all.iter().for_each(|&pid| prioritise(pid, "-f", "10"));
    }
    let samples = in_turn(&programs, turns);
    if turns.is_realtime() {
        all.iter().for_each(|&pid| prioritise(pid, "-o", "0"));
    }
    let targets = targets::real(options.kind);
    tell(&programs, samples.map_err(told)?, options, &targets, (turns, report)).map_err(told)
}

/// Gives all threads of a process that runs another priority; those that it starts later have it, too.
fn prioritise(pid: u32, policy: &str, priority: &str) {
    let pid = pid.to_string();
    let mut command = Command::new("chrt");
    let done = command.args(["-a", policy, "-p", priority, &pid]).stderr(Stdio::null()).status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("process {pid} has the priority that it had");
    }
}
