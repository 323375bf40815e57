//! Reads the outcomes of mutants that cargo-mutants writes to `outcomes.json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct Document {
    outcomes: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    scenario: Scenario,
    summary: Summary,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Deserialize)]
struct Mutant {
    name: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
enum Summary {
    Success,
    CaughtMutant,
    MissedMutant,
    Unviable,
    Failure,
    Timeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Caught,
    /// With the mutant, the tests took longer than their time limit. Such a mutant counts as caught.
    TimedOut,
    Unviable,
    Survived,
}

/// The outcome of each tested mutant, by the mutant's name with line and column.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of all mutants of the crate, tested or not.
    pub(super) total: usize,
    caught: usize,
    timed_out: usize,
    unviable: usize,
    /// Names of the mutants that survived because no test noticed them, without line and column.
    pub(super) survivors: Vec<String>,
}

impl Tally {
    pub(super) fn new(total: usize, outcomes: &Outcomes) -> Self {
        let count = |wanted| outcomes.values().filter(|outcome| **outcome == wanted).count();
        Self {
            total,
            caught: count(Outcome::Caught),
            timed_out: count(Outcome::TimedOut),
            unviable: count(Outcome::Unviable),
            survivors: survivors_of(outcomes).iter().map(|name| without_position(name)).collect(),
        }
    }

    pub(super) fn viable(&self) -> usize {
        self.caught + self.timed_out + self.survivors.len()
    }

    pub(super) fn tested(&self) -> usize {
        self.viable() + self.unviable
    }

    pub(super) fn caught_percent(&self) -> f64 {
        100.0 * (self.caught + self.timed_out) as f64 / self.viable().max(1) as f64
    }

    /// Formats the figures of a crate as a row of the table in `docs/mutants.md`.
    pub(super) fn row(&self, name: &str) -> String {
        let (total, tested, unviable, caught) = (self.total, self.tested(), self.unviable, self.caught);
        let (timed_out, survived, percent) = (self.timed_out, self.survivors.len(), self.caught_percent());
        format!(
            "| {name} | {total} | {tested} | {unviable} | {caught} | {timed_out} | {survived} | {percent:.1} % |"
        )
    }
}

/// Returns the names of the mutants that survived, with line and column.
pub(super) fn survivors_of(outcomes: &Outcomes) -> Vec<String> {
    let survived = outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Survived);
    survived.map(|(name, _)| name.clone()).collect()
}

pub(super) fn read_outcomes(path: &Path) -> Result<Outcomes, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))?;
    parse(&text).map_err(|problem| format!("read {}: {problem}", path.display()))
}

fn parse(text: &str) -> Result<Outcomes, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut outcomes = Outcomes::new();
    for Row { scenario, summary } in document.outcomes {
        let Scenario::Mutant(mutant) = scenario else {
            match summary {
                Summary::Success => continue,
                _ => return Err("the tests fail without any mutant".to_owned()),
            }
        };
        let outcome = match summary {
            Summary::CaughtMutant => Outcome::Caught,
            Summary::Timeout => Outcome::TimedOut,
            Summary::Unviable => Outcome::Unviable,
            Summary::MissedMutant | Summary::Success => Outcome::Survived,
            Summary::Failure => return Err(format!("{} could not be tested", mutant.name)),
        };
        outcomes.insert(mutant.name, outcome);
    }
    Ok(outcomes)
}

/// Removes line and column from the name of a mutant, which has the form `FILE:LINE:COLUMN: MUTANT`. Edits
/// above a mutant thus do not change its name.
pub(super) fn without_position(name: &str) -> String {
    let Some((position, mutant)) = name.split_once(": ") else { return name.to_owned() };
    let file = position.split(':').next().unwrap_or(position);
    format!("{file}: {mutant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(rows: &[(&str, &str)]) -> String {
        let mut outcomes = vec![serde_json::json!({ "scenario": "Baseline", "summary": "Success" })];
        outcomes.extend(rows.iter().map(|(name, summary)| {
            serde_json::json!({ "scenario": { "Mutant": { "name": name, "package": "p" } }, "summary": summary })
        }));
        serde_json::json!({ "outcomes": outcomes, "total_mutants": rows.len() }).to_string()
    }

    #[test]
    fn unviable_mutants_do_not_count_and_timeouts_are_caught() {
        let text = document(&[
            ("src/a.rs:1:1: replace a with ()", "CaughtMutant"),
            ("src/a.rs:2:1: replace b with ()", "Timeout"),
            ("src/a.rs:3:1: replace c with ()", "Unviable"),
            ("src/a.rs:4:7: replace < with <= in d", "MissedMutant"),
        ]);
        let tally = Tally::new(9, &parse(&text).unwrap());
        assert_eq!((tally.viable(), tally.tested(), tally.total), (3, 4, 9));
        assert_eq!(tally.survivors, ["src/a.rs: replace < with <= in d"]);
        assert_eq!(tally.row("a"), "| a | 9 | 4 | 1 | 1 | 1 | 1 | 66.7 % |");
    }

    #[test]
    fn failing_baseline_is_an_error() {
        let text = r#"{"outcomes":[{"scenario":"Baseline","summary":"Failure"}]}"#;
        assert_eq!(parse(text).unwrap_err(), "the tests fail without any mutant");
    }
}
