//! Mutation testing: runs cargo-mutants over the library crates. The unit tests and simulators of a crate
//! must catch its mutants.
//!
//! A run tests a sample of each crate's mutants, chosen by a seed, or all of them with `--all`.
//! `docs/mutants.md` has the table of the newest run; `conformance/mutants.txt` lists each surviving mutant
//! with the reason why no test catches it.

mod outcomes;
mod survivors;

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use self::outcomes::{Outcomes, Tally, read_outcomes, survivors_of};
use self::survivors::Survivors;
use crate::cargo::command;
use crate::deadline::Deadline;
use crate::report::Report;
use crate::tree::{self, Tree};

#[derive(Debug, Args)]
pub(crate) struct MutantsArguments {
    /// Test only mutants of this crate, for example `store`; may be repeated [default: core, store, cache,
    /// client, workqueue, control and runtime, which have a minimum share of caught mutants].
    #[arg(long = "crate", value_name = "NAME")]
    crates: Vec<String>,
    /// Number of mutants to draw from each crate; a crate with fewer mutants is tested completely.
    #[arg(long, default_value_t = 40)]
    sample: usize,
    /// Seed with which the sample of mutants is drawn. Has no effect with `--all`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Test every mutant of each crate instead of a sample. Takes hours.
    #[arg(long, conflicts_with = "sample")]
    all: bool,
}

/// A crate to mutate, and in `judges` the packages whose tests must catch its mutants.
struct Subject {
    name: &'static str,
    judges: &'static [&'static str],
    /// Features without which a part of the crate is neither built nor tested.
    features: &'static [&'static str],
    /// True if the tests must catch at least [`MIN_CAUGHT_PERCENT`] of the crate's mutants.
    judged: bool,
}

impl Subject {
    fn package(&self) -> String {
        format!("informer-{}", self.name)
    }

    fn feature_arguments(&self) -> impl Iterator<Item = String> {
        let name = self.package();
        self.features.iter().flat_map(move |feature| ["--features".to_owned(), format!("{name}/{feature}")])
    }
}

/// The crates that can be mutated. The simulator also tests the crates whose state machines it drives.
const SUBJECTS: [Subject; 12] = [
    judged("core", &["informer-core", "informer-store", "informer-cache"], &[]),
    judged("store", &["informer-store", "informer-cache", "informer-simulator"], &[]),
    judged("cache", &["informer-cache", "informer-client", "informer-simulator"], &["prometheus", "testing"]),
    judged("client", &["informer-client", "informer"], &["packed"]),
    judged("workqueue", &["informer-workqueue", "informer-simulator"], &["prometheus"]),
    judged("control", &["informer-control", "informer-simulator", "informer-runtime"], &[]),
    judged("runtime", &["informer-runtime", "informer"], &["console", "packed", "prometheus", "webhook"]),
    Subject { name: "schema", judges: &["informer-schema"], features: &[], judged: false },
    Subject { name: "apiserver", judges: &["informer-apiserver"], features: &["cel"], judged: false },
    Subject {
        name: "http",
        judges: &["informer-http", "informer-apiserver", "informer-runtime"],
        features: &[],
        judged: false,
    },
    Subject { name: "report", judges: &["informer-report"], features: &[], judged: false },
    Subject { name: "cli", judges: &["informer-cli"], features: &[], judged: false },
];

const fn judged(
    name: &'static str,
    judges: &'static [&'static str],
    features: &'static [&'static str],
) -> Subject {
    Subject { name, judges, features, judged: true }
}

/// Minimum share of viable mutants, in percent, that the tests of each crate whose `Subject::judged` is true
/// must catch. A mutant is viable if it compiles.
const MIN_CAUGHT_PERCENT: f64 = 90.0;

/// The minimum time limit of the tests with one mutant, in seconds. On a busy machine, a shorter limit could
/// expire although no test notices the mutant, which would then wrongly count as caught.
const MIN_TEST_TIMEOUT: u64 = 60;

/// The time limit of the tests with a mutant, as a multiple of their time without a mutant. It applies to the
/// tests of all packages of `Subject::judges` together.
const TIMEOUT_FACTOR: u64 = 5;

/// Configuration of cargo-mutants that excludes implementations of `Debug`: users do not rely on the format
/// of `Debug`, so no test checks it.
const EXCLUDED: &str = r#"exclude_re = ["impl (fmt::)?Debug for"]
"#;

pub(crate) fn run(root: &Path, arguments: &MutantsArguments) -> Report {
    let mut report = Report::new("mutants");
    if let Err(problem) = test_crates(root, arguments, &mut report) {
        report.problems.push(problem);
    }
    report
}

fn test_crates(root: &Path, arguments: &MutantsArguments, report: &mut Report) -> Result<(), String> {
    let known = Survivors::read(&root.join("conformance/mutants.txt"))?;
    let tree = tree::update(root, &root.join("target/cargo-mutants/tree"))?;
    let mut rows = Vec::new();
    for subject in selected(&arguments.crates)? {
        let tally = test_crate(&tree, subject, arguments)?;
        if tally.viable() == 0 {
            return Err(format!("informer-{}: no viable mutant was tested", subject.name));
        }
        let percent = tally.caught_percent();
        report.figure(format!("{}, mutants in all", subject.name), tally.total as f64);
        report.figure(format!("{}, viable mutants tested", subject.name), tally.viable() as f64);
        report.figure(format!("{}, caught percent", subject.name), percent);
        if subject.judged && percent < MIN_CAUGHT_PERCENT {
            let name = subject.name;
            report.problems.push(format!(
                "informer-{name}: {percent:.1} % of viable mutants were caught; at least {MIN_CAUGHT_PERCENT} % are required"
            ));
        }
        for survivor in tally.survivors.iter().filter(|survivor| !known.contains(survivor)) {
            report.problems.push(format!(
                "{survivor}: survived; add a test, or list it in conformance/mutants.txt with a reason"
            ));
        }
        rows.push(tally.row(subject.name));
    }
    println!("| crate | mutants | tested | unviable | caught | timed out | survived | caught of viable |");
    println!("|---|---|---|---|---|---|---|---|\n{}", rows.join("\n"));
    Ok(())
}

fn selected(names: &[String]) -> Result<Vec<&'static Subject>, String> {
    if names.is_empty() {
        return Ok(SUBJECTS.iter().filter(|subject| subject.judged).collect());
    }
    let find = |name: &String| {
        let known = SUBJECTS.iter().find(|subject| subject.name == name.trim_start_matches("informer-"));
        known.ok_or_else(|| {
            format!("unknown crate {name}; known are {}", SUBJECTS.map(|known| known.name).join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Tests a sample of a crate's mutants with the crate's own tests. Mutants that survive are then tested with
/// the tests of all packages of `Subject::judges`.
fn test_crate(tree: &Tree, subject: &Subject, arguments: &MutantsArguments) -> Result<Tally, String> {
    let all = list(tree, subject)?;
    let sample = if arguments.all { all.clone() } else { draw(&all, arguments.sample, arguments.seed) };
    let own = [subject.package()];
    let mut outcomes = Stage { tree, subject, judges: &own, name: "own" }.run(&sample, None)?;
    // There may be more outcomes: cargo-mutants also tests every mutant that deletes a field in the files of
    // the sample, even if no regular expression of the configuration selects it.
    let untested = sample.iter().filter(|mutant| !outcomes.contains_key(*mutant));
    if let Some(mutant) = untested.clone().next() {
        let (count, drawn) = (untested.count(), sample.len());
        let name = subject.name;
        return Err(format!(
            "informer-{name}: {count} of {drawn} mutants were not tested, the first is {mutant}"
        ));
    }
    let survivors = survivors_of(&outcomes);
    let judges: Vec<_> = subject.judges.iter().map(|judge| (*judge).to_owned()).collect();
    if judges != own && !survivors.is_empty() {
        let stage = Stage { tree, subject, judges: &judges, name: "judges" };
        let timeout = stage.test_without_mutant()?;
        let mut second = stage.run(&survivors, Some(timeout))?;
        for name in survivors {
            let outcome = second.remove(&name).ok_or_else(|| format!("{name} could not be tested"))?;
            outcomes.insert(name, outcome);
        }
    }
    Ok(Tally::new(all.len(), &outcomes))
}

struct Stage<'a> {
    tree: &'a Tree,
    subject: &'a Subject,
    judges: &'a [String],
    name: &'a str,
}

impl Stage<'_> {
    /// Tests the mutants whose names are in `mutants`. cargo-mutants also tests all mutants that delete a
    /// field in the files of these mutants, so the result may contain more mutants than `mutants`.
    ///
    /// If `timeout` is `None`, cargo-mutants first measures how long the tests of the unchanged crate take,
    /// and derives the time limit for the tests with each mutant from that. Otherwise `timeout` is this limit
    /// in seconds.
    fn run(&self, mutants: &[String], timeout: Option<u64>) -> Result<Outcomes, String> {
        let folder = self.tree.products.join(self.subject.name).join(self.name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("create {}: {error}", folder.display()))?;
        let config = folder.join("mutants.toml");
        std::fs::write(&config, configuration(mutants))
            .map_err(|error| format!("write {}: {error}", config.display()))?;
        let written = folder.join("mutants.out/outcomes.json");
        if written.exists() {
            // If cargo-mutants fails before it writes its outcomes, those of an earlier run must not be read
            // instead.
            std::fs::remove_file(&written)
                .map_err(|error| format!("remove {}: {error}", written.display()))?;
        }
        let mut command = self.cargo();
        command.args(["mutants", "--in-place", "--no-shuffle", "--colors", "never"]);
        command.args(["--package", &self.subject.package(), "--test-package", &self.judges.join(",")]);
        command.arg("--config").arg(&config).arg("--output").arg(&folder);
        match timeout {
            Some(seconds) => command.args(["--baseline", "skip", "--timeout", &seconds.to_string()]),
            None => command.args(["--minimum-test-timeout", &MIN_TEST_TIMEOUT.to_string()]),
        };
        // A mutant may leave code unused. With `--cap-lints`, the compiler's lints do not reject such a
        // mutant before the tests run.
        command.args(["--cap-lints", "true"]).args(self.subject.feature_arguments());
        command.status().map_err(|error| {
            format!("run cargo mutants: {error}; install it with `cargo install cargo-mutants`")
        })?;
        read_outcomes(&written)
    }

    /// Runs the tests of all packages of the stage on the unchanged code, because cargo-mutants does so only
    /// with the tests of the mutated crate. Returns the time limit for the tests with a mutant, in seconds.
    fn test_without_mutant(&self) -> Result<u64, String> {
        self.test(&["--no-run"])?;
        let clock = Deadline::after(Duration::MAX);
        self.test(&[])?;
        Ok((TIMEOUT_FACTOR * clock.elapsed().as_secs()).max(MIN_TEST_TIMEOUT))
    }

    fn test(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.cargo();
        command.arg("test").arg("--quiet").args(arguments).args(self.subject.feature_arguments());
        for judge in self.judges {
            command.args(["--package", judge]);
        }
        let judges = self.judges.join(", ");
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(format!("{judges}: the tests fail without any mutant")),
            Err(error) => Err(format!("run cargo test: {error}")),
        }
    }

    fn cargo(&self) -> Command {
        let mut command = command();
        command.current_dir(&self.tree.root);
        // All crates share one build folder, so that their common dependencies are built only once.
        command.env("CARGO_TARGET_DIR", self.tree.products.join("build"));
        command.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_INCREMENTAL", "1");
        // proptest does not shrink failing inputs: to catch a mutant, only the failure counts, and shrinking
        // takes time.
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command
    }
}

fn list(tree: &Tree, subject: &Subject) -> Result<Vec<String>, String> {
    let config = tree.products.join("list.toml");
    std::fs::write(&config, EXCLUDED).map_err(|error| format!("write {}: {error}", config.display()))?;
    let mut command = command();
    command.current_dir(&tree.root).args([
        "mutants",
        "--list",
        "--colors",
        "never",
        "--line-col",
        "true",
        "--package",
    ]);
    command.arg(subject.package()).arg("--config").arg(&config);
    let output = command.output().map_err(|error| format!("run cargo mutants: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "list mutants of informer-{}: {}; `cargo install cargo-mutants` installs the command",
            subject.name,
            text.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Draws at most `count` mutants, ordered by the hash of the seed and of their names without line and column.
/// A mutant of unchanged code keeps its place in this order when other code changes.
fn draw(all: &[String], count: usize, seed: u64) -> Vec<String> {
    let mut ordered: Vec<_> = all.iter().map(|name| (order(name, seed), name)).collect();
    ordered.sort();
    ordered.into_iter().take(count).map(|(_, name)| name.clone()).collect()
}

fn order(name: &str, seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, outcomes::without_position(name)).hash(&mut hasher);
    hasher.finish()
}

/// Returns a configuration of cargo-mutants whose regular expressions match exactly the mutants in `names`.
fn configuration(names: &[String]) -> String {
    let quoted = names.iter().map(|name| format!("  '''^{}$''',\n", escape(name)));
    let files: BTreeSet<_> = names.iter().filter_map(|name| name.split(':').next()).collect();
    let files = Vec::from_iter(files);
    format!("{EXCLUDED}examine_globs = {files:?}\nexamine_re = [\n{}]\n", quoted.collect::<String>())
}

fn escape(name: &str) -> String {
    let special = |character: char| r"\.+*?()|[]{}^$#&-~".contains(character);
    name.chars()
        .flat_map(|character| special(character).then_some('\\').into_iter().chain([character]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("crates/a/src/lib.rs:{n}:1: replace f{n} -> bool with true")).collect()
    }

    #[test]
    fn sample_is_the_same_for_a_seed_and_differs_between_seeds() {
        let all = names(100);
        assert_eq!(draw(&all, 10, 1), draw(&all, 10, 1));
        assert_ne!(draw(&all, 10, 1), draw(&all, 10, 2));
        assert_eq!(draw(&all, 1000, 1).len(), 100);
    }

    #[test]
    fn configuration_escapes_names_for_regular_expressions() {
        let text =
            configuration(&["src/a.rs:1:2: replace <impl T for A>::f -> Option<u8> with Some(0)".to_owned()]);
        assert!(
            text.contains(r"'''^src/a\.rs:1:2: replace <impl T for A>::f \-> Option<u8> with Some\(0\)$'''"),
            "{text}"
        );
    }

    #[test]
    fn unknown_crate_is_rejected_with_the_known_names() {
        let error = selected(&["informer-nothing".to_owned()]).err().unwrap();
        assert!(error.contains("unknown crate informer-nothing; known are core, store"), "{error}");
    }
}
