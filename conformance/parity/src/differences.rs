//! The list of intended differences between client-go and this library. Each has its reason and exactly the
//! lines of the traces that differ.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One intended difference between client-go and this library, in the trace of one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The name of the script; `queue/NAME` for a script of the work queue, `election/NAME` for one of the
    /// election.
    pub script: String,
    /// The behavior of client-go in this script.
    pub theirs: String,
    /// The behavior of this library, and why it is better.
    pub ours: String,
    /// The lines of the traces that differ, in the format of [`Compared::lines`](crate::Compared::lines).
    pub lines: Vec<String>,
}

/// The error of a list of differences that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DifferencesError {
    /// The file cannot be read or written.
    #[error("cannot read or write the list of differences {path}")]
    File {
        /// The path of the file that cannot be read or written.
        path: String,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file with the list of differences is malformed.
    #[error("the list of differences {path} is malformed: {source}")]
    Form {
        /// The path of the malformed file.
        path: String,
        /// The error of the YAML parser.
        source: serde_norway::Error,
    },
}

/// Reads the list of intended differences from a file.
///
/// # Errors
///
/// When the file cannot be read or is malformed.
pub fn read_differences(path: &Path) -> Result<Vec<Difference>, DifferencesError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| DifferencesError::File { path: shown.clone(), source })?;
    serde_norway::from_str(&text).map_err(|source| DifferencesError::Form { path: shown, source })
}

/// Writes a list of intended differences to a file, as YAML.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_differences(path: &Path, differences: &[Difference]) -> Result<(), DifferencesError> {
    let shown = path.display().to_string();
    let text = serde_norway::to_string(differences)
        .map_err(|source| DifferencesError::Form { path: shown.clone(), source })?;
    std::fs::write(path, text).map_err(|source| DifferencesError::File { path: shown, source })
}

/// Formats a list of intended differences as the Markdown table of `docs/parity.md`. Scripts with the same
/// difference share one row.
pub fn table(differences: &[Difference]) -> String {
    let mut rows: Vec<(Vec<&str>, &Difference)> = Vec::new();
    for difference in differences {
        let same = |row: &Difference| (&row.theirs, &row.ours) == (&difference.theirs, &difference.ours);
        match rows.iter_mut().find(|(_, row)| same(row)) {
            Some((scripts, _)) => scripts.push(&difference.script),
            None => rows.push((vec![&difference.script], difference)),
        }
    }
    let mut table = "| scripts | client-go | ours, and why |\n|---|---|---|\n".to_owned();
    for (scripts, Difference { theirs, ours, .. }) in rows {
        let _ = writeln!(table, "| {} | {theirs} | {ours} |", scripts.join(", "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    #[test]
    fn every_difference_has_a_reason_and_a_script() {
        let suite = Suite::read(&Suite::folder()).unwrap();
        let names = suite.names();
        for difference in suite.differences() {
            assert!(names.contains(&difference.script), "unknown script {}", difference.script);
            for text in [&difference.theirs, &difference.ours] {
                assert!(text.len() > 20 && !text.contains('\n'), "{}: {text:?}", difference.script);
            }
            assert!(!difference.lines.is_empty(), "{} lists no lines", difference.script);
        }
    }

    #[test]
    fn docs_parity_contains_the_table_of_differences() {
        let document = Suite::folder().join("../../docs/parity.md");
        let document = std::fs::read_to_string(document).unwrap();
        let suite = Suite::read(&Suite::folder()).unwrap();
        let table = table(suite.differences());
        assert!(document.contains(&table), "docs/parity.md must have this table:\n{table}");
    }
}
