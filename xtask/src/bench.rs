//! Our programs and those of the peers, measured in turn in the same run.

mod peers;
mod workqueue;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::report::Report;

/// What to measure, and how often.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
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
        BenchCommand::Workqueue => workqueue::run(root, usize::from(bench.runs)),
    }
}
