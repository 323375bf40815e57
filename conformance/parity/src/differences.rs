//! The differences that are meant: each with its reason, and with exactly the lines that differ.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A script on which the peers differ, and are meant to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The script; that of a queue is `queue/NAME`, that of an election `election/NAME`.
    pub script: String,
    /// What client-go does.
    pub theirs: String,
    /// What ours does instead, and why that is better.
    pub ours: String,
    /// The lines in which they differ, as [`Compared`](crate::Compared) has them.
    pub lines: Vec<String>,
}

/// Why the list cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DifferencesError {
    /// The file cannot be read or written.
    #[error("cannot read or write the list of differences {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not of its form.
    #[error("the list of differences {path} is not of its form: {source}")]
    Form {
        /// The file.
        path: String,
        /// What the parser says.
        source: serde_norway::Error,
    },
}

/// Reads the list.
///
/// # Errors
///
/// When it cannot be read or is not of its form.
pub fn read_differences(path: &Path) -> Result<Vec<Difference>, DifferencesError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| DifferencesError::File { path: shown.clone(), source })?;
    serde_norway::from_str(&text).map_err(|source| DifferencesError::Form { path: shown, source })
}

/// Writes the list.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_differences(path: &Path, differences: &[Difference]) -> Result<(), DifferencesError> {
    let shown = path.display().to_string();
    let text = serde_norway::to_string(differences)
        .map_err(|source| DifferencesError::Form { path: shown.clone(), source })?;
    std::fs::write(path, text).map_err(|source| DifferencesError::File { path: shown, source })
}

/// The rows of the list as `docs/parity.md` shows them: one for all scripts that differ in the same way.
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
    fn every_difference_says_why_and_belongs_to_a_script() {
        let suite = Suite::read(&Suite::folder()).unwrap();
        let names = suite.names();
        for difference in suite.differences() {
            assert!(names.contains(&difference.script), "there is no script {}", difference.script);
            for text in [&difference.theirs, &difference.ours] {
                assert!(text.len() > 20 && !text.contains('\n'), "{}: {text:?}", difference.script);
            }
            assert!(!difference.lines.is_empty(), "{} differs in nothing", difference.script);
        }
    }

    #[test]
    fn the_document_has_the_table_of_differences() {
        let document = Suite::folder().join("../../docs/parity.md");
        let document = std::fs::read_to_string(document).unwrap();
        let suite = Suite::read(&Suite::folder()).unwrap();
        let table = table(suite.differences());
        assert!(document.contains(&table), "docs/parity.md must have this table:\n{table}");
    }
}
