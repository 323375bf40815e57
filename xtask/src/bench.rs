//! Benchmarks: programs of this library and of its peers, run in turn.

mod apiserver;
mod build;
mod informers;
mod peers;
mod plot;
mod runtime;
mod workqueue;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::report::Report;
use peers::Turns;

/// Options of `cargo xtask bench`. Without a subcommand it measures informers.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    informers: informers::Informers,
    #[command(flatten)]
    turns: Turns,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure controllers next to controller-runtime and kube-rs, the start of a manager, and caches by
    /// object representation.
    Runtime,
    /// Measure the work queue next to those of client-go and controller-runtime.
    Workqueue,
    /// Measure informers next to client-go's and kube-rs's reflector. This is the default.
    Informers(informers::Informers),
    /// Measure how the cost of an informer grows with the number of objects.
    Curve(informers::Curve),
    /// Measure two informers of each kind in one process, with 1, 2, 5 and 10 kinds.
    Kinds(informers::Kinds),
    /// Measure the embedded API server next to a real kube-apiserver with etcd. Needs Go, unless `--alone` is
    /// set.
    Apiserver(apiserver::Apiserver),
    /// Measure build times next to a controller of kube-rs: from a cold cache, and after a change of one
    /// line.
    Build(build::Build),
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Report {
    match &bench.command {
        Some(BenchCommand::Runtime) => runtime::run(root, bench.turns),
        Some(BenchCommand::Workqueue) => workqueue::run(root, bench.turns),
        Some(BenchCommand::Informers(options)) => informers::run(root, options, bench.turns),
        Some(BenchCommand::Curve(options)) => informers::curve(root, options, bench.turns),
        Some(BenchCommand::Kinds(options)) => informers::kinds(root, options, bench.turns),
        Some(BenchCommand::Apiserver(options)) => apiserver::run(root, options, bench.turns),
        Some(BenchCommand::Build(options)) => build::run(root, options),
        None => informers::run(root, &bench.informers, bench.turns),
    }
}
