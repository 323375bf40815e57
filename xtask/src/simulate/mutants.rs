//! Deliberate defects: each is a small patch, applied to a scratch copy of the tree, built, and run until the simulator finds it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Written, start};
use crate::cargo::command;
use crate::report::Report;

/// A defect must be found within so many schedules.
const SCHEDULES_MAX: u64 = 100_000;

/// What the scratch copy needs to be a workspace, beside its manifest.
const COPIED: [&str; 7] = [
    "crates/informer-core",
    "crates/informer-store",
    "crates/informer-cache",
    "crates/informer-workqueue",
    "crates/informer-control",
    "conformance/simulator",
    "clippy.toml",
];

/// The copy, its patches, and where it is built.
struct Scratch {
    tree: PathBuf,
    target: PathBuf,
    patches: Vec<PathBuf>,
}

pub(super) fn run(root: &Path, only: Option<&str>) -> Report {
    let mut report = Report::new("simulate --mutants");
    let scratch = match Scratch::prepare(root, only) {
        Ok(scratch) => scratch,
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    };
    let mut rows = Vec::new();
    for patch in &scratch.patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match scratch.try_out(patch) {
            Ok((schedules, Some(invariant))) => {
                println!("{name:<44} {schedules:>7}  {invariant}");
                rows.push(format!("| {name} | {schedules} | {invariant} |"));
            }
            Ok((_, None)) => report.problems.push(format!("{name}: not found in {SCHEDULES_MAX} schedules")),
            Err(problem) => report.problems.push(format!("{name}: {problem}")),
        }
    }
    println!("\n| defect | schedules | invariant |\n|---|---|---|\n{}", rows.join("\n"));
    report.figure("defects", scratch.patches.len() as f64);
    report.figure("defects found", rows.len() as f64);
    report
}

impl Scratch {
    fn prepare(root: &Path, only: Option<&str>) -> Result<Self, String> {
        let place = root.join("target").join("mutants");
        let (tree, target) = (place.join("tree"), place.join("build"));
        for part in COPIED {
            copy(&root.join(part), &tree.join(part))?;
        }
        let manifest = of_the_copy(&read(&root.join("Cargo.toml"))?)?;
        write_if_changed(&tree.join("Cargo.toml"), manifest.as_bytes())?;
        write_if_changed(&tree.join("Cargo.lock"), read(&root.join("Cargo.lock"))?.as_bytes())?;
        let folder = root.join("conformance/simulator/mutants");
        let entries = std::fs::read_dir(&folder)
            .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".patch")
                && only.is_none_or(|only| only.split(',').any(|part| name.contains(part)))
        };
        let mut patches: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
        patches.sort();
        Ok(Self { tree, target, patches })
    }

    /// How many schedules it took to find a defect, and which invariant it broke.
    fn try_out(&self, patch: &Path) -> Result<(u64, Option<String>), String> {
        self.apply(patch, &[])?;
        let found = self.build().and_then(|()| self.simulate());
        self.apply(patch, &["--reverse"])?;
        let written = found?;
        let schedules = written.figures.iter().find(|(name, _)| name == "schedules");
        Ok((schedules.map_or(0, |(_, count)| *count as u64), written.invariant))
    }

    /// Outside of the repository around it, or git would leave out what is not its own.
    fn apply(&self, patch: &Path, how: &[&str]) -> Result<(), String> {
        let mut command = Command::new("git");
        command.arg("apply").args(how).arg(patch).current_dir(&self.tree);
        command.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree));
        succeed(command).map(drop).map_err(|error| format!("the patch does not apply: {error}"))
    }

    fn build(&self) -> Result<(), String> {
        let mut command = command();
        command.args(["build", "--quiet", "--release", "--package", "informer-simulator"]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        // Most defects are found soon: what counts is how soon it is built.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("RUSTFLAGS", "-A warnings");
        succeed(command).map(drop).map_err(|error| format!("it does not build: {error}"))
    }

    fn simulate(&self) -> Result<Written, String> {
        let mut command = Command::new(self.target.join("release").join("informer-simulator"));
        command.args(["--schedules", &SCHEDULES_MAX.to_string(), "--quiet"]);
        start(command, &self.target.join("found.json"))
    }
}

/// The manifest of the workspace with the members that are copied.
fn of_the_copy(manifest: &str) -> Result<String, String> {
    let unknown = || "the workspace's manifest has no list of members".to_owned();
    let (before, rest) = manifest.split_once("\nmembers = [").ok_or_else(unknown)?;
    let (_, after) = rest.split_once(']').ok_or_else(unknown)?;
    let ours: Vec<_> = COPIED[..COPIED.len() - 1].iter().map(|part| format!("{part:?}")).collect();
    let after: Vec<_> = after.lines().filter(|line| !line.starts_with("default-members")).collect();
    Ok(format!("{before}\nmembers = [{}]{}\n", ours.join(", "), after.join("\n")))
}

fn succeed(mut command: Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Copies a file or a folder, and touches only what differs, so that only that is built anew.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if from.is_file() {
        let bytes =
            std::fs::read(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
        return write_if_changed(to, &bytes);
    }
    let entries =
        std::fs::read_dir(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    for entry in entries.flatten() {
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)
}
