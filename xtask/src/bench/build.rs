//! Benchmarks of build times: from a cold cache, compared with a controller on kube-rs, and of rebuilds after
//! a change of one line.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::peers::{Samples, Turns};
use super::sections;
use crate::report::{CheckedTarget, Report};
use crate::{cargo, tree};

/// Maximum processor time of a cold build of the command `informer`, which `cargo run --release -- demo` in
/// the README starts, as a multiple of that of a controller on kube-rs.
const MAX_DEMO: f64 = 1.3;
/// Maximum processor time, and maximum number of crates, of a cold build of a controller on this library, as
/// a multiple of those of a controller on kube-rs.
const MAX_CONTROLLER: f64 = 1.15;
/// Maximum wall-clock time of rebuilding the command `informer` after a change of `informer-cache`.
const MAX_REBUILD: Duration = Duration::from_secs(20);
/// Maximum wall-clock time of rebuilding all tests after a change of `informer-apiserver`.
const MAX_TESTS: Duration = Duration::from_secs(90);

const CRATES: &str = "crates";
const CPU: &str = "CPU s";
const WALL: &str = "s";

/// Options of `cargo xtask bench build`.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Also build all tests of the workspace, and measure building them again after a change of one line in
    /// `informer-apiserver`.
    #[arg(long)]
    tests: bool,
    /// Skip the cold builds and their targets, and measure only the rebuilds after a change of one line.
    #[arg(long)]
    rebuilds: bool,
}

const PEER: Program = Program {
    name: "controller of kube-rs",
    arguments: &["build", "--release", "--bin", "website"],
    workspace: "conformance/kube-rs",
    folder: "kube-rs",
};
const CONTROLLER: Program = Program {
    name: "controller of informer",
    // The profile `release` of this workspace does not apply to programs that depend on its crates. The
    // profile `downstream` has the settings of cargo's default `release`, with which users build.
    arguments: &["build", "--profile", "downstream", "-p", "website-operator"],
    workspace: "",
    folder: "controller",
};
const COMMAND: Program = Program {
    name: "command with the demo",
    arguments: &["build", "--release", "-p", "informer-cli"],
    workspace: "",
    folder: "demo",
};
const TESTS: Program = Program {
    name: "tests",
    arguments: &["test", "--workspace", "--no-run"],
    workspace: "",
    // The tests are built in the same build folder as the command `informer`.
    folder: COMMAND.folder,
};

/// A program whose build is measured.
#[derive(Debug)]
struct Program {
    name: &'static str,
    /// The arguments of cargo that build the program.
    arguments: &'static [&'static str],
    /// The workspace of the program, relative to the root of the repository.
    workspace: &'static str,
    /// The name of the build folder in `target/bench-build`.
    folder: &'static str,
}

/// A measured rebuild of a program, after a line is appended to the source file `file`.
#[derive(Debug)]
struct Rebuild {
    name: &'static str,
    program: Program,
    file: &'static str,
    limit: Duration,
}

const COMMAND_AFTER_CACHE: Rebuild = Rebuild {
    name: "command, after a line of informer-cache",
    program: COMMAND,
    file: "crates/informer-cache/src/lib.rs",
    limit: MAX_REBUILD,
};
const TESTS_AFTER_SERVER: Rebuild = Rebuild {
    name: "tests, after a line of informer-apiserver",
    program: TESTS,
    file: "crates/informer-apiserver/src/lib.rs",
    limit: MAX_TESTS,
};

#[derive(Debug)]
struct Cost {
    crates: usize,
    cpu: Option<Duration>,
    wall: Duration,
}

impl Cost {
    fn record(&self, name: &'static str, samples: &mut Samples) {
        println!("{name}: {self:?}");
        samples.push(name, CRATES.to_owned(), self.crates as f64);
        if let Some(cpu) = self.cpu {
            samples.push(name, CPU.to_owned(), cpu.as_secs_f64());
        }
        samples.push(name, WALL.to_owned(), self.wall.as_secs_f64());
    }
}

/// Measures builds. Every build runs once before any build runs again. Each build runs as often as `--runs`
/// requires, by default once.
pub(crate) fn run(root: &Path, options: &Build, turns: Turns) -> Report {
    let mut report = Report::new("bench build");
    let runs = turns.runs_or(1);
    report.figure("runs of each build", f64::from(runs));
    if let Err(error) = measure(root, options, runs, &mut report) {
        report.problems.push(error);
    }
    report
}

fn measure(root: &Path, options: &Build, runs: u16, report: &mut Report) -> Result<(), String> {
    let products = root.join("target/bench-build");
    let tests = options.tests.then_some(TESTS_AFTER_SERVER);
    let rebuilds: Vec<Rebuild> = iter::once(COMMAND_AFTER_CACHE).chain(tests).collect();
    let mut samples = Samples::default();
    for run in 1..=runs {
        println!("run {run} of {runs}");
        if !options.rebuilds {
            for program in [PEER, CONTROLLER, COMMAND] {
                cold(root, &program, &products)?.record(program.name, &mut samples);
            }
        }
        let tree = tree::update(root, &products.join("tree"))?.root;
        for again in &rebuilds {
            rebuild(&tree, again, &products)?.record(again.name, &mut samples);
        }
    }
    samples.report(&[], &[], report);
    let ours = [CONTROLLER, COMMAND].map(|program| program.name).into_iter();
    let ours: Vec<_> = ours.chain(rebuilds.iter().map(|again| again.name)).collect();
    sections::by_case(&samples, &ours, &[], report);
    for (program, case, limit) in
        [(CONTROLLER, CPU, MAX_CONTROLLER), (CONTROLLER, CRATES, MAX_CONTROLLER), (COMMAND, CPU, MAX_DEMO)]
    {
        judge(&samples, program.name, case, limit, report);
    }
    for again in &rebuilds {
        let took = samples.median(again.name, WALL).unwrap_or_default();
        report.targets.push(CheckedTarget {
            case: format!("{WALL}, after a change of one line"),
            program: again.name.to_owned(),
            figure: took,
            limit: format!("at most {} s", again.limit.as_secs()),
            limit_in_plot: Some(again.limit.as_secs_f64()),
            met: took <= again.limit.as_secs_f64(),
        });
        if took > again.limit.as_secs_f64() {
            report.problems.push(format!("{}: {took:.0} s, at most {} s", again.name, again.limit.as_secs()));
        }
    }
    Ok(())
}

/// Builds a program in a build folder that is emptied first, so that every crate is compiled.
fn cold(root: &Path, program: &Program, products: &Path) -> Result<Cost, String> {
    let folder = products.join(program.folder);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("empty {}: {error}", folder.display()))?;
    }
    timed(&root.join(program.workspace), program, &folder)
}

/// Builds a program in the copy `tree` of the workspace, appends a line to a source file, builds the program
/// again, and returns the cost of the second build.
fn rebuild(tree: &Path, again: &Rebuild, products: &Path) -> Result<Cost, String> {
    let folder = products.join(again.program.folder);
    timed(tree, &again.program, &folder)?;
    append_line(&tree.join(again.file)).map_err(|error| format!("change {}: {error}", again.file))?;
    timed(tree, &again.program, &folder)
}

fn append_line(file: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new().append(true).open(file)?.write_all(b"const _: () = ();\n")
}

#[expect(clippy::disallowed_methods, reason = "a build of cargo takes real time")]
fn timed(workspace: &Path, program: &Program, folder: &Path) -> Result<Cost, String> {
    let (began, cpu_before) = (Instant::now(), cpu_of_children());
    let mut command = cargo::command();
    command.current_dir(workspace).args(program.arguments);
    command.args(["--locked", "--message-format", "json-render-diagnostics"]);
    command.env("CARGO_TARGET_DIR", folder).env("CARGO_TERM_QUIET", "true").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let messages = child.stdout.take().map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
    let crates: BTreeSet<String> =
        messages.into_iter().flatten().filter_map(|line| built_crate(&line)).collect();
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo {} failed", program.arguments.join(" ")));
    }
    let cpu = cpu_of_children().zip(cpu_before).map(|(after, before)| after - before);
    Ok(Cost { crates: crates.len(), cpu, wall: began.elapsed() })
}

/// Returns the package that cargo compiled according to one of its JSON messages. Returns `None` if cargo
/// reused an earlier result for the package, and for all other messages.
fn built_crate(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let built = message["reason"] == "compiler-artifact" && message["fresh"] == false;
    message["package_id"].as_str().filter(|_| built).map(str::to_owned)
}

/// Returns the processor time of all child processes for which this process has waited. It includes the
/// processes that these started and waited for, such as compilers and linkers. `None` without `/proc`.
fn cpu_of_children() -> Option<Duration> {
    let stat = fs::read_to_string(PathBuf::from("/proc/self/stat")).ok()?;
    cpu_in_stat(&stat)
}

/// Returns the sum of the fields `cutime` and `cstime` of `/proc/PID/stat`: the processor time of the child
/// processes for which the process has waited.
fn cpu_in_stat(stat: &str) -> Option<Duration> {
    /// `/proc/PID/stat` contains times in ticks of `USER_HZ`, which is 100 per second on Linux.
    const TICKS_PER_SECOND: u64 = 100;
    // The second field of `/proc/PID/stat` is the program's name in parentheses, which may itself contain
    // spaces and parentheses. Only the last `)` ends this field.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let total = ticks()? + ticks()?;
    Some(Duration::from_millis(total * 1000 / TICKS_PER_SECOND))
}

/// Reports the median of a program in a case as a multiple of the median of the controller on kube-rs. A
/// multiple above `limit` is a problem. Reports nothing if one of the medians is missing.
fn judge(samples: &Samples, name: &'static str, case: &str, limit: f64, report: &mut Report) {
    let Some(ratio) = samples.ratio(PEER.name, name, case) else { return };
    report.figure_in_section(format!("{case}: {name}, times kube-rs"), ratio);
    report.targets.push(CheckedTarget {
        case: format!("{case}, times kube-rs"),
        program: name.to_owned(),
        figure: ratio,
        limit: format!("at most {limit}"),
        limit_in_plot: samples.median(PEER.name, case).map(|of_peer| of_peer * limit),
        met: ratio <= limit,
    });
    if ratio > limit {
        report.problems.push(format!("{case}: {name}: {ratio:.2} times kube-rs, at most {limit}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children_is_read_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 250 50 20 0 1 0 99";
        assert_eq!(cpu_in_stat(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_in_stat("7 (sh) S 1"), None);
    }

    #[test]
    fn only_compiled_crates_count() {
        let message = |reason: &str, fresh: bool| {
            serde_json::json!({"reason": reason, "fresh": fresh, "package_id": "a@1"}).to_string()
        };
        assert_eq!(built_crate(&message("compiler-artifact", false)).as_deref(), Some("a@1"));
        assert_eq!(built_crate(&message("compiler-artifact", true)), None);
        assert_eq!(built_crate(&message("build-script-executed", false)), None);
        assert_eq!(built_crate("not JSON"), None);
    }
}
