//! Runs the suite on one server. Prints a line for each scenario, and optionally writes the result as JSON.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use informer_conformance::{Embedded, Options, Outcome, Real, Server, ServerError, Verdict, all, run};

/// Runs one suite of informer behavior, on the embedded server or on a real one.
#[derive(Debug, Parser)]
struct Arguments {
    /// The directory of a real server (`cargo xtask real up --dir`). Without it, the suite runs on the
    /// embedded server.
    #[arg(long, value_name = "FOLDER", requires = "xtask")]
    real: Option<PathBuf>,
    /// The `xtask` program, which starts and stops the real server.
    #[arg(long, value_name = "PROGRAM")]
    xtask: Option<PathBuf>,
    /// Run on an embedded server of a later version, whose objects have fields that the client's schema table
    /// does not know.
    #[arg(long, conflicts_with = "real")]
    newer: bool,
    /// Run only scenarios whose name contains this string.
    #[arg(long, value_name = "PART")]
    scenario: Option<String>,
    /// Number of scenarios that run concurrently.
    #[arg(long, default_value_t = 16)]
    at_once: usize,
    /// Skip the scenarios that take almost a minute or longer.
    #[arg(long)]
    quick: bool,
    /// Write the result as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the scenarios as a Markdown table, and run nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        list();
        return ExitCode::SUCCESS;
    }
    // Panic messages are not printed, because the result reports each panic of a scenario or a handler once.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(suite(&arguments)) {
        Ok(verdict) => tell(&verdict, &arguments),
        Err(error) => {
            eprintln!("cannot reach the server: {error}");
            ExitCode::from(2)
        }
    }
}

async fn suite(arguments: &Arguments) -> Result<Verdict, ServerError> {
    let server = match (&arguments.real, &arguments.xtask) {
        (Some(folder), Some(xtask)) => Server::Real(Real::new(folder, xtask)?),
        _ if arguments.newer => Server::Embedded(Embedded::newer().await?),
        _ => Server::Embedded(Embedded::new().await?),
    };
    let options = Options {
        only: arguments.scenario.clone(),
        at_once: arguments.at_once,
        slow: !arguments.quick,
        told: line,
    };
    Ok(run(Arc::new(server), all(), options).await)
}

fn line(outcome: &Outcome) {
    match &outcome.failure {
        None => println!("ok      {:8.3} s  {}", outcome.seconds, outcome.name),
        Some(failure) => println!("FAILED  {:8.3} s  {}: {failure}", outcome.seconds, outcome.name),
    }
}

fn tell(verdict: &Verdict, arguments: &Arguments) -> ExitCode {
    let failed = verdict.failed().count();
    let passed = verdict.passed();
    println!("{} server: {passed} passed, {failed} failed, {:.1} s", verdict.server, verdict.seconds);
    if let Some(path) = &arguments.json {
        let text = serde_json::to_vec_pretty(verdict).expect("strings and numbers are JSON");
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list() {
    println!("| topic | scenario |\n|---|---|");
    for scenario in all() {
        println!("| {} | `{}` |", scenario.topic, scenario.name);
    }
}
