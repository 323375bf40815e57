//! Upper bounds for the results of the subexpressions of a CEL rule, such as the length of a string or list.

use std::rc::Rc;

use serde_json::Value;

/// Number of characters that a CEL call traverses for one cost unit.
pub(super) const CHARS_PER_UNIT: u64 = 10;
/// Maximum number of characters of a number when it is written out.
const MAX_NUMBER_CHARS: u64 = 330;

/// An upper bound for the result of a CEL subexpression.
#[derive(Clone)]
pub(super) enum Shape<'a> {
    /// The result is one of these values in the validated object.
    Values(Rc<Vec<&'a Value>>),
    /// The result is a list of at most this many items, each of this shape.
    Items(u64, Rc<Self>),
    /// The result is a string or another value of at most this length.
    Length(u64),
    /// The result is a string literal in the rule.
    Text(Rc<str>),
    /// There is no result: the element of an empty list.
    Nothing,
    /// The result is a number of at most this absolute value.
    Number(u64),
    /// The result is a quantity that is written out in at most this many characters.
    Quantity(u64),
}

impl<'a> Shape<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        Self::Values(Rc::new(vec![value]))
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Values(values) => values.iter().map(|value| length(value)).max().unwrap_or_default(),
            Self::Items(length, _) | Self::Length(length) => *length,
            Self::Text(text) => text.len() as u64,
            Self::Nothing | Self::Number(_) | Self::Quantity(_) => 0,
        }
    }

    /// Returns the maximum number of characters and values in the result, including nested values. This is
    /// the cost of a comparison and the length of the string form.
    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Values(values) => values.iter().map(|value| size(value)).max().unwrap_or_default(),
            Self::Items(length, item) => length.saturating_mul(item.total().saturating_add(1)),
            Self::Number(_) => MAX_NUMBER_CHARS,
            Self::Quantity(letters) => *letters,
            Self::Nothing => 0,
            Self::Length(_) | Self::Text(_) => self.len(),
        }
    }

    /// Returns the cost of comparing the result with another value. For lists that the rule constructs it
    /// includes nested values.
    pub(super) fn compared(&self) -> u64 {
        match self {
            Self::Items(..) => self.total(),
            _ => self.weight(),
        }
    }

    /// Returns the largest absolute value of the result; `None` if it has no bound.
    pub(super) fn number(&self) -> Option<u64> {
        let of_value = |value: &&Value| value.as_u64().or_else(|| value.as_i64().map(i64::unsigned_abs));
        match self {
            Self::Number(number) => Some(*number),
            Self::Values(values) => {
                values.iter().try_fold(0, |most: u64, value| Some(most.max(of_value(value)?)))
            }
            _ => None,
        }
    }

    /// Returns the strings that the result can be; `None` if they are not known.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) => Some(vec![text]),
            Self::Values(values) => values.iter().map(|value| value.as_str()).collect(),
            _ => None,
        }
    }

    pub(super) fn flattened(&self) -> Self {
        let item = self.items();
        if !item.is_list() && !matches!(item, Self::Length(_)) {
            return self.clone();
        }
        let count = self.len().saturating_mul(item.len().max(1));
        Self::Items(count, Rc::new(item.items()))
    }

    pub(super) fn is_list(&self) -> bool {
        match self {
            Self::Values(values) => values.iter().any(|value| value.is_array()),
            Self::Items(..) => true,
            Self::Length(_) | Self::Text(_) | Self::Nothing | Self::Number(_) | Self::Quantity(_) => false,
        }
    }

    pub(super) fn weight(&self) -> u64 {
        let weight = |value: &&Value| match value {
            Value::String(text) => text.len() as u64 / CHARS_PER_UNIT,
            other => length(other),
        };
        match self {
            Self::Values(values) => values.iter().map(weight).max().unwrap_or_default(),
            Self::Items(length, _) => *length,
            Self::Length(_) | Self::Text(_) => self.len() / CHARS_PER_UNIT,
            Self::Nothing | Self::Number(_) | Self::Quantity(_) => 0,
        }
    }

    /// Returns the shape of a loop variable over the value: the items of a list or the keys of a map.
    pub(super) fn items(&self) -> Self {
        match self {
            Self::Values(values) => {
                if values.iter().any(|value| value.is_object()) {
                    let names =
                        values.iter().filter_map(|value| value.as_object()).flat_map(|all| all.keys());
                    Self::Length(names.map(|name| name.len() as u64).max().unwrap_or_default())
                } else {
                    Self::gather(values, |value| value.as_array().into_iter().flatten())
                }
            }
            Self::Items(_, item) => Self::clone(item),
            Self::Nothing => Self::Nothing,
            Self::Length(_) | Self::Text(_) | Self::Number(_) | Self::Quantity(_) => Self::Length(self.len()),
        }
    }

    /// Returns the shape of the result of an index expression: the items of a list or the values of a map.
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

/// Returns the length of a value without its nested values: characters, items or members.
fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Returns the number of characters and values in a value, including nested values.
pub(super) fn size(value: &Value) -> u64 {
    let below: u64 = match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() as u64 + size(value)).sum(),
        other => length(other),
    };
    1 + below
}
