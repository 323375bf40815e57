//! Runs the example `explore` of the crate `informer`. It explores the sample controller, mutants of that
//! controller and known bug patterns under injected faults. Reports how long each exploration takes.

use std::path::Path;

use clap::Args;

use crate::cargo::{Executable, build, program};
use crate::report::Report;

/// The maximum time until the exploration finds a defect, in seconds. A longer time is reported as a problem.
const FOUND_WITHIN: f64 = 10.0;

/// Options of `cargo xtask explore`.
#[derive(Debug, Args)]
pub(crate) struct ExploreArguments {
    /// Number of random fault scripts that each program without a defect must pass.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
}

pub(crate) fn run(root: &Path, arguments: &ExploreArguments) -> Report {
    let mut report = Report::new("explore");
    let selection = &["--features", "testing,runtime", "--example", "explore"];
    let explore = Executable { package: "informer", selection, release: false, path: "examples/explore" };
    let output = build(root, explore).and_then(|explore| {
        let mut explore = program(explore);
        explore.current_dir(root).args(["--seconds", "--seeds"]).arg(arguments.seeds.to_string());
        explore.output().map_err(|error| format!("cannot run the example explore: {error}"))
    });
    let output = match output {
        Ok(output) => output,
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        report.problems.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    for Verdict { word, name, seconds } in text.lines().filter_map(Verdict::parse) {
        if word == "found" && seconds > FOUND_WITHIN {
            report.problems.push(format!("{name}: found after {seconds} s, not within {FOUND_WITHIN} s"));
        }
        report.figure(format!("{word}: {name}, seconds"), seconds);
    }
    report
}

/// The result of the exploration of one program, as the example `explore` prints it.
#[derive(Debug, PartialEq)]
struct Verdict<'a> {
    /// `ok` for a correct program without failure, `found` for a program whose defect was found.
    word: &'a str,
    name: &'a str,
    seconds: f64,
}

impl<'a> Verdict<'a> {
    /// Parses an output line of the example `explore`, such as `found     NAME: ... [0.7 s]`. Returns `None`
    /// for other lines.
    fn parse(line: &'a str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').filter(|(word, _)| matches!(*word, "ok" | "found"))?;
        let (name, rest) = rest.trim_start().split_once(": ")?;
        let seconds = rest.rsplit_once('[')?.1.strip_suffix(" s]")?.parse().ok()?;
        Some(Self { word, name, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn lines_with_seconds_are_figures() {
        let line = "found     a defect: `final state`, crash after write 5 [0.7 s]";
        assert_eq!(Verdict::parse(line), Some(Verdict { word: "found", name: "a defect", seconds: 0.7 }));
        assert_eq!(Verdict::parse("          websites default/shop: status is not set"), None);
    }
}
