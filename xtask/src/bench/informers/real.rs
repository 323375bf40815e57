//! The benchmarks of informers on a real kube-apiserver. The speed of the server limits the figures: no
//! client can sync faster than the server sends objects.

use std::path::Path;

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
    if turns.is_realtime() {
        // With real-time priority, kube-apiserver and etcd were observed to block each other. One of them
        // spins while it waits for the other one, and occupies the core that the other one needs.
        return Err("a real server cannot run with real-time priority; remove --realtime".to_owned());
    }
    let told = |error: crate::bench::peers::BenchError| error.to_string();
    let built = Built::build(root, &options.peers).map_err(told)?;
    let cluster = Cluster::open(folder).map_err(|error| crate::real::told(&error))?;
    let pids: Vec<_> = cluster.servers.iter().map(|started| started.process.pid).collect();
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    eprintln!("creating {} objects on a real server (takes minutes unless they exist)", options.objects);
    let (objects, kind) = (options.objects.to_string(), word(options.kind));
    let words = ["--objects", &objects, "--kind", &kind, "--pids", &list];
    let server = Server::remote(&built.ours, &folder.join("admin.conf"), &words).map_err(told)?;
    let programs = lineup(&built, &server, options).everybody();
    let samples = in_turn(&programs, turns);
    let targets = targets::real(options.kind);
    tell(&programs, samples.map_err(told)?, options, &targets, (turns, report)).map_err(told)
}
