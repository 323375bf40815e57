//! Sets as `fieldsV1` writes them.

use serde_json::{Map, Value};
use thiserror::Error;

use super::element::Element;
use super::set::Set;

/// A set that cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("managed fields have the member {member:?}, which is no path element")]
pub(crate) struct ReadError {
    member: String,
}

impl Set {
    pub(crate) fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (element, node) in &self.nodes {
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

    /// Reads a set; elements of unknown sorts are left out, as they may be of a later version.
    pub(crate) fn from_json(value: &Value) -> Result<Self, ReadError> {
        Ok(read(value)?.1)
    }
}

/// Whether the path to this value is in the set, and what is below it.
fn read(value: &Value) -> Result<(bool, Set), ReadError> {
    let members = match value {
        Value::Object(members) => members,
        Value::Null => return Ok((true, Set::default())),
        other => return Err(ReadError { member: other.to_string() }),
    };
    let (mut member, mut set) = (false, Set::default());
    for (name, below) in members {
        if name == "." {
            member = true;
        } else if let Some(element) = element(name)? {
            let (is_member, children) = read(below)?;
            set.put(element, is_member, children);
        }
    }
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
            // The members of an object are in the order of their names.
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
        Element::Field(name) => format!("f:{name}"),
        Element::Key(keys) => {
            let keys: Map<String, Value> =
                keys.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
            format!("k:{}", as_go(&Value::Object(keys)))
        }
        Element::Value(value) => format!("v:{}", as_go(value)),
        Element::Index(index) => format!("i:{index}"),
    }
}

/// JSON as Go writes it: safe to be put into a page. The signs stand nowhere but in texts.
fn as_go(value: &Value) -> String {
    let mut text = value.to_string();
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
