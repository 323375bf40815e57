//! Our programs and those of the peers, measured in turn in the same run.

mod informers;
mod peers;
mod plot;
mod workqueue;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::report::Report;

/// What to measure, and how often: informers, unless told otherwise.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    informers: informers::Informers,
    /// How often each program runs; figures are medians.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// The work queue, beside those of client-go and controller-runtime.
    Workqueue,
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Report {
    match bench.command {
        Some(BenchCommand::Workqueue) => workqueue::run(root, usize::from(bench.runs)),
        None => informers::run(root, &bench.informers, usize::from(bench.runs)),
    }
}
