//! Runs deliberate defects of this library. Each is a small patch, which is applied to a scratch copy of the
//! tree and built. The simulator must find it from each of three seeds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::sections::{DefectRuns, of_defects};
use super::{SimulateArguments, Written, start};
use crate::cargo::command;
use crate::deadline::Deadline;
use crate::report::Report;

/// First seeds of the three runs for a defect. The schedules of a run have consecutive seeds, so these are
/// far enough apart that no schedule belongs to two runs.
const SEEDS: [u64; 3] = [1_000_000, 2_000_000, 3_000_000];

struct Simulator {
    package: &'static str,
    /// The folder of the simulator's package. Its subfolder `mutants` contains the patches of the defects.
    folder: &'static str,
    /// The crates of the scratch workspace in which defects are built.
    members: &'static [&'static str],
    /// The number of schedules from each first seed within which a defect must be found.
    schedules_max: u64,
    /// The time limit of the run from one first seed. It ends a run in which the defect causes an endless
    /// loop.
    time_max: Duration,
    arguments: &'static [&'static str],
}

const OF_STATES: Simulator = Simulator {
    package: "informer-simulator",
    folder: "conformance/simulator",
    members: &[
        "crates/informer-core",
        "crates/informer-store",
        "crates/informer-cache",
        "crates/informer-workqueue",
        "crates/informer-control",
        "conformance/simulator",
    ],
    schedules_max: 20_000,
    time_max: Duration::from_secs(30 * 60),
    arguments: &["--quiet"],
};

const OF_PROGRAMS: Simulator = Simulator {
    package: "informer-system-simulator",
    folder: "conformance/system-simulator",
    members: &[
        "crates/informer-core",
        "crates/informer-schema",
        "crates/informer-store",
        "crates/informer-cache",
        "crates/informer-workqueue",
        "crates/informer-control",
        "crates/informer-client",
        "crates/informer-http",
        "crates/informer-apiserver",
        "crates/informer-runtime",
        "conformance/simulator",
        "conformance/system-simulator",
    ],
    schedules_max: 200,
    time_max: Duration::from_secs(10 * 60),
    arguments: &[],
};

struct Scratch {
    simulator: Simulator,
    tree: PathBuf,
    target: PathBuf,
    patches: Vec<PathBuf>,
}

pub(super) fn run(root: &Path, arguments: &SimulateArguments) -> Report {
    let mut report = Report::new("simulate --mutants");
    let simulator = if arguments.system { OF_PROGRAMS } else { OF_STATES };
    let mut scratch = match Scratch::prepare(root, simulator, arguments.only.as_deref()) {
        Ok(scratch) => scratch,
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    };
    if let Some(count) = arguments.sample {
        scratch.patches = sample(scratch.patches, count, arguments.seed.unwrap_or_default());
    }
    let deadline = arguments.seconds.map(|seconds| Deadline::after(Duration::from_secs(seconds)));
    let (mut rows, mut defects, mut tried) = (Vec::new(), Vec::new(), 0);
    for patch in &scratch.patches {
        if deadline.as_ref().is_some_and(|deadline| deadline.elapsed() >= deadline.limit()) {
            break;
        }
        tried += 1;
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match scratch.try_out(patch) {
            Ok(found) => {
                let row = found.row(&name);
                println!("{row}");
                rows.push(row);
                defects.push(found.runs(&name));
                let missed = found.0.iter().zip(SEEDS).filter(|((_, invariant), _)| invariant.is_none());
                report.problems.extend(missed.map(|(_, seed)| {
                    let most = scratch.simulator.schedules_max;
                    format!("{name}: not found in {most} schedules from the seed {seed}")
                }));
            }
            Err(problem) => report.problems.push(format!("{name}: {problem}")),
        }
    }
    println!("\n| defect | schedules, by seed | invariant |\n|---|---|---|\n{}", rows.join("\n"));
    of_defects(&defects, &SEEDS, &mut report);
    report.figure("defects", f64::from(tried));
    report.figure("defects that were built and run", rows.len() as f64);
    report
}

/// Draws `count` of the patches at random, or all if there are fewer. Samples of different seeds differ, and
/// soon cover all patches, so that a run need not build all of them.
fn sample(mut patches: Vec<PathBuf>, count: usize, seed: u64) -> Vec<PathBuf> {
    // Multiplication by the golden ratio spreads consecutive seeds evenly, so that they draw different
    // samples.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut drawn = Vec::new();
    while drawn.len() < count && !patches.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        drawn.push(patches.swap_remove((state >> 33) as usize % patches.len()));
    }
    drawn
}

/// The result of the runs with one defect. For each first seed it contains the number of schedules that ran,
/// and the invariant that the last of them violated; `None` if all invariants held.
struct DefectResult([(u64, Option<String>); SEEDS.len()]);

impl DefectResult {
    fn row(&self, name: &str) -> String {
        let count = |(count, invariant): &(u64, Option<String>)| match invariant {
            Some(_) => count.to_string(),
            None => "not found".to_owned(),
        };
        format!("| {name} | {} | {} |", self.0.each_ref().map(count).join(", "), self.invariants())
    }

    /// Returns the names of the violated invariants, separated by commas.
    fn invariants(&self) -> String {
        let mut broken: Vec<&str> = self.0.iter().filter_map(|(_, invariant)| invariant.as_deref()).collect();
        broken.sort_unstable();
        broken.dedup();
        broken.join(", ")
    }

    fn runs(&self, name: &str) -> DefectRuns {
        let runs = self.0.iter().map(|(count, invariant)| (*count, invariant.is_some())).collect();
        DefectRuns { name: name.to_owned(), runs, invariants: self.invariants() }
    }
}

impl Scratch {
    fn prepare(root: &Path, simulator: Simulator, only: Option<&str>) -> Result<Self, String> {
        let place = root.join("target").join("mutants").join(simulator.package);
        let (tree, target) = (place.join("tree"), place.join("build"));
        for part in simulator.members.iter().chain(&["clippy.toml"]) {
            copy(&root.join(part), &tree.join(part))?;
        }
        let manifest = of_the_copy(&read(&root.join("Cargo.toml"))?, simulator.members)?;
        write_if_changed(&tree.join("Cargo.toml"), manifest.as_bytes())?;
        write_if_changed(&tree.join("Cargo.lock"), read(&root.join("Cargo.lock"))?.as_bytes())?;
        let folder = root.join(simulator.folder).join("mutants");
        let entries = std::fs::read_dir(&folder)
            .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".patch")
                && only.is_none_or(|only| only.split(',').any(|part| name.contains(part)))
        };
        let mut patches: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
        patches.sort();
        Ok(Self { simulator, tree, target, patches })
    }

    fn try_out(&self, patch: &Path) -> Result<DefectResult, String> {
        self.apply(patch, &[])?;
        let found = self.build().and_then(|()| self.search());
        self.apply(patch, &["--reverse"])?;
        found
    }

    fn search(&self) -> Result<DefectResult, String> {
        let mut found = DefectResult([const { (0, None) }; SEEDS.len()]);
        for (seed, place) in SEEDS.into_iter().zip(&mut found.0) {
            let written = self.simulate(seed)?;
            let schedules = written.figures.iter().find(|(name, _)| name == "schedules");
            *place = (schedules.map_or(0, |(_, count)| *count as u64), written.invariant);
        }
        Ok(found)
    }

    /// Runs `git apply` in the scratch copy, with `how` as additional arguments. `GIT_CEILING_DIRECTORIES`
    /// hides the repository that contains the copy, in which git would skip the files of the copy.
    fn apply(&self, patch: &Path, how: &[&str]) -> Result<(), String> {
        let mut command = Command::new("git");
        command.arg("apply").args(how).arg(patch).current_dir(&self.tree);
        command.env("GIT_CEILING_DIRECTORIES", self.tree.parent().unwrap_or(&self.tree));
        succeed(command).map(drop).map_err(|error| format!("the patch does not apply: {error}"))
    }

    fn build(&self) -> Result<(), String> {
        let mut command = command();
        command.args(["build", "--quiet", "--release", "--package", self.simulator.package]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        // The simulator is built with little optimization. It finds most defects after few schedules, so the
        // time of the build matters more than the speed of the simulator.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("RUSTFLAGS", "-A warnings");
        succeed(command).map(drop).map_err(|error| format!("it does not build: {error}"))
    }

    fn simulate(&self, seed: u64) -> Result<Written, String> {
        let mut command = Command::new(self.target.join("release").join(self.simulator.package));
        let schedules = self.simulator.schedules_max.to_string();
        command.args(["--schedules", &schedules, "--seed", &seed.to_string()]).args(self.simulator.arguments);
        start(command, &self.target.join("found.json"), Some(self.simulator.time_max))
    }
}

/// Returns the `Cargo.toml` of the scratch copy: that of the workspace, with only the copied members and
/// without default members.
fn of_the_copy(manifest: &str, members: &[&str]) -> Result<String, String> {
    let unknown = || "the workspace's manifest has no list of members".to_owned();
    let (before, rest) = manifest.split_once("\nmembers = [").ok_or_else(unknown)?;
    let (_, after) = rest.split_once(']').ok_or_else(unknown)?;
    let ours: Vec<_> = members.iter().map(|part| format!("{part:?}")).collect();
    let after: Vec<_> = after.lines().filter(|line| !line.starts_with("default-members")).collect();
    Ok(format!("{before}\nmembers = [{}]{}\n", ours.join(", "), after.join("\n")))
}

fn succeed(mut command: Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Copies a file or a folder. Equal files are not written, so that cargo rebuilds only what changed.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn patches(count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| PathBuf::from(format!("{number}.patch"))).collect()
    }

    #[test]
    fn sample_is_decided_by_its_seed_and_has_no_duplicates() {
        let mut drawn = sample(patches(84), 20, 7);
        assert_eq!(drawn, sample(patches(84), 20, 7));
        assert_ne!(drawn, sample(patches(84), 20, 8));
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), 20);
        assert_eq!(sample(patches(3), 20, 7).len(), 3);
    }

    #[test]
    fn samples_of_many_seeds_cover_every_patch() {
        let covered: std::collections::HashSet<_> =
            (0..100).flat_map(|seed| sample(patches(84), 8, seed)).collect();
        assert_eq!(covered.len(), 84);
    }

    #[test]
    fn row_names_the_schedules_of_each_seed() {
        let found =
            DefectResult([(3, Some("barrier".to_owned())), (20_000, None), (5, Some("barrier".to_owned()))]);
        assert_eq!(found.row("lost-event"), "| lost-event | 3, not found, 5 | barrier |");
    }
}
