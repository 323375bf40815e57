//! Runs benchmark programs in turn, and collects and compares their figures.
//!
//! A program prints one JSON object on the last line of its output: a figure for each case. Every program
//! runs once before any program runs again, so that other load on the machine affects all of them alike.
//! Reported figures are medians of all runs, with their minimum and maximum.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use informer_report::{DrawError, Spread};
use thiserror::Error;

use crate::go::target;
use crate::report::{CheckedTarget, Report, number, rounded};

/// Options of all benchmarks: the number of runs of each program, and the priority of its process.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Turns {
    /// Number of runs of each program [default: 5, or 1 for `bench build`, `bench churn` and `bench
    /// instructions`]. Reported figures are medians of the runs.
    #[arg(long, global = true, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Run all programs, including the server, with real-time priority (`chrt -f 10`), so that other load on
    /// the machine hardly affects the figures. Needs the permission to set it. An error for informers with
    /// `--server real`; has no effect on `bench build` and `bench instructions`.
    #[arg(long, global = true)]
    realtime: bool,
}

/// Number of runs of each program without the option `--runs`, except in the benchmarks with only one run.
const RUNS: u16 = 5;

/// The environment variable that disables the huge pages which the allocator mimalloc requests by default.
/// With huge pages, the kernel clears 2 MB for a write of a few bytes, and all of them count as resident. A
/// first list of 10,000 pods used 70 MB instead of 41 MB, and took up to three times as long.
const NO_HUGE_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");

impl Turns {
    /// Returns a command that starts a program as all measured programs are started: with real-time priority
    /// if `--realtime` is set, and without huge pages in mimalloc.
    pub(crate) fn command(self, path: &Path) -> Command {
        let mut command = if self.realtime { Command::new("chrt") } else { Command::new(path) };
        if self.realtime {
            command.args(["-f", "10"]).arg(path);
        }
        command.env(NO_HUGE_PAGES.0, NO_HUGE_PAGES.1);
        command
    }

    pub(crate) fn is_realtime(self) -> bool {
        self.realtime
    }

    pub(crate) fn runs(self) -> u16 {
        self.runs_or(RUNS)
    }

    /// Returns the number of runs that `--runs` sets, or `default` without this option.
    pub(crate) fn runs_or(self, default: u16) -> u16 {
        self.runs.unwrap_or(default)
    }

    pub(crate) fn tell(self, report: &mut Report) {
        report.figure("runs of each program", f64::from(self.runs()));
        report.figure("real-time priority", if self.realtime { 10.0 } else { 0.0 });
    }
}

#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// A program could not be built. cargo or `go build` has printed the errors.
    #[error("cannot build {0}; see the messages above")]
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
    #[error("draw plot: {0}")]
    Plot(DrawError),
    #[error("{program} ended with {status}")]
    Failed { program: String, status: std::process::ExitStatus },
    #[error("cannot set up {program}: {why}")]
    Server { program: String, why: String },
    #[error("{program} printed no figures on its last line")]
    Output {
        program: String,
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// Builds a program of the package in `benches/` with cargo's profile `bench`. Returns the path of the
/// executable.
pub(crate) fn build_ours(root: &Path, program: &str) -> Result<PathBuf, BenchError> {
    build(root, ("informer-benches", program), ("bench", "release"), &[])
}

/// Builds a program of the package in `benches/` that needs a cargo feature, like [`build_ours`].
pub(crate) fn build_with(root: &Path, program: &str, feature: &str) -> Result<PathBuf, BenchError> {
    build(root, ("informer-benches", program), ("bench", "release"), &[feature])
}

/// Builds a program of any package of this workspace with cargo's profile `bench`. Returns the path of the
/// executable.
pub(crate) fn build_other(root: &Path, package: &str, program: &str) -> Result<PathBuf, BenchError> {
    build(root, (package, program), ("bench", "release"), &[])
}

/// Builds a program of the package in `benches/` with cargo's profile `dev`, which compiles faster. Used for
/// programs whose times are not measured. Returns the path of the executable.
pub(crate) fn build_soon(root: &Path, program: &str) -> Result<PathBuf, BenchError> {
    build(root, ("informer-benches", program), ("dev", "debug"), &[])
}

fn build(
    root: &Path,
    (package, program): (&str, &str),
    (profile, folder): (&str, &str),
    features: &[&str],
) -> Result<PathBuf, BenchError> {
    let status = crate::cargo::command()
        .current_dir(root)
        .args(["build", "--quiet", "--profile", profile, "--package", package, "--bin", program])
        .args(features.iter().flat_map(|feature| ["--features", feature]))
        .status();
    match status {
        Ok(status) if status.success() => Ok(target(root).join(folder).join(program)),
        _ => Err(BenchError::Build(program.to_owned())),
    }
}

/// Builds a program of `conformance/kube-rs` in a separate folder, because that workspace uses the same
/// dependencies as this workspace, but with other features.
pub(crate) fn build_kube_rs(root: &Path, program: &str) -> Result<PathBuf, BenchError> {
    let folder = target(root).join("kube-rs");
    let status = crate::cargo::command()
        .current_dir(root)
        .args(["build", "--quiet", "--locked", "--release", "--bin", program])
        .args(["--manifest-path", "conformance/kube-rs/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(folder.join("release").join(program)),
        _ => Err(BenchError::Build(format!("{program} of conformance/kube-rs"))),
    }
}

/// Runs each program once, in the order of `programs`, and repeats this as often as `--runs` requires.
/// Returns the figures of all runs.
pub(crate) fn in_turn(programs: &[Program], turns: Turns) -> Result<Samples, BenchError> {
    let mut samples = Samples::default();
    for run in 1..=turns.runs() {
        for program in programs {
            eprintln!("run {run} of {}: {}", turns.runs(), program.name);
            samples.run(program, turns)?;
        }
    }
    Ok(samples)
}

fn figures(program: &Program, turns: Turns) -> Result<BTreeMap<String, f64>, BenchError> {
    let name = || program.name.to_owned();
    let output = turns
        .command(&program.path)
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

#[derive(Debug, Default)]
pub(crate) struct Samples {
    cases: BTreeMap<String, BTreeMap<&'static str, Vec<f64>>>,
}

impl Samples {
    /// Runs a program once and adds the figures of this run to the samples.
    pub(crate) fn run(&mut self, program: &Program, turns: Turns) -> Result<(), BenchError> {
        for (case, value) in figures(program, turns)? {
            self.push(program.name, case, value);
        }
        Ok(())
    }

    /// Like [`run`](Self::run), but adds only the figures of cases whose names contain `part`.
    pub(crate) fn run_only(&mut self, program: &Program, turns: Turns, part: &str) -> Result<(), BenchError> {
        for (case, value) in figures(program, turns)?.into_iter().filter(|(case, _)| case.contains(part)) {
            self.push(program.name, case, value);
        }
        Ok(())
    }

    /// Like [`run`](Self::run), but renames each case with `rename`, for example to add the number of objects.
    /// Figures of runs with different numbers of objects thus stay separate.
    pub(crate) fn run_renamed(
        &mut self,
        program: &Program,
        turns: Turns,
        rename: impl Fn(&str) -> String,
    ) -> Result<(), BenchError> {
        for (case, value) in figures(program, turns)? {
            self.push(program.name, rename(&case), value);
        }
        Ok(())
    }

    /// Adds a case `name` whose figures are those of `case` multiplied by `times`, for example to convert
    /// units.
    pub(crate) fn derive(&mut self, case: &str, times: f64, name: &str) {
        let Some(programs) = self.cases.get(case) else { return };
        let scaled = programs
            .iter()
            .map(|(&program, values)| (program, values.iter().map(|value| value * times).collect()));
        let scaled = scaled.collect();
        self.cases.insert(name.to_owned(), scaled);
    }

    /// Removes the cases for which `keep` returns false.
    pub(crate) fn keep(&mut self, keep: impl Fn(&str) -> bool) {
        self.cases.retain(|case, _| keep(case));
    }

    pub(super) fn push(&mut self, program: &'static str, case: String, value: f64) {
        let values = self.cases.entry(case).or_default().entry(program).or_default();
        values.insert(values.partition_point(|&other| other < value), value);
    }

    /// Returns the median, the minimum and the maximum of a program's figures in a case; `None` if the
    /// program did not run or did not measure the case.
    pub(crate) fn spread(&self, program: &str, case: &str) -> Option<Spread> {
        Spread::of_sorted(self.cases.get(case)?.get(program)?)
    }

    /// Returns the median of a program's figures in a case; `None` if the program did not run or did not
    /// measure the case.
    pub(crate) fn median(&self, program: &str, case: &str) -> Option<f64> {
        self.spread(program, case).map(|spread| spread.median)
    }

    /// Returns the cases in alphabetical order, each with the figures of the programs that measured it, in
    /// ascending order.
    pub(super) fn cases(&self) -> impl Iterator<Item = (&str, &BTreeMap<&'static str, Vec<f64>>)> {
        self.cases.iter().map(|(case, programs)| (&**case, programs))
    }

    /// Returns `peer`'s median divided by the median of `program` in a case; `None` if one of them has no
    /// figure.
    pub(crate) fn ratio(&self, program: &str, peer: &str, case: &str) -> Option<f64> {
        Some(self.median(peer, case)? / self.median(program, case)?)
    }

    /// Adds figures to the report. For each case and program these are the median, the minimum and the
    /// maximum. For each pair of a program in `ours` and one in `peers`, it is the peer's median divided by
    /// that of the program in `ours`.
    ///
    /// The caller must also add the sections that show these figures, see the module `sections`.
    pub(crate) fn report(&self, ours: &[&'static str], peers: &[&'static str], report: &mut Report) {
        for (case, programs) in self.cases() {
            for program in programs.keys() {
                let Some(Spread { minimum, median, maximum }) = self.spread(program, case) else { continue };
                for (suffix, value) in [("", median), (", least", minimum), (", greatest", maximum)] {
                    report.figure_in_section(format!("{case}: {program}{suffix}"), rounded(value));
                }
            }
            for (program, peer) in ours.iter().flat_map(|ours| peers.iter().map(move |peer| (ours, peer))) {
                if let Some(ratio) = self.ratio(program, peer, case) {
                    report.figure_in_section(format!("{case}: {peer} / {program}"), rounded(ratio));
                }
            }
        }
    }

    pub(crate) fn table(&self, programs: &[Program]) -> String {
        let mut text = String::from("| |");
        programs.iter().for_each(|program| text.extend([" ", program.name, " |"]));
        text.push_str("\n|---|");
        programs.iter().for_each(|_| text.push_str("---|"));
        for case in self.cases.keys() {
            text.extend(["\n| ", case, " |"]);
            for program in programs {
                match self.spread(program.name, case) {
                    Some(Spread { minimum, median, maximum }) => text.push_str(&format!(
                        " {} ({} to {}) |",
                        rounded(median),
                        rounded(minimum),
                        rounded(maximum)
                    )),
                    None => text.push_str(" |"),
                }
            }
        }
        text
    }

    /// Formats a Markdown table of the programs' medians divided by those of a peer, such as `3 times` or
    /// `1/3`. Cases without a figure of the peer are left out. More is better for throughput, less is better
    /// for everything else.
    pub(crate) fn times(&self, programs: &[Program], peer: &str) -> String {
        let mut text = format!("| to {peer} |");
        programs.iter().for_each(|program| text.extend([" ", program.name, " |"]));
        text.push_str("\n|---|");
        programs.iter().for_each(|_| text.push_str("---|"));
        for case in self.cases.keys().filter(|case| self.median(peer, case).is_some()) {
            text.extend(["\n| ", case, " |"]);
            for program in programs {
                text.push_str(&match self.ratio(program.name, peer, case) {
                    Some(ratio) if ratio > 1.0 => format!(" 1/{} |", rounded(ratio)),
                    Some(ratio) if ratio > 0.0 => format!(" {} times |", rounded(1.0 / ratio)),
                    _ => " |".to_owned(),
                });
            }
        }
        text
    }
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) program: &'static str,
    pub(crate) case: &'static str,
    pub(crate) limit: Limit,
}

#[derive(Debug)]
pub(crate) enum Limit {
    /// The figure of the program may be at most this fraction of the figure of the peer `of` in the same run.
    Part { of: &'static str, at_most: f64 },
    /// The figure of the program must be at least this multiple of the figure of the peer `of` in the same
    /// run. For cases in which more is better, such as throughput.
    Times { of: &'static str, at_least: f64 },
    /// The figure of the program may be at most `at_most` on a machine on which the peer `by` has the figure
    /// `there` in `case`. On another machine, this maximum is larger or smaller by the same factor as the
    /// peer's figure.
    Scaled { at_most: f64, by: &'static str, case: &'static str, there: f64 },
    /// The figure of the program may be at most this number, in the unit of the case. The number is the same
    /// on all machines, even if the figure is a time.
    Plain(f64),
    /// The figure of the program may be at most the figure of the same program in the case with this name.
    Case(&'static str),
}

impl Target {
    /// Compares a program's median with the limit of the target, and adds the limit to the report as a
    /// figure. Adds a problem to the report if the program misses the limit. Returns false and reports
    /// nothing if a median of the program or of its peer is missing.
    fn judge(&self, samples: &Samples, report: &mut Report) -> bool {
        let figure = samples.median(self.program, self.case);
        let Some((figure, (exact, basis))) = figure.zip(self.limit(samples)) else { return false };
        let (program, case, limit) = (self.program, self.case, rounded(exact));
        let figure = rounded(figure);
        let (met, bound) = match self.limit {
            Limit::Times { .. } => (figure >= limit, "at least"),
            _ => (figure <= limit, "at most"),
        };
        let name = basis.as_deref().map_or_else(|| limit.to_string(), str::to_owned);
        report.figure_in_section(format!("{case}: {program}, target ({name})"), limit);
        let unit = unit(case);
        let basis = basis.map(|basis| format!(": {basis}")).unwrap_or_default();
        if !met {
            let (figure, limit) = (number(figure), number(limit));
            report
                .problems
                .push(format!("{case}: {program}: {figure}{unit}, limit {bound} {limit}{unit}{basis}"));
        }
        report.targets.push(CheckedTarget {
            case: case.to_owned(),
            program: program.to_owned(),
            figure,
            limit: format!("{bound} {}{unit}{basis}", number(limit)),
            limit_in_plot: Some(limit),
            met,
        });
        true
    }

    /// Returns the limit, and how it is determined; no explanation for a limit that is a plain number.
    fn limit(&self, samples: &Samples) -> Option<(f64, Option<String>)> {
        Some(match self.limit {
            Limit::Part { of, at_most } => {
                (samples.median(of, self.case)? * at_most, Some(format!("{} times {of}", rounded(at_most))))
            }
            Limit::Times { of, at_least } => {
                (samples.median(of, self.case)? * at_least, Some(format!("{at_least} times {of}")))
            }
            Limit::Scaled { at_most, by, case, there } => {
                let here = samples.median(by, case)?;
                let [most, there_shown, here_shown] = [at_most, there, here].map(number);
                let (unit, unit_by) = (unit(self.case), unit(case));
                let basis = format!(
                    "{most}{unit} on a machine where {by} takes {there_shown}{unit_by}, scaled to its \
                     {here_shown}{unit_by} here"
                );
                (at_most * here / there, Some(basis))
            }
            Limit::Plain(at_most) => (at_most, None),
            Limit::Case(other) => (samples.median(self.program, other)?, Some(format!("its {other}"))),
        })
    }
}

/// Returns the unit of the figures of a case with a space before it, such as ` ns`. Returns an empty string
/// if the name of the case does not end in a short unit.
fn unit(case: &str) -> String {
    const UNITS: [&str; 7] = ["ns", "us", "ms", "s", "KB", "MB", "bytes"];
    let last = case.rsplit_once(", ").and_then(|(_, unit)| unit.split_whitespace().next_back());
    last.filter(|unit| UNITS.contains(unit)).map(|unit| format!(" {unit}")).unwrap_or_default()
}

/// Evaluates all targets, and reports how many were checked. Targets without figures are not checked. If all
/// targets lack figures, that is a problem.
pub(crate) fn judge<'a>(
    targets: impl IntoIterator<Item = &'a Target>,
    samples: &Samples,
    report: &mut Report,
) {
    let (mut judged, mut others) = (0_u32, 0_u32);
    for target in targets {
        if target.judge(samples, report) { judged += 1 } else { others += 1 }
    }
    report.figure("targets checked", judged.into());
    report.figure("targets without figures", others.into());
    if judged == 0 {
        report.problems.push("no target has its figures, so nothing was checked".to_owned());
    }
}

#[cfg(test)]
mod tests;
