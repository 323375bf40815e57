//! `parity`: compares client-go and this library (informers, work queues, leader elections) on the same
//! scripts. `cargo xtask parity` builds the client-go program and runs `parity`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use informer_parity::{GoPeer, Outcome, Peer, Report, Suite, Verdict, table, write_differences};

/// Compares the traces of client-go and of this library over all scripts of informers, work queues and
/// elections. Exits with 1 if there is an unlisted difference.
#[derive(Debug, Parser)]
#[command(name = "parity")]
struct Arguments {
    /// The client-go program: `parity` of conformance/go/peers.
    #[arg(long, value_name = "FILE", required_unless_present = "table")]
    peer: Option<PathBuf>,
    /// Run only this script. Its name is queue/NAME for a queue, election/NAME for an election.
    #[arg(long, value_name = "NAME")]
    script: Option<String>,
    /// Write the outcomes of all scripts, with their traces, to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the differences that this run found into differences.yaml, as intended ones. Their reasons must
    /// then be added by hand.
    #[arg(long, conflicts_with = "script")]
    accept: bool,
    /// Maximum number of runs of each script. A script with an unexpected result is run again, because a busy
    /// machine may have delayed a peer; a real difference occurs in every run.
    #[arg(long, default_value_t = 3)]
    tries: u32,
    /// Print the traces of client-go (its first run) and of this library, line by line.
    #[arg(long)]
    traces: bool,
    /// Print only the table of intended differences for docs/parity.md.
    #[arg(long)]
    table: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match work(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parity: {error}");
            ExitCode::from(2)
        }
    }
}

async fn work(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let folder = Suite::folder();
    let mut suite = Suite::read(&folder)?;
    let Some(peer) = &arguments.peer else {
        print!("{}", table(suite.differences()));
        return Ok(true);
    };
    if let Some(name) = &arguments.script {
        suite = suite.only(name)?;
    }
    let report = suite.run(Peer::Go(Box::new(GoPeer::start(peer)?)), arguments.tries).await;
    if arguments.traces {
        report.outcomes.iter().for_each(show_traces);
    }
    show(&report);
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    if arguments.accept {
        write_differences(&folder.join("differences.yaml"), &report.differences(suite.differences()))?;
    }
    Ok(report.outcomes.iter().all(|outcome| !outcome.is_problem()))
}

fn show(report: &Report) {
    for outcome in &report.outcomes {
        for masked in &outcome.masked {
            println!("{}: client-go differs from itself: {masked}", outcome.script);
        }
        if !outcome.is_problem() {
            continue;
        }
        println!("{}: {:?} after {} tries", outcome.script, outcome.verdict, outcome.tries);
        outcome.failure.iter().for_each(|failure| println!("    {failure}"));
        outcome.lines.iter().for_each(|line| println!("    {line}"));
    }
    println!(
        "{} scripts: {} equal, {} with listed differences, {} with unlisted differences, {} listed and equal, {} failed; {:.0} s",
        report.outcomes.len(),
        report.count(Verdict::Equal),
        report.count(Verdict::Listed),
        report.count(Verdict::Unlisted),
        report.count(Verdict::Stale),
        report.count(Verdict::Failed),
        report.seconds
    );
}

fn show_traces(outcome: &Outcome) {
    let Some(traces) = &outcome.traces else { return };
    for (peer, streams) in
        traces.theirs.iter().take(1).map(|theirs| ("client-go", theirs)).chain([("ours", &traces.ours)])
    {
        for (stream, lines) in streams {
            lines.iter().for_each(|line| println!("{}: {peer}: {stream}: {line}", outcome.script));
        }
    }
}
