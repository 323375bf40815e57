//! The committed counts, and how measured counts are compared with them.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::cases::Case;
use super::{CountError, FILE};

/// The largest accepted difference between a count and the committed one, in percent.
pub(super) const TOLERANCE: f64 = 2.0;

const WRITE: &str = "cargo xtask bench instructions --write";

/// The parts of the toolchain and of the system on which counts depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Toolchain {
    /// The output of `rustc -V`.
    pub(super) rustc: String,
    pub(super) target: String,
    /// The C library, whose allocator is part of the counts.
    pub(super) libc: String,
}

impl Toolchain {
    /// Returns the compiler that cargo uses in the workspace `root`, its default target, and the C library.
    pub(super) fn of_this_machine(root: &Path) -> Result<Self, CountError> {
        let rustc = output(crate::cargo::program("rustc").arg("-vV").current_dir(root), "rustc")?;
        // Systems without `getconf` or with another C library do not know this name.
        let libc = output(Command::new("getconf").arg("GNU_LIBC_VERSION"), "getconf").unwrap_or_default();
        Ok(Self::parse(&rustc, &libc))
    }

    /// Parses the outputs of `rustc -vV` and `getconf GNU_LIBC_VERSION`.
    pub(super) fn parse(rustc: &str, libc: &str) -> Self {
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let libc = match libc.trim() {
            "" => "unknown libc",
            libc => libc,
        };
        Self {
            rustc: rustc.lines().next().unwrap_or_default().to_owned(),
            target: target.to_owned(),
            libc: libc.to_owned(),
        }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.rustc, self.target, self.libc)
    }
}

fn output(command: &mut Command, program: &'static str) -> Result<String, CountError> {
    let output = command.output().map_err(|source| CountError::Start { program, source })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The file with the committed counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CommittedCounts {
    pub(super) toolchain: Toolchain,
    /// The instructions of an operation, by the name of the case.
    pub(super) instructions: BTreeMap<String, f64>,
}

impl CommittedCounts {
    /// Reads the file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, CountError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CountError::Read { path: path.to_owned(), source }),
        };
        let decoded = serde_json::from_str(&text);
        decoded.map(Some).map_err(|source| CountError::Decode { path: path.to_owned(), source })
    }

    /// Returns the committed counts with those of `counts` in place of older ones.
    ///
    /// Counts of another toolchain, and counts of cases that no longer exist, are removed.
    ///
    /// # Errors
    ///
    /// Returns an error if counts of another toolchain would be removed without a new count of their case.
    pub(super) fn updated(
        committed: Option<Self>,
        path: &Path,
        toolchain: Toolchain,
        counts: &BTreeMap<Case, f64>,
    ) -> Result<Self, CountError> {
        let new = counts.iter().map(|(case, count)| (case.name(), *count));
        let mut instructions: BTreeMap<String, f64> = new.collect();
        if let Some(committed) = committed {
            let kept = committed
                .instructions
                .into_iter()
                .filter(|(name, _)| case_named(name).is_some() && !instructions.contains_key(name));
            let kept: Vec<_> = kept.collect();
            if !kept.is_empty() && committed.toolchain != toolchain {
                let path = path.to_owned();
                let (committed, current) = (Box::new(committed.toolchain), Box::new(toolchain));
                return Err(CountError::MixedToolchains { path, committed, current });
            }
            instructions.extend(kept);
        }
        Ok(Self { toolchain, instructions })
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), CountError> {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers are JSON") + "\n";
        std::fs::write(path, text).map_err(|source| CountError::Write { path: path.to_owned(), source })
    }
}

/// The result of a comparison.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// The number of cases whose counts were compared.
    pub(super) compared: usize,
    pub(super) problems: Vec<String>,
    /// The reason if no counts were compared.
    pub(super) note: Option<String>,
}

/// Compares measured counts with the committed ones. A count that is too low is a problem, too: a regression
/// up to the committed count would not be detected.
pub(super) fn compare(
    committed: Option<&CommittedCounts>,
    toolchain: &Toolchain,
    counts: &BTreeMap<Case, f64>,
) -> Comparison {
    let mut comparison = Comparison::default();
    let Some(committed) = committed else {
        comparison.problems.push(format!("{FILE} does not exist; write it with `{WRITE}`"));
        return comparison;
    };
    if committed.toolchain != *toolchain {
        comparison.note = Some(format!(
            "not compared: the counts in {FILE} are of {}, and this is {toolchain}. To compare a change, \
             write the counts of the code before the change with `{WRITE}`",
            committed.toolchain
        ));
        return comparison;
    }
    for (case, &count) in counts {
        let (name, operation) = (case.name(), case.operation());
        let Some(&before) = committed.instructions.get(&name) else {
            comparison.problems.push(format!("{name}: {FILE} has no count; add it with `{WRITE}`"));
            continue;
        };
        comparison.compared += 1;
        let change = change(count, before);
        let problem = if change > TOLERANCE {
            format!(
                "{change:.1} % more than the committed {before}, limit {TOLERANCE} %; find the cause, or accept \
                 the count with `{WRITE}`"
            )
        } else if change < -TOLERANCE {
            format!(
                "{:.1} % less than the committed {before}; write the new count with `{WRITE}`, so that a later \
                 regression is detected",
                -change
            )
        } else {
            continue;
        };
        comparison.problems.push(format!("{name}: {count} instructions per {operation}, {problem}"));
    }
    for name in committed.instructions.keys().filter(|name| case_named(name).is_none()) {
        comparison.problems.push(format!(
            "{name}: {FILE} has a count of a case that does not exist; remove it with `{WRITE}`"
        ));
    }
    comparison
}

fn case_named(name: &str) -> Option<Case> {
    <Case as clap::ValueEnum>::from_str(name, false).ok()
}

/// Returns the difference of a count to an earlier one in percent.
pub(super) fn change(count: f64, before: f64) -> f64 {
    (count - before) / before * 100.0
}

/// Rounds to one decimal place, to which counts are printed and stored.
pub(super) fn tenths(value: f64) -> f64 {
    // The sum is 0 instead of -0.
    (value * 10.0).round() / 10.0 + 0.0
}
