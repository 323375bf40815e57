//! Path elements of managed fields, and the order of the values in them.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

#[derive(Debug, Clone)]
pub(crate) enum Element {
    Field(Box<str>),
    /// An entry of an associative list, identified by its key fields, which are sorted by name.
    Key(Vec<(Box<str>, Value)>),
    /// An entry of a set, identified by its value.
    Value(Value),
    Index(i64),
}

impl Element {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Compares this element with a field of that name. Fields sort before all other elements.
    pub(super) fn against_field(&self, name: &str) -> Ordering {
        match self {
            Self::Field(own) => own.as_ref().cmp(name),
            _ => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => keys_order(left, right),
            (Self::Value(left), Self::Value(right)) => order(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

fn keys_order(left: &[(Box<str>, Value)], right: &[(Box<str>, Value)]) -> Ordering {
    let pairs = left.iter().zip(right);
    let first = pairs.map(|(l, r)| l.0.cmp(&r.0).then_with(|| order(&l.1, &r.1))).find(|order| order.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Compares two values by a total order: numbers, strings, booleans, lists, objects, null. Integers and
/// floats are compared by value.
pub(crate) fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let differing = left.iter().zip(right).map(|(l, r)| order(l, r)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut pairs = left.iter().zip(right);
            let differing = pairs
                .find_map(|(l, r)| Some(l.0.cmp(r.0).then_with(|| order(l.1, r.1))).filter(|o| o.is_ne()));
            differing.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (left, right) => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left.cmp(&right);
    }
    // JSON has no NaN.
    left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal)
}

pub(crate) fn same(left: &Value, right: &Value) -> bool {
    order(left, right) == Ordering::Equal
}

/// A field path, in the format in which conflicts report it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Path(pub(crate) Vec<Element>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", format_value(value))).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", format_value(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a key or a set entry in a field path like kube-apiserver.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(format_value).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name}={}", format_value(value))).collect()
        }
        other => other.to_string(),
    }
}
