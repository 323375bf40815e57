//! What the parts of a rule may come to.

use std::rc::Rc;

use serde_json::Value;

/// Letters that a call goes through for one unit.
const LETTERS: u64 = 10;

/// What a part of a rule may come to, as far as costs go.
#[derive(Clone)]
pub(super) enum Shape<'a> {
    /// One of these values of the object.
    Values(Rc<Vec<&'a Value>>),
    /// A list of so many at most, each of this shape.
    Items(u64, Rc<Self>),
    /// A text or anything else of this length at most.
    Length(u64),
}

impl<'a> Shape<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        Self::Values(Rc::new(vec![value]))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Values(values) => values.iter().map(|value| length(value)).max().unwrap_or_default(),
            Self::Items(length, _) | Self::Length(length) => *length,
        }
    }

    pub(super) fn is_list(&self) -> bool {
        match self {
            Self::Values(values) => values.iter().any(|value| value.is_array()),
            Self::Items(..) => true,
            Self::Length(_) => false,
        }
    }

    /// What a call costs that goes through it.
    pub(super) fn weight(&self) -> u64 {
        let weight = |value: &&Value| match value {
            Value::String(text) => text.len() as u64 / LETTERS,
            other => length(other),
        };
        match self {
            Self::Values(values) => values.iter().map(weight).max().unwrap_or_default(),
            Self::Items(length, _) => *length,
            Self::Length(length) => length / LETTERS,
        }
    }

    /// What a loop over it sees: the items of a list, the names of an object.
    pub(super) fn items(&self) -> Self {
        match self {
            Self::Values(values) => match values.iter().any(|value| value.is_object()) {
                true => {
                    let names =
                        values.iter().filter_map(|value| value.as_object()).flat_map(|all| all.keys());
                    Self::Length(names.map(|name| name.len() as u64).max().unwrap_or_default())
                }
                false => Self::gather(values, |value| value.as_array().into_iter().flatten()),
            },
            Self::Items(_, item) => Self::clone(item),
            Self::Length(length) => Self::Length(*length),
        }
    }

    /// What an index finds in it.
    pub(super) fn entries(&self) -> Self {
        match self {
            Self::Values(values) => Self::gather(values, |value| {
                let items = value.as_array().into_iter().flatten();
                items.chain(value.as_object().into_iter().flat_map(|members| members.values()))
            }),
            other => other.items(),
        }
    }

    pub(super) fn gather<I: Iterator<Item = &'a Value>>(
        values: &[&'a Value],
        of: impl Fn(&'a Value) -> I,
    ) -> Self {
        Self::Values(Rc::new(values.iter().flat_map(|value| of(value)).collect()))
    }
}

/// The length of a value itself: letters, items, members.
fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The letters and values of all of it.
pub(super) fn size(value: &Value) -> u64 {
    let below: u64 = match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() as u64 + size(value)).sum(),
        other => length(other),
    };
    1 + below
}
