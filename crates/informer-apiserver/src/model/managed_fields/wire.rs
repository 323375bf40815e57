//! The `fieldsV1` encoding of field sets in `managedFields`.

use std::fmt::Write;

use serde_json::{Map, Value};
use thiserror::Error;

use super::element::Element;
use super::set::{Node, Set};

#[derive(Debug, Error, PartialEq, Eq)]
#[error("managed fields have the member {member:?}, which is not a path element")]
pub(crate) struct ReadError {
    member: String,
}

impl Set {
    pub(crate) fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (element, node) in self.nodes() {
            let mut below = match node.children.to_json() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if node.member && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            members.insert(written(element), Value::Object(below));
        }
        Value::Object(members)
    }

    /// Appends the JSON of [`to_json`](Self::to_json).
    pub(super) fn write_text(&self, out: &mut String) {
        self.write_below(false, out);
    }

    fn write_below(&self, itself: bool, out: &mut String) {
        out.push('{');
        if itself {
            out.push_str(r#"".":{}"#);
        }
        let mut first = !itself;
        let mut member = |name: (&str, &str), node: &Node, out: &mut String| {
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            push_quoted(name.0, name.1, out);
            out.push(':');
            node.children.write_below(node.member && !node.children.is_empty(), out);
        };
        let mut others = Vec::new();
        for (element, node) in self.nodes() {
            match element {
                Element::Field(field) => member(("f:", field), node, out),
                other => others.push((written(other), node)),
            }
        }
        // Members are sorted by their encoded name. Fields (prefix `f:`) sort before the other elements, so
        // they were written first.
        others.sort_by(|(left, _), (right, _)| left.cmp(right));
        others.iter().for_each(|(name, node)| member(("", name), node, out));
        out.push('}');
    }

    /// Decodes a field set from its JSON in `managedFields`. Unknown types of path elements are skipped,
    /// because a later version may have added them.
    pub(crate) fn from_json(value: &Value) -> Result<Self, ReadError> {
        Ok(read(value)?.1)
    }
}

/// Decodes a node of a field set: whether its path is in the set, and the set below it.
fn read(value: &Value) -> Result<(bool, Set), ReadError> {
    let members = match value {
        Value::Object(members) => members,
        Value::Null => return Ok((true, Set::default())),
        other => return Err(ReadError { member: other.to_string() }),
    };
    let (mut member, mut nodes) = (false, Vec::with_capacity(members.len()));
    for (name, below) in members {
        if name == "." {
            member = true;
        } else if let Some(element) = element(name)? {
            let (member, children) = read(below)?;
            nodes.push((element, Node { member, children }));
        }
    }
    // The encoded names are in another order than the path elements, so the nodes are sorted again.
    let set = Set::of_nodes(nodes.into_iter());
    Ok((member || set.is_empty(), set))
}

fn element(text: &str) -> Result<Option<Element>, ReadError> {
    let wrong = || ReadError { member: text.to_owned() };
    let (sort, rest) = text.split_at_checked(2).ok_or_else(wrong)?;
    if !sort.ends_with(':') {
        return Err(wrong());
    }
    let json = || serde_json::from_str::<Value>(rest).map_err(|_| wrong());
    Ok(Some(match sort {
        "f:" => Element::field(rest),
        "v:" => Element::Value(json()?),
        "i:" => Element::Index(rest.parse().map_err(|_| wrong())?),
        "k:" => match json()? {
            // The members of a decoded JSON object are sorted by name, as key elements require.
            Value::Object(keys) => {
                Element::Key(keys.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            _ => return Err(wrong()),
        },
        _ => return Ok(None),
    }))
}

fn written(element: &Element) -> String {
    match element {
        Element::Field(name) => ["f:", name].concat(),
        Element::Key(keys) => {
            let mut text = "k:{".to_owned();
            for (index, (name, value)) in keys.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                text.push_str(comma);
                push_quoted("", name, &mut text);
                text.push(':');
                push_value(value, &mut text);
            }
            text.push('}');
            as_go(text)
        }
        Element::Value(value) => {
            let mut text = "v:".to_owned();
            push_value(value, &mut text);
            as_go(text)
        }
        Element::Index(index) => format!("i:{index}"),
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("writing a string to memory does not fail")
}

fn push_value(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => push_quoted("", text, out),
        // Only strings are frequent enough to need a faster encoder.
        other => write!(out, "{other}").expect("writing to a string does not fail"),
    }
}

/// Appends `prefix` and `text` as one JSON string. The prefix must not need escapes.
pub(super) fn push_quoted(prefix: &str, text: &str, out: &mut String) {
    // The loop has no early exit, so that the compiler can vectorize it.
    let (control, sign) = text.bytes().fold((false, false), |(control, sign), byte| {
        (control | (byte < b' '), sign | (byte == b'"') | (byte == b'\\'))
    });
    if control {
        out.push_str(&quoted(&[prefix, text].concat()));
        return;
    }
    out.reserve(prefix.len() + text.len() + 2);
    out.push('"');
    out.push_str(prefix);
    if sign {
        push_escaped(text, out)
    } else {
        out.push_str(text)
    }
    out.push('"');
}

/// Appends a JSON string in which only quotes and backslashes need escapes.
fn push_escaped(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\')) {
        out.push_str(&rest[..at]);
        out.push('\\');
        out.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Escapes JSON like Go's encoder, which makes it safe for HTML. The escaped characters only occur in
/// strings.
pub(super) fn as_go(mut text: String) -> String {
    // U+2028 and U+2029 start with this byte.
    const SEPARATOR: u8 = 0xe2;
    if !text.bytes().any(|byte| matches!(byte, b'<' | b'>' | b'&' | SEPARATOR)) {
        return text;
    }
    for (sign, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(sign) {
            text = text.replace(sign, escaped);
        }
    }
    text
}
