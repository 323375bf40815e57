//! The results of the checks of `informer doctor`, and their output as text or JSON.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::plain;
use crate::terminal;

/// The width of the first column of the output, which contains the level, such as `warning`.
const LEVEL_WIDTH: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    Warning,
    Problem,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    fn style(self) -> Style {
        let color = match self {
            Self::Ok => AnsiColor::Green,
            Self::Warning => AnsiColor::Yellow,
            Self::Problem => AnsiColor::Red,
        };
        terminal::style(color.on_default())
    }
}

/// One result of a check of `informer doctor`.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    /// The recommended action; `None` for the level `ok`.
    remedy: Option<String>,
}

/// The results of all checks of `informer doctor`. As text, each result is printed as soon as it is added; as
/// JSON, all results are printed at the end.
pub(super) struct Findings {
    found: Vec<Finding>,
    text: bool,
}

impl Findings {
    pub(super) fn new(text: bool) -> Self {
        Self { found: Vec::new(), text }
    }

    pub(super) fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.add(Finding { check, level: Level::Ok, message: message.into(), remedy: None });
    }

    pub(super) fn warning(
        &mut self,
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(Level::Warning, check, message, remedy);
    }

    pub(super) fn problem(
        &mut self,
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(Level::Problem, check, message, remedy);
    }

    pub(super) fn report(
        &mut self,
        level: Level,
        check: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Finding { check, level, message: message.into(), remedy: Some(remedy.into()) });
    }

    /// Returns the number of results so far. A check compares this number before and after its work, to
    /// detect whether it has reported anything.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    fn add(&mut self, finding: Finding) {
        if self.text {
            let Finding { check, level, message, remedy } = &finding;
            let (style, name) = (level.style(), level.name());
            let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            // Messages can contain strings from the server. Control characters in them are escaped, so that
            // they cannot change the terminal.
            let line = plain(&format!("{check}: {message}{remedy}"));
            // Writing fails if stdout is closed. The error is ignored, because the exit code also contains
            // the result.
            let _ = writeln!(io::stdout(), "{style}{name:LEVEL_WIDTH$}{style:#} {line}");
        }
        self.found.push(finding);
    }

    /// Prints the numbers of results of each level, in JSON also the results, and returns the exit code.
    pub(super) fn finish(self) -> ExitCode {
        let count = |level| self.found.iter().filter(|finding| finding.level == level).count();
        let (ok, warnings, problems) = (count(Level::Ok), count(Level::Warning), count(Level::Problem));
        let text = if self.text {
            format!("{ok} ok, {warnings} warnings, {problems} problems")
        } else {
            let checks = &self.found;
            serde_json::json!({"checks": checks, "ok": ok, "warnings": warnings, "problems": problems})
                .to_string()
        };
        let _ = writeln!(io::stdout(), "{text}");
        if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
