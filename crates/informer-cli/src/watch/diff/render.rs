//! Formats the differences between two states of an object as lines of text.

use std::fmt::Write;

use diffy::{DiffOptions, Line};
use serde_json::Value;

use super::{Difference, Segment};
use crate::failure::plain;
use crate::watch::mask;
use crate::watch::printer::Styles;

/// The number of characters after which a printed value is truncated.
const MAX_VALUE_CHARS: usize = 400;
/// The number of unchanged lines that are printed before and after a change in a multi-line string.
const CONTEXT_LINES: usize = 1;
/// The maximum number of lines that are printed for the changes of one multi-line string.
const MAX_TEXT_LINES: usize = 40;

#[derive(Debug, Clone, Copy)]
pub(in crate::watch) struct Rendering<'a> {
    pub(in crate::watch) masked: bool,
    pub(in crate::watch) styles: &'a Styles,
}

impl Rendering<'_> {
    pub(in crate::watch) fn lines(&self, differences: &[&Difference<'_>]) -> String {
        let mut lines = String::new();
        for difference in differences {
            self.line(&mut lines, difference);
        }
        lines
    }

    /// Returns the value of a changed field as it is printed. In objects of the kind Secret, its secret parts
    /// are hidden.
    pub(in crate::watch) fn value(&self, path: &[Segment<'_>], value: &Value) -> Value {
        if self.masked { mask::hide(path, value) } else { value.clone() }
    }

    fn line(&self, out: &mut String, difference: &Difference<'_>) {
        let value = |value: &Value| self.value(&difference.path, value);
        let (sign, style, what) = match (difference.old.map(value), difference.new.map(value)) {
            (Some(Value::String(old)), Some(Value::String(new))) if is_text(&old, &new) => {
                ('~', self.styles.updated, text(&old, &new))
            }
            (Some(old), Some(new)) => {
                ('~', self.styles.updated, format!(" {} -> {}", short(&old), short(&new)))
            }
            (Some(old), None) => ('-', self.styles.deleted, format!(" {}", short(&old))),
            (None, Some(new)) => ('+', self.styles.added, format!(" {}", short(&new))),
            (None, None) => return,
        };
        let path = path(&difference.path);
        let _ = writeln!(out, "    {style}{sign} {path}{style:#}:{what}");
    }
}

/// Formats a path as `spec.containers[name=web].ports[0]`. The path of the whole object is a dot.
pub(in crate::watch) fn path(segments: &[Segment<'_>]) -> String {
    let mut path = String::new();
    for segment in segments {
        let _ = match segment {
            Segment::Key(key) if is_word(key) => {
                let dot = if path.is_empty() { "" } else { "." };
                write!(path, "{dot}{key}")
            }
            Segment::Key(key) => write!(path, "[{}]", plain(key)),
            Segment::Index(index) => write!(path, "[{index}]"),
            Segment::Item { by, value, .. } => write!(path, "[{by}={}]", plain(value)),
            _ => write!(path, "[?]"),
        };
    }
    if path.is_empty() { ".".to_owned() } else { path }
}

fn is_word(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Formats a value as JSON, which is truncated if it is long.
fn short(value: &Value) -> String {
    if *value == mask::HIDDEN {
        return mask::HIDDEN.to_owned();
    }
    let text = plain(&value.to_string());
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        None => text,
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
    }
}

/// Returns true if the difference between two strings is shown line by line, because they have several lines.
fn is_text(old: &str, new: &str) -> bool {
    old.trim_end().contains('\n') || new.trim_end().contains('\n')
}

fn text(old: &str, new: &str) -> String {
    let patch = DiffOptions::new().set_context_len(CONTEXT_LINES).create_patch(old, new);
    let mut unified = Vec::new();
    for hunk in patch.hunks() {
        unified.push(format!("@@ -{} +{} @@", hunk.old_range(), hunk.new_range()));
        unified.extend(hunk.lines().iter().map(|line| match line {
            Line::Context(line) => format!(" {line}"),
            Line::Delete(line) => format!("-{line}"),
            Line::Insert(line) => format!("+{line}"),
        }));
    }
    let mut lines = String::new();
    for line in unified.iter().take(MAX_TEXT_LINES) {
        let _ = write!(lines, "\n        {}", plain(line.trim_end_matches('\n')));
    }
    if unified.len() > MAX_TEXT_LINES {
        let _ = write!(lines, "\n        ... ({} more lines)", unified.len() - MAX_TEXT_LINES);
    }
    lines
}
