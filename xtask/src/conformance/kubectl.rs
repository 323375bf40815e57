//! The suite kubectl: runs the script of `conformance/kubectl` with the real kubectl, against `informer
//! serve` or a real server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::served::Running;
use super::{Conformance, Kind, with_server};
use crate::cargo::build_informer;
use crate::deadline::Deadline;
use crate::go::{Go, Module, target};
use crate::report::Report;

/// Time limit until a kubectl command that keeps running, such as a watch, has printed the expected output.
const SOON: Duration = Duration::from_secs(20);
/// Time limit for a kubectl command that must exit. A command that hangs is killed, so that it does not block
/// the following steps.
const ENDS: Duration = Duration::from_secs(120);
/// The command that `kubectl edit` runs instead of an editor. In an object of the script, it changes the
/// price of dates from 7 to 77.
const EDITOR: &str = "sed -i 's/date: \"7\"/date: \"77\"/'";

#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    sort: Sort,
    arguments: String,
    /// Strings that the output of kubectl must contain, in this order.
    shows: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Succeeds,
    Fails,
    GoesOn,
}

pub(super) fn run(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance kubectl");
    let outcome = match options.server {
        Kind::Embedded => embedded(root, &mut report),
        Kind::Real => with_server(root, "kubectl-real", &mut report, |folder, report| {
            script(root, &folder.join("admin.conf"), report)
        }),
    };
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

fn embedded(root: &Path, report: &mut Report) -> Result<(), String> {
    let informer = build_informer(root)?;
    let folder = target(root).join("kubectl");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let config = folder.join("kubeconfig");
    let mut serve = Command::new(informer);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(&config).stdout(Stdio::piped());
    let mut serve = Running(serve.spawn().map_err(|error| format!("cannot start the server: {error}"))?);
    let stdout = serve.0.stdout.take().ok_or("the server has no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| format!("the server's output ended: {error}"))?;
        if line.starts_with("kubeconfig written") {
            return script(root, &config, report);
        }
    }
    Err("the server exited before it was ready".to_owned())
}

/// Runs all steps of `conformance/kubectl/script.txt`. After a failed step, the following steps still run.
/// Reports each failed step as a problem.
fn script(root: &Path, config: &Path, report: &mut Report) -> Result<(), String> {
    let go = Go::find(root).map_err(|error| error.to_string())?;
    let program = go.build(Module::Servers, "kubectl").map_err(|error| error.to_string())?;
    let folder = root.join("conformance/kubectl");
    let text = fs::read_to_string(folder.join("script.txt"))
        .map_err(|error| format!("cannot read the script: {error}"))?;
    // kubectl gets a separate, empty home folder, because it must not use discovery data that it cached for
    // another server.
    let home = target(root).join("kubectl-home");
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).map_err(|error| format!("cannot create {}: {error}", home.display()))?;
    let kubectl = Kubectl { program, config: config.to_owned(), home, folder };
    let steps = read(&text)?;
    let (mut beside, mut failed) = (Vec::new(), 0_u32);
    for step in &steps {
        if let Err(why) = kubectl.step(step, &mut beside) {
            failed += 1;
            report.problems.push(format!("line {}, kubectl {}: {why}", step.line, step.arguments));
        }
    }
    report.figure("steps", steps.len() as f64);
    report.figure("failed", failed.into());
    Ok(())
}

struct Kubectl {
    program: PathBuf,
    config: PathBuf,
    home: PathBuf,
    folder: PathBuf,
}

impl Kubectl {
    fn step(&self, step: &Step, beside: &mut Vec<Running>) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot run kubectl: {error}");
        let mut command = Command::new(&self.program);
        let folder = self.folder.display().to_string();
        command.args(step.arguments.split(' ').map(|argument| argument.replace("{dir}", &folder)));
        command.env("KUBECONFIG", &self.config).env("HOME", &self.home).env("KUBE_EDITOR", EDITOR);
        if step.sort == Sort::GoesOn {
            let path = self.home.join(format!("beside-{}", beside.len()));
            let out = fs::File::create(&path).map_err(failed)?;
            beside.push(Running(command.stdout(out).stderr(Stdio::null()).spawn().map_err(failed)?));
            return soon(&path, &step.shows);
        }
        let (status, shown) = ended(&mut command, &self.home, ENDS)?;
        if status.success() != (step.sort == Sort::Succeeds) {
            return Err(format!("ended with {status}: {shown}"));
        }
        missing(&shown, &step.shows).map_or(Ok(()), |text| Err(format!("does not show {text:?}: {shown}")))
    }
}

/// Runs kubectl until it exits. Returns its exit status and its output: stdout, followed by stderr. If
/// kubectl exceeds the time limit, kills it and returns an error with the output.
fn ended(command: &mut Command, folder: &Path, limit: Duration) -> Result<(ExitStatus, String), String> {
    let failed = |error: std::io::Error| format!("cannot run kubectl: {error}");
    let paths = ["shown", "errors"].map(|name| folder.join(name));
    let [out, errors] = paths.each_ref().map(fs::File::create);
    command.stdin(Stdio::null()).stdout(out.map_err(failed)?).stderr(errors.map_err(failed)?);
    let mut running = Running(command.spawn().map_err(failed)?);
    let status = Deadline::after(limit).poll(|| running.0.try_wait().transpose());
    let shown: String = paths
        .iter()
        .map(|path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    match status {
        Some(status) => Ok((status.map_err(failed)?, shown)),
        None => Err(format!("has not ended within {limit:?}: {shown}")),
    }
}

/// Waits until the output file of a running kubectl contains all expected strings in order. Returns an error
/// after the time limit.
fn soon(path: &Path, texts: &[String]) -> Result<(), String> {
    let shown = || fs::read_to_string(path).unwrap_or_default();
    let complete = Deadline::after(SOON).poll(|| missing(&shown(), texts).is_none().then_some(()));
    complete.ok_or_else(|| format!("does not show all of {texts:?}: {}", shown()))
}

/// Returns the first of the expected strings `texts` that the output `shown` does not contain after the
/// previous one. Returns `None` if the output contains all of them in order.
fn missing<'a>(shown: &str, texts: &'a [String]) -> Option<&'a str> {
    let mut rest = shown;
    for text in texts {
        let Some(at) = rest.find(text.as_str()) else { return Some(text) };
        rest = &rest[at + text.len()..];
    }
    None
}

fn read(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        let (sign, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        let sort = match sign {
            "" | ">" => continue,
            "$ " => Sort::Succeeds,
            "! " => Sort::Fails,
            "& " => Sort::GoesOn,
            "> " => {
                let step = steps.last_mut().ok_or(format!("line {}: there is no step yet", index + 1))?;
                step.shows.push(rest.to_owned());
                continue;
            }
            _ if line.starts_with('#') => continue,
            _ => return Err(format!("line {} of the script is not a step: {line}", index + 1)),
        };
        steps.push(Step { line: index + 1, sort, arguments: rest.to_owned(), shows: Vec::new() });
    }
    if steps.is_empty() { Err("the script has no step".to_owned()) } else { Ok(steps) }
}

#[cfg(test)]
mod tests;
