//! Stress test: runs the executables of all tests several times, many at once, so that each has a small share
//! of the processor. A test that depends on real time is then likely to fail.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, hint, thread};

use clap::Args;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::cargo::{command, program};
use crate::deadline::Deadline;
use crate::go::target;
use crate::report::Report;

/// Number of lines at the end of the output of a failed executable that are printed.
const MAX_LINES: usize = 60;

/// The time limit of one run of an executable. Alongside 24 busy processes on two processors, the slowest one
/// takes minutes.
const MAX_RUN: Duration = Duration::from_secs(3600);

/// Options of `cargo xtask stress`.
#[derive(Debug, Args)]
pub(crate) struct StressArguments {
    /// Number of times that each executable is run.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Number of busy processes that run alongside each executable: other executables of the suite, and loops
    /// once no executable is left to start.
    #[arg(long, default_value_t = 24)]
    alongside: usize,
    /// Do not run the tests of this package; may be repeated.
    #[arg(long, value_name = "PACKAGE")]
    exclude: Vec<String>,
}

/// A line of the output of `cargo test --message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// An executable of tests, and the folder of its package, in which cargo would run it.
#[derive(Debug)]
struct Executable {
    path: PathBuf,
    package: PathBuf,
}

/// One run of an executable.
#[derive(Debug)]
struct Run<'a> {
    round: usize,
    executable: &'a Executable,
}

#[derive(Debug, Default)]
struct Round {
    passed: usize,
    failures: usize,
}

pub(crate) fn run(root: &Path, arguments: &StressArguments) -> Report {
    let mut report = Report::new("stress");
    if let Err(problem) = stress(root, arguments, &mut report) {
        report.problems.push(problem);
    }
    report
}

fn stress(root: &Path, arguments: &StressArguments, report: &mut Report) -> Result<(), String> {
    let executables = build(root, &arguments.exclude)?;
    if executables.is_empty() {
        return Err("cargo has built no executable of tests".to_owned());
    }
    let logs = target(root).join("stress");
    // Logs of failures of an earlier run are removed.
    match fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("remove {}: {error}", logs.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&logs).map_err(|error| format!("create {}: {error}", logs.display()))?;
    let runs = (1..=arguments.rounds)
        .flat_map(|round| executables.iter().map(move |executable| Run { round, executable }));
    let mut rounds: Vec<_> = (0..arguments.rounds).map(|_| Round::default()).collect();
    for (round, result) in run_all(runs.collect(), arguments.alongside + 1, &logs) {
        let tally = &mut rounds[round - 1];
        match result {
            Ok(passed) => tally.passed += passed,
            Err(problem) => {
                tally.failures += 1;
                report.problems.push(format!("round {round}: {problem}"));
            }
        }
    }
    report.figure("executables", executables.len() as f64);
    report.figure("rounds", arguments.rounds as f64);
    report
        .figure("rounds without a failure", rounds.iter().filter(|round| round.failures == 0).count() as f64);
    report.figure("busy processes alongside each executable", arguments.alongside as f64);
    let passed: usize = rounds.iter().map(|round| round.passed).sum();
    report.figure("tests that passed, all rounds", passed as f64);
    if passed == 0 {
        report.problems.push("no test was run".to_owned());
    }
    Ok(())
}

/// Builds all tests of the workspace without those of excluded packages, and returns their executables.
/// Documentation tests have none.
fn build(root: &Path, excluded: &[String]) -> Result<Vec<Executable>, String> {
    let mut cargo = command();
    cargo.current_dir(root).args(["test", "--workspace", "--no-run", "--message-format=json"]);
    cargo.args(excluded.iter().map(|package| format!("--exclude={package}")));
    let output =
        cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("cargo cannot build the tests".to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).collect())
}

fn executable(line: &str) -> Option<Executable> {
    let message: Message = serde_json::from_str(line).ok()?;
    message.profile.filter(|profile| profile.test)?;
    Some(Executable { path: message.executable?, package: message.manifest_path?.parent()?.to_owned() })
}

/// Starts the runs in their order, so that `processes` processes are busy all the time. Returns the round of
/// each run, and the number of tests that passed or a description of the failure.
fn run_all(runs: VecDeque<Run<'_>>, processes: usize, logs: &Path) -> Vec<(usize, Result<usize, String>)> {
    let total = runs.len();
    let (waiting, results) = (Mutex::new(runs), Mutex::new(Vec::new()));
    let running = AtomicUsize::new(processes);
    thread::scope(|scope| {
        for _ in 0..processes {
            scope.spawn(|| {
                {
                    let _starter = Starter(&running);
                    loop {
                        let next = waiting.lock().pop_front();
                        let Some(next) = next else { break };
                        let result = run_one(&next, logs);
                        if let Err(problem) = &result {
                            print(&format!("round {}: {problem}", next.round));
                        }
                        let ended = {
                            let mut results = results.lock();
                            results.push((next.round, result));
                            results.len()
                        };
                        if ended % 100 == 0 {
                            print(&format!("{ended} of {total} executables have ended"));
                        }
                    }
                }
                while running.load(Ordering::Acquire) > 0 {
                    hint::spin_loop();
                }
            });
        }
    });
    results.into_inner()
}

/// A thread that starts executables. When the last one is dropped, the loops of the others end.
struct Starter<'a>(&'a AtomicUsize);

impl Drop for Starter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Prints a line of progress. A closed stdout does not end the run, since the report may go to a file.
fn print(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}

/// Runs an executable in the folder of its package, and returns the number of tests that passed.
fn run_one(run: &Run<'_>, logs: &Path) -> Result<usize, String> {
    let Run { round, executable: Executable { path, package } } = run;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let log = logs.join(format!("{name}-{round}.log"));
    let failed = |error: std::io::Error| format!("{name}: {}: {error}", log.display());
    let output = File::create(&log).map_err(failed)?;
    let mut process = program(path);
    process.current_dir(package).env("CARGO_MANIFEST_DIR", package).stdin(Stdio::null());
    process.stderr(output.try_clone().map_err(failed)?).stdout(output);
    let mut process = process.spawn().map_err(|error| format!("cannot run {}: {error}", path.display()))?;
    let status = Deadline::after(MAX_RUN).poll(|| process.try_wait().transpose());
    let Some(status) = status else {
        kill(&mut process);
        return Err(format!("{name} did not end within {} s; see {}", MAX_RUN.as_secs(), log.display()));
    };
    let status = status.map_err(failed)?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned();
    if status.success() {
        fs::remove_file(&log).map_err(failed)?;
        return Ok(passed(&text));
    }
    let lines: Vec<_> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(MAX_LINES)..].join("\n");
    Err(format!("{name} failed ({status}); the end of {}:\n{end}", log.display()))
}

/// Kills a process, and on Unix the processes that it has started.
fn kill(process: &mut Child) {
    // Errors mean that the process has ended by now.
    #[cfg(unix)]
    if let Ok(pid) = i32::try_from(process.id())
        && let Some(group) = rustix::process::Pid::from_raw(pid)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = process.kill();
    let _ = process.wait();
}

/// Returns the number of tests that passed, from the result lines in the output of the test runner.
fn passed(output: &str) -> usize {
    let result = |line: &str| -> Option<usize> {
        line.strip_prefix("test result: ok. ")?.split_once(" passed")?.0.parse().ok()
    };
    output.lines().filter_map(result).sum()
}

#[cfg(test)]
mod tests {
    use super::{executable, passed};

    #[test]
    fn only_executables_of_tests_are_run() {
        let line = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","profile":{{"test":{test}}},"executable":"/t/a-1"}}"#
            )
        };
        let found = executable(&line(true)).unwrap();
        assert_eq!((found.path.to_str(), found.package.to_str()), (Some("/t/a-1"), Some("/a")));
        assert!(executable(&line(false)).is_none());
        assert!(executable(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn tests_that_passed_are_counted_in_all_result_lines() {
        let output = "test a ... ok\ntest result: ok. 3 passed; 0 failed; 0 ignored\n\ntest result: ok. 2 passed; 0 failed";
        assert_eq!(passed(output), 5);
        assert_eq!(passed("test result: FAILED. 3 passed; 1 failed"), 0);
    }
}
