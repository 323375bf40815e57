//! Trace parity: compares the traces of client-go and of this library on the same scripts of informers, work
//! queues and leader elections.

use std::path::Path;

use clap::Args;
use serde::Deserialize;

use crate::cargo::{Executable, build, program};
use crate::go::{Go, GoError, Module, target};
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct ParityArguments {
    /// Run only this script of conformance/parity: NAME for a script of informers, queue/NAME for one of work
    /// queues, election/NAME for one of leader elections [default: all scripts].
    #[arg(long, value_name = "NAME")]
    script: Option<String>,
    /// Also print the traces of client-go (of its first run) and of this library, line by line.
    #[arg(long)]
    traces: bool,
}

/// The outcomes of the scripts, as the program `parity` writes them to a file. `parity` itself prints the
/// lines that differ.
#[derive(Debug, Deserialize)]
struct Outcomes {
    outcomes: Vec<Outcome>,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    script: String,
    verdict: String,
    masked: Vec<String>,
    failure: Option<String>,
}

const VERDICTS: [(&str, &str); 5] = [
    ("equal", "equal"),
    ("listed", "different as listed"),
    ("unlisted", "different otherwise"),
    ("stale", "listed and equal"),
    ("failed", "failed"),
];

pub(crate) fn run(root: &Path, arguments: &ParityArguments) -> Report {
    let mut report = Report::new("parity");
    let go = match Go::find(root) {
        Ok(go) => go,
        Err(error) => {
            eprintln!("skipped: no Go toolchain");
            report.problems.push(error.to_string());
            return report;
        }
    };
    match compare(root, &go, arguments) {
        Ok(outcomes) => tell(&outcomes, &mut report),
        Err(problem) => report.problems.push(problem),
    }
    report
}

fn compare(root: &Path, go: &Go, arguments: &ParityArguments) -> Result<Outcomes, String> {
    let peer = go.build(Module::Peers, "parity").map_err(|error: GoError| error.to_string())?;
    let json = target(root).join("parity.json");
    let selection = &["--bin", "parity"];
    let parity = Executable { package: "informer-parity", selection, release: false, path: "parity" };
    let mut parity = program(build(root, parity)?);
    parity.current_dir(root).arg("--peer").arg(&peer).arg("--json").arg(&json);
    if let Some(script) = &arguments.script {
        parity.arg("--script").arg(script);
    }
    if arguments.traces {
        parity.arg("--traces");
    }
    // If `parity` fails before it writes its output file, the file of an earlier run must not be read
    // instead.
    let _ = std::fs::remove_file(&json);
    let status = parity.status().map_err(|error| format!("cannot start parity: {error}"))?;
    let text = std::fs::read_to_string(&json)
        .map_err(|_| format!("the comparison wrote no outcome ({status}); see the messages above"))?;
    serde_json::from_str(&text).map_err(|error| format!("cannot read the outcome: {error}"))
}

fn tell(outcomes: &Outcomes, report: &mut Report) {
    for Outcome { script, verdict, failure, .. } in &outcomes.outcomes {
        match verdict.as_str() {
            "equal" | "listed" => {}
            "unlisted" => {
                report
                    .problems
                    .push(format!("{script}: the traces differ, and the difference is not listed"));
            }
            "stale" => {
                report.problems.push(format!("{script}: listed as a difference, but the traces are equal"));
            }
            _ => report.problems.push(format!("{script}: {}", failure.as_deref().unwrap_or(verdict))),
        }
    }
    if outcomes.outcomes.is_empty() {
        report.problems.push("no script was compared".to_owned());
    }
    report.figure("scripts", outcomes.outcomes.len() as f64);
    for (verdict, name) in VERDICTS {
        let count = outcomes.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
        report.figure(name, count as f64);
    }
    let masked: usize = outcomes.outcomes.iter().map(|outcome| outcome.masked.len()).sum();
    report.figure("lines masked: client-go differs from itself", masked as f64);
    report.figure("seconds", outcomes.seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(script: &str, verdict: &str) -> Outcome {
        let (script, verdict) = (script.to_owned(), verdict.to_owned());
        Outcome { script, verdict, masked: vec!["requests: line 2".to_owned()], failure: None }
    }

    #[test]
    fn it_is_a_problem_if_no_script_is_compared() {
        let mut report = Report::new("parity");
        tell(&Outcomes { outcomes: Vec::new(), seconds: 1.0 }, &mut report);
        assert_eq!(report.problems, ["no script was compared"]);
    }

    #[test]
    fn unlisted_stale_and_failed_scripts_are_problems() {
        let mut report = Report::new("parity");
        let outcomes =
            ["equal", "listed", "unlisted", "stale", "failed"].map(|verdict| outcome(verdict, verdict));
        tell(&Outcomes { outcomes: outcomes.into(), seconds: 1.0 }, &mut report);
        assert_eq!(report.problems.len(), 3, "{report}");
        for named in ["unlisted", "stale", "failed"] {
            assert!(report.problems.iter().any(|problem| problem.starts_with(named)), "{report}");
        }
        assert!(report.figures.contains(&("equal".to_owned(), 1.0)), "{report}");
        assert!(report.figures.contains(&("lines masked: client-go differs from itself".to_owned(), 5.0)));
    }
}
