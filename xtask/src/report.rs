//! The report that a command of `cargo xtask` prints: problems and figures. With `--report`, it is also
//! written as a page with tables and plots; see [`page`].

pub(crate) mod page;
mod run_facts;
mod section;

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde::Serialize;

pub(crate) use informer_report::{number, rounded};
pub(crate) use run_facts::RunFacts;
pub(crate) use section::{Cell, CheckedTarget, Figure, Section, Table};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) command: &'static str,
    /// The problems that the command found, such as missed targets and broken rules, one string per problem.
    pub(crate) problems: Vec<String>,
    /// The measured or counted figures: names and values, in the order in which they are printed.
    pub(crate) figures: Vec<(String, f64)>,
    /// The targets that were checked. Only on the page.
    #[serde(skip)]
    pub(crate) targets: Vec<CheckedTarget>,
    /// The parts of the page: plots and tables. Not in JSON, because most values are also figures.
    #[serde(skip)]
    pub(crate) sections: Vec<Section>,
    /// The names of the figures that the sections and targets show.
    #[serde(skip)]
    in_sections: BTreeSet<String>,
}

impl Report {
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, ..Self::default() }
    }

    /// Runs a command that adds to its report. An error of `run` becomes a problem of the report.
    pub(crate) fn of<E: Display>(
        command: &'static str,
        run: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Self {
        let mut report = Self::new(command);
        if let Err(error) = run(&mut report) {
            report.problems.push(error.to_string());
        }
        report
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.push((name.into(), value));
    }

    /// Adds a figure like [`figure`](Self::figure), whose value is also in the section or target that the
    /// caller adds.
    pub(crate) fn figure_in_section(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        self.in_sections.insert(name.clone());
        self.figure(name, value);
    }

    /// Adds a section with a table of the figures whose names begin with `prefix`. Returns the names without
    /// the prefix, with their values. Adds nothing if there are no such figures.
    pub(crate) fn section_of(&mut self, prefix: &str, title: &str, column: &str) -> Vec<(String, f64)> {
        let of_prefix = |(name, value): &(String, f64)| Some((name.strip_prefix(prefix)?.to_owned(), *value));
        let found: Vec<_> = self.figures.iter().filter_map(of_prefix).collect();
        if !found.is_empty() {
            let rows = found.iter().map(|(name, value)| vec![Cell::text(name), Cell::Number(*value)]);
            let table = Table::new(title, ["", column], rows.collect());
            self.sections.push(Section { title: title.to_owned(), figures: Vec::new(), tables: vec![table] });
            self.in_sections.extend(found.iter().map(|(name, _)| format!("{prefix}{name}")));
        }
        found
    }

    /// Returns the figures that no section and no target shows.
    fn other_figures(&self) -> impl Iterator<Item = &(String, f64)> {
        self.figures.iter().filter(|(name, _)| !self.in_sections.contains(name))
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
