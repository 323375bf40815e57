//! Our programs and those of the peers, measured in turn in the same run.

mod apiserver;
mod informers;
mod peers;
mod plot;
mod runtime;
mod workqueue;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::report::Report;
use peers::Turns;

/// What to measure, and how often: informers, unless told otherwise.
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
    /// Controllers, beside those of controller-runtime and kube-rs; the start of a manager; the forms of a
    /// cache.
    Runtime,
    /// The work queue, beside those of client-go and controller-runtime.
    Workqueue,
    /// Informers beside client-go's and kube-rs's reflector: what is measured where nothing is named.
    Informers(informers::Informers),
    /// What an informer costs, against the number of its objects.
    Curve(informers::Curve),
    /// Two informers of each of ten kinds, in one process.
    Kinds(informers::Kinds),
    /// The embedded API server, beside a real kube-apiserver with its etcd. Needs Go, or `--alone`.
    Apiserver(apiserver::Apiserver),
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Report {
    match &bench.command {
        Some(BenchCommand::Runtime) => runtime::run(root, bench.turns),
        Some(BenchCommand::Workqueue) => workqueue::run(root, bench.turns),
        Some(BenchCommand::Informers(options)) => informers::run(root, options, bench.turns),
        Some(BenchCommand::Curve(options)) => informers::curve(root, options, bench.turns),
        Some(BenchCommand::Kinds(options)) => informers::kinds(root, options, bench.turns),
        Some(BenchCommand::Apiserver(options)) => apiserver::run(root, options, bench.turns),
        None => informers::run(root, &bench.informers, bench.turns),
    }
}
