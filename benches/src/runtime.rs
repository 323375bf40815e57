//! Measures managers, controllers and caches once in each case. Prints one line of JSON: `{"CASE": FIGURE}`.
//!
//! `runtime-bench` measures controllers. `conformance/go/peers/cmd/runtime-bench` does the same with
//! controller-runtime, and `conformance/kube-rs/src/bin/runtime-bench.rs` with kube-rs. Metrics and spans are
//! enabled. The controller cases need no server: requests and triggers come from the same process, so only
//! the path from a source to the reconciler is measured. `runtime-bench caches` measures the representations
//! of a cache on the server of `informer-bench serve`, and `runtime-bench secrets` a cache with the bodies of
//! few objects. The other cases use an embedded API server in the same process. `cargo xtask bench runtime`
//! runs all of these programs in turn.

#[path = "runtime/caches.rs"]
mod caches;
#[path = "runtime/controllers.rs"]
mod controllers;
#[path = "runtime/hung.rs"]
mod hung;
#[path = "runtime/secrets.rs"]
mod secrets;
#[path = "runtime/start.rs"]
mod start;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::{Map, Value};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Figures = Map<String, Value>;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures the memory of a cache of pods in one or more representations.
    Caches(caches::Caches),
    /// Measures the memory of a cache of Secrets of which the program refers to few.
    Secrets(secrets::Secrets),
}

fn main() -> ExitCode {
    // Spans are created and formatted as in a program that logs, but the output is discarded.
    tracing_subscriber::fmt().with_writer(std::io::sink).init();
    let command = Arguments::parse().command;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let measured = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(measure(command)));
    match measured {
        Ok(figures) => {
            println!("{}", Value::from(figures));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(command: Option<Command>) -> Result<Figures, Failure> {
    // The command runs in a task, as in real programs, because the thread that blocks on the runtime wakes
    // more slowly.
    match command {
        Some(Command::Caches(caches)) => tokio::spawn(caches::measure(caches)).await?,
        Some(Command::Secrets(secrets)) => tokio::spawn(secrets::measure(secrets)).await?,
        None => {
            let mut figures = tokio::spawn(controllers::measure()).await??;
            figures.extend(tokio::spawn(start::measure()).await??);
            figures.extend(tokio::spawn(hung::measure()).await??);
            Ok(figures)
        }
    }
}
