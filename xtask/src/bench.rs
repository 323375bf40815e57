//! Benchmarks: runs programs of this library, of client-go, controller-runtime and kube-rs, and a real
//! kube-apiserver in turn, and compares their figures.

mod apiserver;
mod build;
mod console;
mod informers;
mod instructions;
mod peers;
mod runtime;
mod sections;
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
    /// Measure controllers, and compare them with those of controller-runtime and kube-rs. Also measure the
    /// start of a manager, and the memory of caches by object representation. Without Go, controller-runtime
    /// is skipped.
    Runtime,
    /// Measure the work queue, and compare it with those of client-go and controller-runtime. Without Go,
    /// both are skipped.
    Workqueue,
    /// Measure informers, and compare them with those of client-go and with kube-rs's reflector. Without Go,
    /// client-go is skipped. This is the default subcommand.
    Informers(informers::Informers),
    /// Measure how the time of an informer's initial sync grows with the number of objects, on the embedded
    /// API server.
    Curve(informers::Curve),
    /// Measure the initial sync of 1, 2, 5 and 10 kinds in one process, on the embedded API server. Each kind
    /// has two informers: one of whole objects, one of metadata.
    Kinds(informers::Kinds),
    /// Measure the initial sync in each representation with the allocator of the system, mimalloc and
    /// jemalloc, on the embedded API server.
    Allocators(informers::Allocators),
    /// Measure 1,000 informers of small kinds in one process: the memory of each, and the processor time and
    /// wake-ups while nothing changes.
    Idle(informers::Idle),
    /// Measure an informer of 100,000 pods with 10,000 changes a second: delays, pauses, and whether the
    /// memory grows. A run takes ten minutes.
    Churn(informers::Churn),
    /// Measure the processor time that the console adds to a program with 10,000 events a second: unread, and
    /// read by one page.
    Console,
    /// Measure the embedded API server, and compare it with a real kube-apiserver with etcd. Needs Go, unless
    /// `--alone` is set.
    Apiserver(apiserver::Apiserver),
    /// Count the CPU instructions of fixed workloads, and compare them with `benches/instructions.json`. With
    /// `--check`, a difference of over 2 % fails. Needs valgrind.
    Instructions(instructions::Instructions),
    /// Measure build times: of a controller from a cold cache, compared with a controller on kube-rs, of the
    /// `informer` command, and of this workspace after a change of one line.
    Build(build::Build),
}

pub(crate) fn run(root: &Path, bench: &Bench) -> Report {
    match &bench.command {
        Some(BenchCommand::Runtime) => runtime::run(root, bench.turns),
        Some(BenchCommand::Workqueue) => workqueue::run(root, bench.turns),
        Some(BenchCommand::Informers(options)) => informers::run(root, options, bench.turns),
        Some(BenchCommand::Curve(options)) => informers::curve(root, options, bench.turns),
        Some(BenchCommand::Kinds(options)) => informers::kinds(root, options, bench.turns),
        Some(BenchCommand::Allocators(options)) => informers::allocators(root, options, bench.turns),
        Some(BenchCommand::Idle(options)) => informers::idle(root, options, bench.turns),
        Some(BenchCommand::Churn(options)) => informers::churn(root, options, bench.turns),
        Some(BenchCommand::Console) => console::run(root, bench.turns),
        Some(BenchCommand::Apiserver(options)) => apiserver::run(root, options, bench.turns),
        Some(BenchCommand::Instructions(options)) => instructions::run(root, options, bench.turns),
        Some(BenchCommand::Build(options)) => build::run(root, options, bench.turns),
        None => informers::run(root, &bench.informers, bench.turns),
    }
}
