//! Runs a chaos test of one program with informers, with real faults of the server's processes and of
//! connections.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use informer_conformance::ordeal::{Outcome, Plan, ordeal};
use informer_conformance::{Failure, Real, Server, Spawned};

/// Runs a chaos test of a program with informers, with real faults.
#[derive(Debug, Parser)]
struct Arguments {
    /// The directory of a real server (`cargo xtask real up --dir`).
    #[arg(long, value_name = "FOLDER", requires = "xtask", conflicts_with = "command")]
    real: Option<PathBuf>,
    /// The `xtask` program, which starts and stops the real server.
    #[arg(long, value_name = "PROGRAM")]
    xtask: Option<PathBuf>,
    /// The `informer` command, whose `serve` is used as the server if no real server is given.
    #[arg(long, value_name = "PROGRAM", required_unless_present = "real")]
    command: Option<PathBuf>,
    /// The program with the informers to test.
    #[arg(long, value_name = "PROGRAM")]
    peer: PathBuf,
    /// Number of objects before the first fault.
    #[arg(long, default_value_t = 2000)]
    objects: usize,
    /// Minimum duration of the part with faults, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed for the order of the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of connections to cut while no object changes.
    #[arg(long, default_value_t = 1000)]
    reconnects: u64,
    /// Number of informers whose connections are cut while no object changes.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    informers: u64,
    /// Write the result as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(outcome) if outcome.problems.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run the chaos test: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<Outcome, Failure> {
    let server = match (&arguments.real, &arguments.xtask, &arguments.command) {
        (Some(folder), Some(xtask), _) => Server::Real(Real::new(folder, xtask)?),
        (_, _, Some(command)) => Server::Spawned(Spawned::new(command).await?),
        _ => return Err("neither --real nor --command is given".into()),
    };
    let plan = Plan {
        objects: arguments.objects.max(1),
        time: Duration::from_secs(arguments.seconds),
        seed: arguments.seed,
        reconnects: arguments.reconnects,
        informers: arguments.informers,
        peer: arguments.peer,
    };
    let outcome = ordeal(Arc::new(server), &plan).await?;
    std::fs::write(&arguments.json, serde_json::to_vec_pretty(&outcome)?)?;
    Ok(outcome)
}
