//! The outcome of the tests of one Go package of controller-runtime: Ginkgo specs and plain tests, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Assets, EnvtestError, io_error, read};

/// Time limit for the tests of one package. The package that takes longest needs 80 s with the real
/// kube-apiserver and etcd, on idle cores.
pub(super) const PACKAGE_WAIT: Duration = Duration::from_secs(900);
/// The maximum number of characters of a failure message, which is reported in one line.
const MAX_MESSAGE_CHARS: usize = 300;
/// The maximum number of characters of a test's name; the rest is cut off. Names of Ginkgo table entries may
/// end with memory addresses and times, which differ between runs. A test must have the same name in both
/// compared runs.
const MAX_NAME_CHARS: usize = 400;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) passed: Vec<String>,
    pub(super) failed: BTreeMap<String, String>,
    pub(super) skipped: usize,
}

impl Outcome {
    pub(super) fn why(&self, test: &str) -> &str {
        self.failed.get(test).map_or("did not run", String::as_str)
    }

    fn add(&mut self, name: String, state: &str, why: String) {
        match state {
            // Several entries of a Ginkgo table may have the same name. If one of them fails, the name counts
            // only as failed, whatever the order of the entries: a pass would hide the failure.
            "passed" | "pass" if self.failed.contains_key(&name) => {}
            "passed" | "pass" => self.passed.push(name),
            "skipped" | "pending" | "skip" => self.skipped += 1,
            _ => {
                self.passed.retain(|passed| *passed != name);
                self.failed.insert(name, why);
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>4} passed {:>3} failed {:>3} skipped",
            self.passed.len(),
            self.failed.len(),
            self.skipped
        )
    }
}

/// One line in the output of `go test -json`: an event of a test, such as its start, its output or its end.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    action: String,
    test: Option<String>,
    output: Option<String>,
}

/// The results of one Ginkgo suite, as in Ginkgo's JSON report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Runs the tests of a package. If the test program aborts, it is run again, up to three times in total. Some
/// tests have a time limit of a millisecond, and abort the program when they exceed it, also with the real
/// kube-apiserver and etcd.
pub(super) fn of_package(
    module: &Path,
    modfile: &Path,
    package: &str,
    assets: &Assets,
) -> Result<Outcome, EnvtestError> {
    const MAX_RUNS: usize = 3;
    let mut outcome = run(module, modfile, package, assets);
    for _ in 1..MAX_RUNS {
        if let Err(error @ EnvtestError::Broken { .. }) = &outcome {
            eprintln!("{error}; running it again");
            outcome = run(module, modfile, package, assets);
        }
    }
    outcome
}

fn run(module: &Path, modfile: &Path, package: &str, assets: &Assets) -> Result<Outcome, EnvtestError> {
    let report = assets.data.join("ginkgo.json");
    // A test program that aborts writes no Ginkgo report. The report of the previously tested package is
    // therefore removed, so that it is not read instead.
    let _ = fs::remove_file(&report);
    fs::create_dir_all(&assets.data).map_err(io_error("create a folder for reports"))?;
    let timeout = PACKAGE_WAIT.as_secs();
    let output = Command::new("go")
        .current_dir(module)
        .args(["test", "-json", "-count=1", "-vet=off", &format!("-timeout={timeout}s")])
        .arg(format!("-modfile={}", modfile.display()))
        .arg(format!("sigs.k8s.io/controller-runtime/pkg/{package}"))
        .arg(format!("-ginkgo.json-report={}", report.display()))
        .env("KUBEBUILDER_ASSETS", &assets.programs)
        .env("XDG_DATA_HOME", &assets.data)
        .stderr(Stdio::inherit())
        .output()
        .map_err(io_error("run go test"))?;
    assets.sweep();
    let mut outcome = Outcome::default();
    let specs = if report.exists() { read::<Vec<Suite>>(&report)? } else { Vec::new() };
    let (has_specs, last) = plain(&String::from_utf8_lossy(&output.stdout), &mut outcome);
    if specs.is_empty() && has_specs {
        return Err(EnvtestError::Broken { package: package.to_owned(), why: last });
    }
    for spec in specs.into_iter().filter_map(|suite| suite.spec_reports).flatten() {
        add_spec(spec, &mut outcome);
    }
    outcome.passed.sort();
    Ok(outcome)
}

fn add_spec(spec: Spec, outcome: &mut Outcome) {
    let mut texts = spec.container_hierarchy_texts.unwrap_or_default();
    let why = one_line(&spec.failure.message);
    match spec.leaf_node_type.as_str() {
        "It" => {
            texts.push(spec.leaf_node_text);
            let name: String = texts.join(" ").chars().take(MAX_NAME_CHARS).collect();
            outcome.add(name, &spec.state, why);
        }
        // A Ginkgo node for setup or teardown is not a test, so it counts only if it fails: Ginkgo then skips
        // the specs that depend on it.
        kind if spec.state != "passed" => outcome.add(kind.to_owned(), &spec.state, why),
        _ => {}
    }
}

/// Adds the outcomes of plain Go tests, from the output of `go test -json`. Of a test with subtests, only the
/// subtests are counted. Returns whether a report of Ginkgo must exist (the package has a Ginkgo suite, or no
/// test ran), and the last line that a test printed.
fn plain(text: &str, outcome: &mut Outcome) -> (bool, String) {
    let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut printed: BTreeMap<&str, String> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.action == "output") {
        let kept = printed.entry(line.test.as_deref().unwrap_or_default()).or_default();
        kept.push_str(line.output.as_deref().unwrap_or_default());
    }
    let ended = |line: &&Line| matches!(line.action.as_str(), "pass" | "fail" | "skip");
    let mut suite = false;
    for line in lines.iter().filter(ended) {
        let Some(test) = line.test.as_deref() else { continue };
        let shown = printed.get(test).map(String::as_str).unwrap_or_default();
        // The Go test that runs the Ginkgo suite is not counted, because Ginkgo's report contains its specs.
        if shown.contains("Running Suite:") {
            suite = true;
            continue;
        }
        let parent = format!("{test}/");
        if !lines.iter().any(|other| other.test.as_deref().is_some_and(|other| other.starts_with(&parent))) {
            outcome.add(test.to_owned(), &line.action, one_line(shown));
        }
    }
    let mut last = printed.values().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
    (
        suite || lines.iter().all(|line| line.test.is_none()),
        last.next_back().unwrap_or("nothing was printed").to_owned(),
    )
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_failed_entry_counts_as_failed_in_every_order() {
        for states in [["passed", "failed", "passed"], ["failed", "passed", "passed"]] {
            let mut outcome = Outcome::default();
            states.iter().for_each(|state| outcome.add("entry".to_owned(), state, "why".to_owned()));
            assert_eq!((outcome.passed.len(), outcome.why("entry")), (0, "why"), "{states:?}");
        }
    }
}
