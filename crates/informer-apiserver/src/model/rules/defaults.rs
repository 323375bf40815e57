//! What fields are when nobody says.

use serde_json::Value;

use super::path::{each_mut, get, set};

/// One default, relative to some part of an object.
#[derive(Clone, Copy)]
pub(super) enum Default {
    /// A field that is missing or an empty text gets this JSON; what leads to it is made.
    Fill(&'static str, &'static str),
    /// A number that is missing or zero.
    FillZero(&'static str, i64),
    /// These within each part that the path leads to.
    In(&'static str, &'static [Self]),
    /// These where a field has this value.
    When(&'static str, &'static str, &'static [Self]),
    /// Whatever else.
    Call(fn(&mut Value)),
}

pub(super) fn fill(value: &mut Value, defaults: &[Default]) {
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

pub(super) fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(|value| value.as_str() == Some(""))
}

fn literal(json: &str) -> Value {
    serde_json::from_str(json).expect("the defaults of this crate are JSON")
}
