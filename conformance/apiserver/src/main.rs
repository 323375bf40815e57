//! `informer-differential`: runs the scenarios on the embedded or the real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use informer_differential::{MAX_RUNS, Outcome, RealServer, Suite, Target, attach, compare_validation};
use serde_json::json;

/// Runs the scenarios on a server, and compares its responses with those recorded from the real one.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server on which the scenarios run.
    #[arg(long, value_enum, default_value_t = Server::Embedded)]
    server: Server,
    /// The folder with the programs etcd and kube-apiserver.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// The port of a real server that is already running with this package's users.
    #[arg(long, requires = "certificate")]
    port: Option<u16>,
    /// The certificate of the real server that is already running.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Store the responses of the real server as the new recording; with --validation only those to objects
    /// for which the servers agree.
    #[arg(long)]
    record: bool,
    /// Run only scenarios whose name contains this string.
    #[arg(long, value_name = "TEXT", default_value = "")]
    scenario: String,
    /// Instead of scenarios: compare the validation of this number of generated objects per kind on the
    /// embedded and the real server.
    #[arg(long, value_name = "COUNT")]
    validation: Option<u64>,
    /// The seed of the first generated object.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Write statistics and problems as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Server {
    Embedded,
    Real,
}

/// The maximum number of scenarios that run on the real server at the same time. They use different
/// namespaces, and mostly wait for the server to publish CRDs.
const PARALLEL: usize = 6;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&*error);
            while let Some(error) = cause {
                eprintln!("{error}");
                cause = error.source();
            }
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    if let Some(count) = arguments.validation {
        let programs = arguments.programs.as_deref().ok_or("--validation needs --programs DIR")?;
        let real = RealServer::start(programs).await?;
        let figures = compare_validation(&real.target, &arguments.scenario, arguments.seed, count).await?;
        if let Some(path) = &arguments.json {
            std::fs::write(path, serde_json::to_vec_pretty(&figures)?)?;
        }
        if arguments.record {
            let recorded: BTreeMap<_, _> =
                figures.iter().map(|(kind, figures)| (kind, &figures.agreed)).collect();
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("validation/recorded.json");
            std::fs::write(path, serde_json::to_vec(&recorded)?)?;
        }
        return Ok(true);
    }
    let suite = Suite::open(Path::new(env!("CARGO_MANIFEST_DIR")), &arguments.scenario)?;
    match (arguments.server, arguments.record) {
        (Server::Embedded, true) => Err("recordings need the real server; add --server real".into()),
        (Server::Embedded, false) => on(&suite, arguments, &Target::embedded()).await,
        (Server::Real, _) => {
            if let (Some(port), Some(certificate)) = (arguments.port, &arguments.certificate) {
                return on(&suite, arguments, &attach(port, certificate).await?).await;
            }
            let programs = arguments.programs.as_deref().ok_or("--server real needs --programs DIR")?;
            let real = RealServer::start(programs).await?;
            on(&suite, arguments, &real.target).await
        }
    }
}

async fn on(
    suite: &Suite,
    arguments: &Arguments,
    target: &Target,
) -> Result<bool, Box<dyn std::error::Error>> {
    let outcome = match arguments.record {
        true => suite.record(target).await?,
        // The embedded server must give the same responses in each run, so a scenario with differences is not
        // repeated.
        false if arguments.server == Server::Embedded => suite.check(target, 1, 1).await?,
        false => suite.check(target, MAX_RUNS, PARALLEL).await?,
    };
    tell(suite, &outcome);
    if let Some(path) = &arguments.json {
        std::fs::write(path, figures(&outcome).to_string())?;
    }
    Ok(outcome.unknown.is_empty())
}

fn tell(suite: &Suite, outcome: &Outcome) {
    for difference in &outcome.unknown {
        println!(
            "{} at {}\n  recorded {}\n  received {}",
            difference.scenario, difference.at, difference.real, difference.embedded
        );
    }
    for (rule, count) in suite.known.0.iter().zip(&outcome.known).filter(|(_, count)| **count > 0) {
        println!("known, {count} times: {} at {}: {}", rule.scenario, rule.at, rule.reason);
    }
    println!(
        "{} scenarios, {} responses, {} unknown differences",
        outcome.scenarios,
        outcome.responses,
        outcome.unknown.len()
    );
}

fn figures(outcome: &Outcome) -> serde_json::Value {
    json!({
        "scenarios": outcome.scenarios,
        "responses": outcome.responses,
        "known": outcome.known.iter().sum::<usize>(),
        "unknown": outcome.unknown.iter().map(|d| format!("{} at {}", d.scenario, d.at)).collect::<Vec<_>>(),
    })
}
