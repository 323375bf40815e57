//! Programs that run in turn, what they measured, and how it compares.
//!
//! A program prints one JSON object on the last line of its output: a figure for each case. Every program runs once
//! before any runs again, so that whatever else the machine does hits all of them alike; figures are medians.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::go::target;
use crate::report::Report;

/// What stops a measurement.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// Cargo has said why.
    #[error("cannot build {0}; the messages above say why")]
    Build(String),
    #[error("cannot start {program}")]
    Start {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{program} ended with {status}")]
    Failed { program: String, status: std::process::ExitStatus },
    #[error("{program} printed no figures on its last line")]
    Output {
        program: String,
        #[source]
        source: serde_json::Error,
    },
}

/// A program that measures all of its cases once.
#[derive(Debug)]
pub(crate) struct Program {
    /// What it measures, as the table calls it.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// Builds a program of `benches/`, as well as can be.
pub(crate) fn build_ours(root: &Path, program: &str) -> Result<PathBuf, BenchError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--profile", "bench", "--package", "informer-benches", "--bin", program])
        .status();
    match status {
        Ok(status) if status.success() => Ok(target(root).join("release").join(program)),
        _ => Err(BenchError::Build(program.to_owned())),
    }
}

/// Runs every program `runs` times, in turn.
pub(crate) fn in_turn(programs: &[Program], runs: usize) -> Result<Samples, BenchError> {
    let mut samples = Samples::default();
    for run in 1..=runs {
        for program in programs {
            eprintln!("run {run} of {runs}: {}", program.name);
            for (case, value) in figures(program)? {
                samples.push(program.name, case, value);
            }
        }
    }
    Ok(samples)
}

fn figures(program: &Program) -> Result<BTreeMap<String, f64>, BenchError> {
    let name = || program.name.to_owned();
    let output = Command::new(&program.path)
        .args(&program.arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| BenchError::Start { program: name(), source })?;
    if !output.status.success() {
        return Err(BenchError::Failed { program: name(), status: output.status });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    serde_json::from_str(last).map_err(|source| BenchError::Output { program: name(), source })
}

/// All figures of a run, by case and by program.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    cases: BTreeMap<String, BTreeMap<&'static str, Vec<f64>>>,
}

impl Samples {
    fn push(&mut self, program: &'static str, case: String, value: f64) {
        let values = self.cases.entry(case).or_default().entry(program).or_default();
        values.insert(values.partition_point(|&other| other < value), value);
    }

    /// The median. `None` where the program did not run or does not know the case.
    pub(crate) fn median(&self, program: &str, case: &str) -> Option<f64> {
        let values = self.cases.get(case)?.get(program)?;
        let (low, high) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(f64::midpoint(*low, *high))
    }

    /// How many times the figure of `program` that of `peer` is.
    pub(crate) fn ratio(&self, program: &str, peer: &str, case: &str) -> Option<f64> {
        Some(self.median(peer, case)? / self.median(program, case)?)
    }

    /// Medians, least and greatest figures, and how many times ours each peer's are.
    pub(crate) fn report(&self, ours: &[&'static str], peers: &[&'static str], report: &mut Report) {
        for (case, programs) in &self.cases {
            for (program, values) in programs {
                let median = self.median(program, case).unwrap_or_default();
                let (least, greatest) = (values.first(), values.last());
                report.figure(format!("{case}: {program}"), rounded(median));
                report.figure(format!("{case}: {program}, least"), rounded(*least.unwrap_or(&median)));
                report.figure(format!("{case}: {program}, greatest"), rounded(*greatest.unwrap_or(&median)));
            }
            for (program, peer) in ours.iter().flat_map(|ours| peers.iter().map(move |peer| (ours, peer))) {
                if let Some(ratio) = self.ratio(program, peer, case) {
                    report.figure(format!("{case}: {peer} / {program}"), rounded(ratio));
                }
            }
        }
    }

    /// The medians as a table in Markdown, with the spread of each.
    pub(crate) fn table(&self, programs: &[Program]) -> String {
        let mut text = String::from("| |");
        programs.iter().for_each(|program| text.extend([" ", program.name, " |"]));
        text.push_str("\n|---|");
        programs.iter().for_each(|_| text.push_str("---|"));
        for (case, figures) in &self.cases {
            text.extend(["\n| ", case, " |"]);
            for program in programs {
                match (self.median(program.name, case), figures.get(program.name)) {
                    (Some(median), Some(values)) => {
                        let (least, greatest) = (values[0], values[values.len() - 1]);
                        text.push_str(&format!(
                            " {} ({} to {}) |",
                            rounded(median),
                            rounded(least),
                            rounded(greatest)
                        ));
                    }
                    _ => text.push_str(" |"),
                }
            }
        }
        text
    }
}

/// Three digits, which is more than such figures are worth.
pub(crate) fn rounded(value: f64) -> f64 {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// What a figure of ours has to be.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) program: &'static str,
    pub(crate) case: &'static str,
    pub(crate) limit: Limit,
}

#[derive(Debug)]
pub(crate) enum Limit {
    /// At most this part of the figure of a peer in the same run.
    Part { of: &'static str, at_most: f64 },
    /// At least so many times the figure of a peer in the same run, where more is better.
    Times { of: &'static str, at_least: f64 },
    /// At most this, where the peer shows `there` in a case; elsewhere as much more or less as the peer does.
    Scaled { at_most: f64, by: &'static str, case: &'static str, there: f64 },
    /// At most this, everywhere.
    Plain(f64),
}

impl Target {
    /// Adds the limit to the figures, and to the problems if it is missed. A target without its peer is not judged.
    pub(crate) fn judge(&self, samples: &Samples, report: &mut Report) {
        let Some(figure) = samples.median(self.program, self.case) else { return };
        let (limit, told) = match self.limit {
            Limit::Part { of, at_most } => {
                let Some(peer) = samples.median(of, self.case) else { return };
                (peer * at_most, format!("{} of {of}", rounded(at_most)))
            }
            Limit::Times { of, at_least } => {
                let Some(peer) = samples.median(of, self.case) else { return };
                (peer * at_least, format!("{at_least} times {of}"))
            }
            Limit::Scaled { at_most, by, case, there } => {
                let Some(peer) = samples.median(by, case) else { return };
                (at_most * peer / there, format!("{at_most} where {by} takes {there}"))
            }
            Limit::Plain(at_most) => (at_most, format!("{at_most}")),
        };
        let (program, case, limit) = (self.program, self.case, rounded(limit));
        report.figure(format!("{case}: {program}, target ({told})"), limit);
        let figure = rounded(figure);
        match self.limit {
            Limit::Times { .. } if figure < limit => {
                report.problems.push(format!("{case}: {program} has {figure}, below {limit} ({told})"));
            }
            Limit::Times { .. } => {}
            _ if figure > limit => {
                report.problems.push(format!("{case}: {program} takes {figure}, over {limit} ({told})"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
