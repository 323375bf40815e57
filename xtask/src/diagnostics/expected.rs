//! The expected messages of a program: `NAME.txt` next to `NAME.rs`.
//!
//! ```text
//! error[E0277] in line 7
//!   message: `WebsiteSpec` is not a type of Kubernetes objects
//!   label: not a kind that is known at compile time
//!   note: use the kind that is derived from it
//! error[E0507] in line 9
//! ```
//!
//! The second error has only texts of rustc, which are not compared.

use std::fs;
use std::path::Path;

use super::attributes::{Attributes, Role};
use super::compiler::CompileError;

/// Formats the errors of a program as in its expected file. Of the texts of an error, only those from
/// `#[diagnostic::on_unimplemented]` attributes are kept.
pub(super) fn format(errors: &[CompileError], attributes: &Attributes) -> String {
    let blocks: Vec<(usize, Vec<String>)> =
        errors.iter().map(|error| (error.line, block(error, attributes))).collect();
    let is_explained = |line| blocks.iter().any(|(other, block)| *other == line && block.len() > 1);
    let mut lines: Vec<&str> = Vec::new();
    let mut last: &[String] = &[];
    for (line, block) in &blocks {
        // rustc may report one error for each missing trait, all with the same message from an attribute, and
        // further errors in the same line without such a message. Their number differs between versions of
        // rustc. Repeated errors are therefore written once, and the further errors are left out.
        if last != block && (block.len() > 1 || !is_explained(*line)) {
            lines.extend(block.iter().map(String::as_str));
            last = block;
        }
    }
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// Returns the lines of an error in an expected file: its title, and those of its texts that are from
/// `#[diagnostic::on_unimplemented]` attributes.
fn block(error: &CompileError, attributes: &Attributes) -> Vec<String> {
    let message = (Role::Message, &error.message);
    let labels = error.labels.iter().map(|label| (Role::Label, label));
    let notes = error.notes.iter().map(|note| (Role::Note, note));
    let texts = std::iter::once(message)
        .chain(labels)
        .chain(notes)
        .filter_map(|(role, text)| Some(format!("  {role}: {}", attributes.shorten(role, text)?)));
    std::iter::once(format!("{} in line {}", error.title(), error.line)).chain(texts).collect()
}

/// Compares the output of the compiler with the expected lines. Returns the expected lines that are absent,
/// and the lines of the output that are not expected.
pub(super) fn differences(expected: &str, actual: &str) -> Vec<String> {
    if expected == actual {
        return Vec::new();
    }
    let absent = |text: &str, line: &str| text.lines().filter(|other| *other == line).count() == 0;
    let missing = expected.lines().filter(|line| absent(actual, line));
    let unexpected = actual.lines().filter(|line| absent(expected, line));
    let missing = missing.map(|line| format!("expected, but not printed: {}", line.trim_start()));
    let unexpected = unexpected.map(|line| format!("printed, but not expected: {}", line.trim_start()));
    let mut differences: Vec<_> = missing.chain(unexpected).collect();
    if differences.is_empty() {
        differences.push("the order or the number of the errors differs from the expected ones".to_owned());
    }
    differences
}

/// Returns a problem for each expected file whose program does not exist.
pub(super) fn orphans(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("read {}: {error}", folder.display()))?;
    let expected = entries.flatten().map(|entry| entry.path());
    let expected = expected.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let orphans = expected.filter(|path| !path.with_extension("rs").exists());
    Ok(orphans.map(|path| format!("{}: its program does not exist; delete it", path.display())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIT: &str = r#"
        #[diagnostic::on_unimplemented(message = "`{Self}` is none", label = "none", note = "use one")]
        pub trait One {}
    "#;

    fn error(line: usize, message: &str) -> CompileError {
        CompileError {
            line,
            code: Some("E0277".to_owned()),
            message: message.to_owned(),
            labels: vec!["none".to_owned(), "a label of rustc".to_owned()],
            notes: vec!["a note of rustc".to_owned(), "use one".to_owned()],
        }
    }

    #[test]
    fn texts_of_rustc_are_left_out() {
        let attributes = Attributes::of(TRAIT);
        let ours = "error[E0277] in line 7\n  message: `A` is none\n  label: none\n  note: use one\n";
        assert_eq!(format(&[error(7, "`a::A` is none")], &attributes), ours);
        let theirs =
            CompileError { code: None, labels: Vec::new(), notes: Vec::new(), ..error(9, "not Send") };
        assert_eq!(format(&[theirs], &attributes), "error in line 9\n");
    }

    #[test]
    fn errors_that_differ_only_in_texts_of_rustc_count_once() {
        let mut second = error(7, "`A` is none");
        second.notes.push("another note of rustc".to_owned());
        let titles = |errors: &[CompileError]| {
            let text = format(errors, &Attributes::of(TRAIT));
            text.lines().filter(|line| line.starts_with("error")).count()
        };
        assert_eq!(titles(&[error(7, "`A` is none"), second]), 1);
        let theirs = |line| CompileError { labels: Vec::new(), notes: Vec::new(), ..error(line, "A: B") };
        assert_eq!(titles(&[error(7, "`A` is none"), theirs(7)]), 1);
        assert_eq!(titles(&[error(7, "`A` is none"), theirs(8)]), 2);
    }

    #[test]
    fn missing_and_unexpected_lines_are_differences() {
        assert!(differences("a\n", "a\n").is_empty());
        assert_eq!(
            differences("a\n  b\n", "a\n  c\n"),
            ["expected, but not printed: b", "printed, but not expected: c"]
        );
        assert_eq!(differences("a\na\n", "a\n").len(), 1);
    }
}
