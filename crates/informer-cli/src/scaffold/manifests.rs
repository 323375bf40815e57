//! `informer manifests`: the generated manifests of a project, and its roles.
//!
//! The CRDs follow from the project's types, and the used permissions from its tests. So the command runs
//! tests of the project and reads their output: lines of `ManifestsReport` and of `PermissionComparison`.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;

use super::change::find_project;
use crate::failure::Failure;

/// Write the generated manifests of the project in the current folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Generated are the CRDs from the types of the project, the webhook configurations from its webhooks,
and the copies in the Helm chart of the manifests in `config`.

Runs `cargo test --test manifests` in the project. With --check, it also runs the tests whose
names begin with `role_grants`.

Output: written, unchanged, removed or stale, and a path. A permission that differs has the file
and the line of its rule.")]
pub(crate) struct ManifestsArguments {
    /// Write nothing. Exit with 1 if a manifest is stale, or if a role grants other permissions than its
    /// controller uses in the tests.
    #[arg(long)]
    check: bool,
}

/// The environment variable with which `tests/manifests.rs` of a project writes the generated manifests, and
/// does not compare them.
const UPDATE: &str = "UPDATE_MANIFESTS";

/// The phrases by which lines of `PermissionComparison` are recognized in the output of tests.
const DIFFERENCES: [&str; 2] = [": granted and never used: ", ": used and not granted: "];

pub(super) fn run(arguments: &ManifestsArguments) -> Result<(), Failure> {
    let (folder, _) = find_project()?;
    let test = ["test", "--test", "manifests", "--", "--nocapture"];
    let output = cargo(&folder, &test, !arguments.check)?;
    let states = states(&output.text);
    states.iter().for_each(|(state, path)| println!("{state} {path}"));
    let stale = states.iter().filter(|(state, _)| *state == "stale").count();
    if states.is_empty() || (!output.is_success && stale == 0) {
        return Err(output.failure("cargo test --test manifests"));
    }
    if !arguments.check {
        return Ok(());
    }

    let output = cargo(&folder, &["test", "--no-fail-fast", "role_grants"], false)?;
    let differences = differences(&output.text);
    differences.iter().for_each(|difference| println!("{difference}"));
    if !output.is_success && differences.is_empty() {
        return Err(output.failure("cargo test role_grants"));
    }
    let tests = passed(&output.text);
    if differences.is_empty() && tests == 0 {
        eprintln!("warning: no role was checked, because no test has a name that begins with role_grants");
    }
    let remedy = match (stale, differences.len()) {
        (0, 0) => return Ok(()),
        (_, 0) => "run `informer manifests`",
        _ => "edit the roles, then run `informer manifests`",
    };
    let found = differences.len();
    Err(Failure::new(format!(
        "check the manifests: stale files: {stale}, permissions that differ: {found}; {remedy}"
    )))
}

/// The result of a cargo command that ran tests of the project. Its stderr was not captured, so the user has
/// seen it.
struct CargoOutput {
    is_success: bool,
    /// The stdout of the cargo command.
    text: String,
}

impl CargoOutput {
    /// Prints the output of a cargo command that failed for another reason than the expected differences,
    /// such as a compiler error. Returns the failure.
    fn failure(&self, command: &str) -> Failure {
        print!("{}", self.text);
        Failure::new(format!("{command} failed; the output above has the errors"))
    }
}

fn cargo(folder: &Path, arguments: &[&str], update: bool) -> Result<CargoOutput, Failure> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    cargo.args(arguments).current_dir(folder).env_remove(UPDATE);
    if update {
        cargo.env(UPDATE, "1");
    }
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| Failure::io("run cargo", error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(CargoOutput { is_success: output.status.success(), text })
}

/// Returns the states and paths of manifests in the output of the test that generates them, one for each line
/// `STATE PATH`.
fn states(output: &str) -> Vec<(&str, &str)> {
    let known = ["written", "unchanged", "removed", "stale"];
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (state, path) in output.lines().filter_map(|line| line.split_once(' ')) {
        let is_file = path.starts_with("config/") || path.starts_with("charts/");
        if known.contains(&state) && is_file && !found.contains(&(state, path)) {
            found.push((state, path));
        }
    }
    found
}

/// Finds the lines in the output of `cargo test` in which role tests report a difference between the
/// permissions of a role and those that the controllers used.
fn differences(output: &str) -> Vec<&str> {
    let is_difference = |line: &&str| DIFFERENCES.iter().any(|phrase| line.contains(phrase));
    let mut found: Vec<&str> = Vec::new();
    for line in output.lines().map(str::trim).filter(is_difference) {
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

/// Returns the number of passed tests, as the output of `cargo test` states it.
fn passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
    results.filter_map(|(_, counts)| counts.split_once(" passed")?.0.parse::<usize>().ok()).sum()
}
