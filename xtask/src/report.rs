//! The report that a command of `cargo xtask` prints: problems and figures.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) command: &'static str,
    /// The problems that the command found, such as missed targets and broken rules, one string per problem.
    pub(crate) problems: Vec<String>,
    /// The measured or counted figures: names and values, in the order in which they are printed.
    pub(crate) figures: Vec<(String, f64)>,
}

impl Report {
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, ..Self::default() }
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.push((name.into(), value));
    }

    pub(crate) fn passed(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and numbers are JSON") + "\n"
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{}: {problem}", self.command)?;
        }
        for (name, value) in &self.figures {
            writeln!(f, "{name:<40} {value}")?;
        }
        write!(f, "{}: {} problems", self.command, self.problems.len())
    }
}
