//! Benchmarks of build times: from a cold cache, compared with a controller on kube-rs, and after a change of
//! one line.
//!
//! A cold build is measured by the processor time of cargo and of all compilers that it starts, because other
//! load on the machine hardly changes that time. A rebuild is measured in wall-clock time, because that is
//! how long a developer waits.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::report::Report;
use crate::{cargo, tree};

/// Maximum processor time of a cold build for `cargo run --release -- demo`, the first command of the README,
/// as a multiple of that of a controller on kube-rs.
const MAX_DEMO: f64 = 1.3;
/// Maximum processor time, and maximum number of crates, of a cold build of a controller on this library, as
/// a multiple of those of a controller on kube-rs.
const MAX_CONTROLLER: f64 = 1.15;
/// Maximum time of rebuilding the `informer` command after a change of `informer-cache`.
const MAX_REBUILD: Duration = Duration::from_secs(20);
/// Maximum time of rebuilding all tests after a change of `informer-apiserver`.
const MAX_TESTS: Duration = Duration::from_secs(90);

const DEMO: &[&str] = &["build", "--release", "-p", "informer-cli"];
const TESTS: &[&str] = &["test", "--workspace", "--no-run"];

/// Options of `cargo xtask bench build`. Each build runs once; `--runs` has no effect.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Also build all tests, and build them again after a change of `informer-apiserver`.
    #[arg(long)]
    tests: bool,
    /// Skip the cold builds, and measure only the rebuilds after a change of one line.
    #[arg(long)]
    rebuilds: bool,
}

#[derive(Debug)]
struct Cost {
    crates: usize,
    cpu: Option<Duration>,
    wall: Duration,
}

pub(crate) fn run(root: &Path, options: &Build) -> Report {
    let mut report = Report::new("bench build");
    if let Err(error) = measure(root, options, &mut report) {
        report.problems.push(error);
    }
    report
}

fn measure(root: &Path, options: &Build, report: &mut Report) -> Result<(), String> {
    let products = root.join("target/bench-build");
    if !options.rebuilds {
        let kube_rs = root.join("conformance/kube-rs");
        let peer = &["build", "--release", "--bin", "website"];
        let peer = cold(&kube_rs, peer, &products.join("kube-rs"), "controller of kube-rs", report)?;
        let ours = &["build", "--release", "-p", "website-operator"];
        let ours = cold(root, ours, &products.join("controller"), "controller of informer", report)?;
        let demo = cold(root, DEMO, &products.join("demo"), "command with the demo", report)?;
        judge(report, "controller, CPU s", ratio(ours.cpu, peer.cpu), MAX_CONTROLLER);
        judge(report, "controller, crates", Some(ours.crates as f64 / peer.crates as f64), MAX_CONTROLLER);
        judge(report, "command with the demo, CPU s", ratio(demo.cpu, peer.cpu), MAX_DEMO);
    }
    let tree = tree::update(root, &products.join("tree"))?.root;
    // The cold build of the `informer` command leaves its compiled dependencies in the build folder `demo`.
    // The rebuilds use the same folder, so that they do not compile the dependencies again.
    let folder = products.join("demo");
    rebuild(&tree, DEMO, &folder, "crates/informer-cache/src/lib.rs", MAX_REBUILD, report)?;
    if options.tests {
        rebuild(&tree, TESTS, &folder, "crates/informer-apiserver/src/lib.rs", MAX_TESTS, report)?;
    }
    Ok(())
}

/// Runs the cargo command `build` in a build folder that is emptied first, so that every crate is compiled.
/// Reports the number of compiled crates, the processor time and the wall-clock time.
fn cold(root: &Path, build: &[&str], folder: &Path, name: &str, report: &mut Report) -> Result<Cost, String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("empty {}: {error}", folder.display()))?;
    }
    println!("{name}: cargo {}", build.join(" "));
    let cost = timed(root, build, folder)?;
    println!("{cost:?}");
    report.figure(format!("{name}, crates"), cost.crates as f64);
    if let Some(cpu) = cost.cpu {
        report.figure(format!("{name}, CPU s"), cpu.as_secs_f64());
    }
    report.figure(format!("{name}, s"), cost.wall.as_secs_f64());
    Ok(cost)
}

/// Runs the cargo command `build`, appends a line to the source file `file`, and measures a second build. It
/// is reported as a problem if the second build takes longer than `limit`.
fn rebuild(
    tree: &Path,
    build: &[&str],
    folder: &Path,
    file: &str,
    limit: Duration,
    report: &mut Report,
) -> Result<(), String> {
    let name = format!("cargo {} after a line of {file}", build.join(" "));
    println!("{name}");
    timed(tree, build, folder)?;
    append_line(&tree.join(file)).map_err(|error| format!("change {file}: {error}"))?;
    let cost = timed(tree, build, folder)?;
    report.figure(format!("{name}, crates"), cost.crates as f64);
    report.figure(format!("{name}, s"), cost.wall.as_secs_f64());
    if cost.wall > limit {
        let took = cost.wall.as_secs_f64();
        report.problems.push(format!("{name}: {took:.0} s, at most {} s", limit.as_secs()));
    }
    Ok(())
}

fn append_line(file: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new().append(true).open(file)?.write_all(b"const _: () = ();\n")
}

#[expect(clippy::disallowed_methods, reason = "a build of cargo takes real time")]
fn timed(root: &Path, build: &[&str], folder: &Path) -> Result<Cost, String> {
    let (began, cpu_before) = (Instant::now(), cpu_of_children());
    let mut command = cargo::command();
    command.current_dir(root).args(build).args(["--locked", "--message-format", "json-render-diagnostics"]);
    command.env("CARGO_TARGET_DIR", folder).env("CARGO_TERM_QUIET", "true").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let messages = child.stdout.take().map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
    let crates: BTreeSet<String> =
        messages.into_iter().flatten().filter_map(|line| built_crate(&line)).collect();
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo {} failed", build.join(" ")));
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

/// Returns the processor time of all child processes for which this process has waited, and of their
/// children. `None` on systems without `/proc`.
fn cpu_of_children() -> Option<Duration> {
    let stat = fs::read_to_string(PathBuf::from("/proc/self/stat")).ok()?;
    cpu_in_stat(&stat)
}

/// Returns the sum of the fields `cutime` and `cstime` of `/proc/PID/stat`: the processor time of the child
/// processes for which the process has waited.
fn cpu_in_stat(stat: &str) -> Option<Duration> {
    /// `/proc/PID/stat` contains times as ticks of `USER_HZ`, which is 100 a second on all systems with
    /// Linux.
    const TICKS_PER_SECOND: u64 = 100;
    // The second field of `/proc/PID/stat` is the program's name in parentheses, which may itself contain
    // spaces and parentheses. Only the last `)` ends this field.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let total = ticks()? + ticks()?;
    Some(Duration::from_millis(total * 1000 / TICKS_PER_SECOND))
}

fn ratio(ours: Option<Duration>, peer: Option<Duration>) -> Option<f64> {
    ours.zip(peer).map(|(ours, peer)| ours.as_secs_f64() / peer.as_secs_f64())
}

fn judge(report: &mut Report, name: &str, ratio: Option<f64>, limit: f64) {
    let Some(ratio) = ratio else { return };
    report.figure(format!("{name}, times kube-rs"), ratio);
    if ratio > limit {
        report.problems.push(format!("{name}: {ratio:.2} times kube-rs, at most {limit}"));
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
