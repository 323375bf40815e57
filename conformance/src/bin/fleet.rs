//! Runs informers of several client libraries on one server, and compares their views with the server's
//! state.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use informer_conformance::fleet::{Outcome, Plan, fleet};
use informer_conformance::{Embedded, Failure, Real, Server};

/// Runs informers of several client libraries on one server, and compares their caches with the server's
/// state.
#[derive(Debug, Parser)]
struct Arguments {
    /// The directory of a real server (`cargo xtask real up --dir`). Without it, the embedded server is used.
    #[arg(long, value_name = "FOLDER", requires = "xtask")]
    real: Option<PathBuf>,
    /// The `xtask` program, which starts and stops the real server.
    #[arg(long, value_name = "PROGRAM")]
    xtask: Option<PathBuf>,
    /// A program with an informer of a client library, as `NAME=PROGRAM`.
    #[arg(long, value_name = "PEER", required = true)]
    peer: Vec<String>,
    /// Number of objects that exist before the changes start.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Minimum time during which objects are changed, in seconds. Each object is changed at least once.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Write the result as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(outcome) if outcome.peers.iter().all(|peer| peer.differences.is_empty()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run the mixed clients: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let server = match (&arguments.real, &arguments.xtask) {
        (Some(folder), Some(xtask)) => Server::Real(Real::new(folder, xtask)?),
        _ => Server::Embedded(Embedded::new().await?),
    };
    let peers = arguments.peer.iter().map(|peer| {
        let (name, program) =
            peer.split_once('=').ok_or_else(|| format!("invalid --peer {peer}: write NAME=PROGRAM"))?;
        Ok::<_, Failure>((name.to_owned(), PathBuf::from(program)))
    });
    let plan = Plan {
        objects: arguments.objects,
        time: Duration::from_secs(arguments.seconds),
        peers: peers.collect::<Result<_, _>>()?,
    };
    let outcome = fleet(Arc::new(server), &plan).await?;
    std::fs::write(&arguments.json, serde_json::to_vec_pretty(&outcome)?)?;
    Ok(outcome)
}
