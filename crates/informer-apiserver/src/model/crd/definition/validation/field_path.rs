//! Field paths of CEL rules and selectable fields, such as `.spec.host` or `.spec.labels['a']`.

use serde_json::Value;

use super::{additional, members};

/// A field of a schema: its path in errors, its first segment, and its schema.
pub(super) struct SchemaField<'a> {
    pub(super) path: String,
    pub(super) root: String,
    pub(super) schema: &'a Value,
}

/// Finds the field of a schema at a path.
///
/// # Errors
///
/// Returns kube-apiserver's message for an invalid path, or for one that the schema does not contain.
pub(super) fn find<'a>(path: &str, schema: &'a Value, allow_arrays: bool) -> Result<SchemaField<'a>, String> {
    let mut tokens = tokens(path).into_iter();
    let mut found = SchemaField { path: String::new(), root: String::new(), schema };
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" if !allow_arrays => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let name = quoted.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let name = name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                found.descend(&unescape(name)?)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found.descend(tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl SchemaField<'_> {
    fn descend(&mut self, name: &str) -> Result<(), String> {
        let invalid = || "does not refer to a valid field".to_owned();
        if members(self.schema, "properties").next().is_some() {
            self.schema = self.schema["properties"].get(name).ok_or_else(invalid)?;
            self.path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        } else {
            self.schema = additional(self.schema).ok_or_else(invalid)?;
            self.path = format!("{}[{name}]", self.path);
        }
        if self.root.is_empty() {
            name.clone_into(&mut self.root);
        }
        Ok(())
    }
}

/// Splits a path at dots and brackets, which are tokens of their own, but not within quotes.
fn tokens(path: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let close = (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(rest.len(), |at| at + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            out.push(sign);
            continue;
        }
        match signs.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(quoted @ ('\'' | '\\')) => out.push(quoted),
            other => {
                let sign = other.map(String::from).unwrap_or_default();
                return Err(format!("invalid string literal: invalid escape char \\{sign}"));
            }
        }
    }
    Ok(out)
}
