//! The suite on disk: all scenarios, their recorded responses and the list of known differences.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt};
use thiserror::Error;

use crate::compare::{Difference, Differences, compare};
use crate::run::{RunError, Transcript, run};
use crate::scenario::Scenario;
use crate::target::Target;

/// The maximum number of runs per scenario. The responses are recorded once two runs agree, which excludes
/// effects of concurrent work of the real server.
pub const MAX_RUNS: usize = 6;

/// The suite of scenarios in a folder.
#[derive(Debug)]
pub struct Suite {
    root: PathBuf,
    /// The scenarios of the suite, sorted by name.
    pub scenarios: Vec<Scenario>,
    /// The list of known differences.
    pub known: Differences,
}

/// The result of a run of the suite.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of scenarios that ran.
    pub scenarios: usize,
    /// Number of compared responses and reads from watches.
    pub responses: usize,
    /// Differences that no rule of the list of known differences covers.
    pub unknown: Vec<Difference>,
    /// How often each known difference occurred, in the order of the rules of the list.
    pub known: Vec<usize>,
}

/// The error of a suite that cannot be read, run or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The path of the file that cannot be read or written.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file of the suite is invalid.
    #[error("{} is invalid: {why}", path.display())]
    Shape {
        /// The path of the invalid file.
        path: PathBuf,
        /// The reason why the file is invalid.
        why: String,
    },
    /// A scenario could not be run.
    #[error("a scenario could not be run")]
    Run(#[from] RunError),
}

impl Suite {
    /// Reads the suite in a folder, with the scenarios whose name contains `filter`.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or parsed.
    pub fn open(root: &Path, filter: &str) -> Result<Self, SuiteError> {
        let mut files = Vec::new();
        collect(&root.join("scenarios"), &mut files)?;
        files.sort_unstable();
        let mut scenarios = Vec::new();
        for file in files {
            let name = file.strip_prefix(root.join("scenarios")).unwrap_or(&file).with_extension("");
            let name = name.to_string_lossy().into_owned();
            if name.contains(filter) {
                let scenario: Scenario = yaml(&file)?;
                scenarios.push(Scenario { name, ..scenario });
            }
        }
        let known = yaml(&root.join("differences.yaml"))?;
        Ok(Self { root: root.to_owned(), scenarios, known })
    }

    /// Reads the suite of this package.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open).
    pub fn own() -> Result<Self, SuiteError> {
        Self::open(Path::new(env!("CARGO_MANIFEST_DIR")), "")
    }

    /// Runs all scenarios and compares the responses with the recorded ones. Up to `parallel` scenarios run
    /// at the same time. A scenario with unknown differences is then run again, up to `tries` times in all.
    ///
    /// It is run again alone, because the versions of lists and bookmarks depend on the writes of other
    /// scenarios. It is repeated, because a real server orders field managers by the second of their writes,
    /// and errors of map fields at random.
    ///
    /// # Errors
    ///
    /// When a scenario has no recording.
    pub async fn check(&self, target: &Target, tries: usize, parallel: usize) -> Result<Outcome, SuiteError> {
        let mut outcome = Outcome { known: vec![0; self.known.0.len()], ..Outcome::default() };
        let first_runs: Vec<_> = futures_util::stream::iter(&self.scenarios)
            .map(|scenario| async move {
                let recorded = self.recorded(scenario)?;
                let (responses, differences) = differences_of(scenario, target, &recorded, 0).await;
                Ok::<_, SuiteError>((scenario, recorded, responses, differences))
            })
            .buffered(parallel.max(1))
            .try_collect()
            .await?;
        for (scenario, recorded, responses, mut differences) in first_runs {
            for number in 1..tries {
                if differences.iter().all(|difference| self.known.rule_of(difference).is_some()) {
                    break;
                }
                (_, differences) = differences_of(scenario, target, &recorded, number).await;
            }
            outcome.scenarios += 1;
            outcome.responses += responses;
            for difference in differences {
                match self.known.rule_of(&difference) {
                    Some(rule) => outcome.known[rule] += 1,
                    None => outcome.unknown.push(difference),
                }
            }
        }
        Ok(outcome)
    }

    /// Runs all scenarios on the real server and records the responses. If the responses of a scenario vary
    /// in every run, the scenario is not recorded, and the differences between two of its runs are returned.
    ///
    /// # Errors
    ///
    /// When a scenario cannot be run.
    pub async fn record(&self, target: &Target) -> Result<Outcome, SuiteError> {
        let mut outcome = Outcome::default();
        for scenario in &self.scenarios {
            let transcript = match steady(scenario, target).await? {
                Runs::Agree(transcript) => transcript,
                Runs::Differ(apart) => {
                    outcome.unknown.extend(apart);
                    continue;
                }
            };
            outcome.scenarios += 1;
            outcome.responses += transcript.responses.len();
            let path = self.recording(scenario);
            let text =
                serde_json::to_string_pretty(&transcript).expect("transcripts can be serialized") + "\n";
            let written =
                fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| fs::write(&path, text));
            written.map_err(|source| SuiteError::File { path, source })?;
        }
        Ok(outcome)
    }

    fn recording(&self, scenario: &Scenario) -> PathBuf {
        self.root.join("recorded").join(&scenario.name).with_extension("json")
    }

    fn recorded(&self, scenario: &Scenario) -> Result<Transcript, SuiteError> {
        let path = self.recording(scenario);
        let text = fs::read(&path).map_err(|source| SuiteError::File { path: path.clone(), source })?;
        serde_json::from_slice(&text).map_err(|error| SuiteError::Shape { path, why: error.to_string() })
    }
}

/// Runs a scenario. Returns the number of responses, and the differences from the recording.
async fn differences_of(
    scenario: &Scenario,
    target: &Target,
    recorded: &Transcript,
    number: usize,
) -> (usize, Vec<Difference>) {
    match run(scenario, target, &id(number)).await {
        Ok(transcript) => (transcript.responses.len(), compare(&scenario.name, recorded, &transcript)),
        Err(error) => {
            let stuck = Difference {
                scenario: scenario.name.clone(),
                at: error.to_string(),
                real: "a response with which the scenario can continue".to_owned(),
                embedded: "another response".to_owned(),
            };
            (0, vec![stuck])
        }
    }
}

/// Repeated runs of a scenario on one server.
enum Runs {
    /// Two runs in a row had these responses.
    Agree(Transcript),
    /// No two runs in a row agreed; contains the differences of the last two.
    Differ(Vec<Difference>),
}

/// Runs a scenario until two runs agree.
async fn steady(scenario: &Scenario, target: &Target) -> Result<Runs, SuiteError> {
    let mut last = run(scenario, target, &id(0)).await?;
    let mut apart = Vec::new();
    for number in 1..MAX_RUNS {
        let next = run(scenario, target, &id(number)).await?;
        apart = compare(&scenario.name, &last, &next);
        if apart.is_empty() {
            return Ok(Runs::Agree(next));
        }
        last = next;
    }
    Ok(Runs::Differ(apart))
}

/// Returns six letters that no other run of a scenario uses. They are derived from the process id and a
/// counter, without a clock.
fn id(number: usize) -> String {
    use std::hash::{BuildHasher, RandomState};
    let mut bits = RandomState::new().hash_one(number);
    let letter = |bits: &mut u64| {
        let letter = b'a' + u8::try_from(*bits % 26).expect("less than 26");
        *bits /= 26;
        char::from(letter)
    };
    (0..6).map(|_| letter(&mut bits)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), SuiteError> {
    let unreadable = |source| SuiteError::File { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false if path.extension().is_some_and(|extension| extension == "yaml") => files.push(path),
            false => {}
        }
    }
    Ok(())
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SuiteError> {
    let text =
        fs::read_to_string(path).map_err(|source| SuiteError::File { path: path.to_owned(), source })?;
    serde_norway::from_str(&text)
        .map_err(|error| SuiteError::Shape { path: path.to_owned(), why: error.to_string() })
}
