//! Compares the errors of the compiler that the book quotes with those of the programs in
//! `conformance/diagnostics`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::attributes::{Attributes, Role};
use super::compiler::Compiled;
use crate::report::Report;

/// The page of the book that explains errors of the compiler, relative to the root of the workspace.
const PAGE: &str = "docs/book/src/reference/compiler-errors.md";

/// The beginning of a note in the compiler's output.
const NOTE: &str = "= note: ";

/// Checks the lines `error[CODE]: MESSAGE` and `= note: NOTE` in the text blocks of the page. For an error,
/// some program must have an error with this code. If the message is from an attribute of this library, some
/// program must show it with this code. Some program must show each note. Returns the number of checked
/// lines.
pub(super) fn check(
    root: &Path,
    attributes: &Attributes,
    compiled: &Compiled,
    report: &mut Report,
) -> Result<u32, String> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("read {PAGE}: {error}"))?;
    let printed = Printed::of(attributes, compiled);
    let mut compared = 0;
    for (number, line) in quoted_lines(&page) {
        compared += 1;
        if !printed.contains(line, attributes) {
            report.problems.push(format!("{PAGE}:{number}: no program has this line: {line}"));
        }
    }
    Ok(compared)
}

/// Returns the lines with errors and notes in the text blocks of a page, with their line numbers.
fn quoted_lines(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_text = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(language) = line.strip_prefix("```") {
            in_text = language == "text";
        }
        let line = line.trim_start();
        let is_quoted = in_text && (line.starts_with("error") || line.starts_with(NOTE));
        is_quoted.then_some((index + 1, line))
    })
}

/// The titles (`error[CODE]`), messages and notes in the compiler's output for all programs. Messages and
/// notes of rustc itself are left out.
struct Printed {
    titles: BTreeSet<String>,
    messages: BTreeSet<String>,
    notes: BTreeSet<String>,
}

impl Printed {
    fn of(attributes: &Attributes, compiled: &Compiled) -> Self {
        let short = |role, text: &String| attributes.shorten(role, text);
        let messages = compiled.errors().filter_map(|error| {
            Some(format!("{}: {}", error.title(), short(Role::Message, &error.message)?))
        });
        let notes =
            compiled.errors().flat_map(|error| &error.notes).filter_map(|note| short(Role::Note, note));
        Self {
            titles: compiled.errors().map(|error| error.title()).collect(),
            messages: messages.collect(),
            notes: notes.collect(),
        }
    }

    /// Returns true if the compiler prints a line of the page for some program. For a message of rustc
    /// itself, only the error code is compared, because the message differs between versions.
    fn contains(&self, line: &str, attributes: &Attributes) -> bool {
        if let Some(note) = line.strip_prefix(NOTE) {
            return self.notes.contains(note);
        }
        let Some((title, message)) = line.split_once(": ") else { return false };
        match attributes.shorten(Role::Message, message) {
            Some(_) => self.messages.contains(line),
            None => self.titles.contains(title),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_and_notes_in_text_blocks_are_quoted() {
        let page = "error[E0001]: prose\n```text\nerror[E0277]: `A` is none\n  |\n   = note: use one\n```\n```rust\n// error[E0507]: code\n```\n";
        let lines: Vec<_> = quoted_lines(page).collect();
        assert_eq!(lines, [(3, "error[E0277]: `A` is none"), (5, "= note: use one")]);
    }

    #[test]
    fn messages_of_attributes_are_compared_and_those_of_rustc_only_by_code() {
        let attributes = Attributes::of(
            r#"#[diagnostic::on_unimplemented(message = "`{Self}` is none", note = "use one")] pub trait One {}"#,
        );
        let set = |line: &str| BTreeSet::from([line.to_owned()]);
        let printed = Printed {
            titles: set("error[E0277]"),
            messages: set("error[E0277]: `A` is none"),
            notes: set("use one"),
        };
        let contains = |line: &str| printed.contains(line, &attributes);
        assert!(contains("error[E0277]: `A` is none"));
        assert!(contains("error[E0277]: any text of rustc"));
        assert!(contains("= note: use one"));
        assert!(!contains("error[E0277]: `B` is none"));
        assert!(!contains("error[E0507]: any text of rustc"));
        assert!(!contains("= note: use two"));
    }
}
