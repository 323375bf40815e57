//! Default rules for fields of built-in kinds, and the function that applies them.

use serde_json::Value;

use crate::model::rules::path::{each_mut, get, set};

pub(crate) const TCP: &[Default] = &[Default::Fill("protocol", "\"TCP\"")];

/// A default for the part of an object at a path. The path is relative to the part that is defaulted.
#[derive(Clone, Copy)]
pub(crate) enum Default {
    /// Sets a field to this JSON value if it is missing or an empty string. Creates missing parents.
    Fill(&'static str, &'static str),
    /// Sets a field to this number if it is missing or zero.
    FillZero(&'static str, i64),
    /// Applies the defaults to each part of the object that the path matches.
    In(&'static str, &'static [Self]),
    /// Applies the defaults if the field has this value.
    When(&'static str, &'static str, &'static [Self]),
    Call(fn(&mut Value)),
}

pub(crate) fn fill(value: &mut Value, defaults: &[Default]) {
    for default in defaults {
        match *default {
            Default::Fill(path, json) => {
                if is_empty(get(value, path)) {
                    set(value, path, literal(json));
                }
            }
            Default::FillZero(path, number) => {
                if get(value, path).is_none_or(|found| *found == 0) {
                    set(value, path, number.into());
                }
            }
            Default::In(path, defaults) => each_mut(value, path, &mut |part| fill(part, defaults)),
            Default::When(path, wanted, defaults) => {
                if get(value, path).and_then(Value::as_str) == Some(wanted) {
                    fill(value, defaults);
                }
            }
            Default::Call(call) => call(value),
        }
    }
}

pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.as_str() == Some(""))
}

fn literal(json: &str) -> Value {
    serde_json::from_str(json).expect("the defaults of this crate are JSON")
}
