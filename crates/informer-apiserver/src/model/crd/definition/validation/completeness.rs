//! Checks that each value validation within `allOf`, `anyOf`, `oneOf` and `not` applies to a part of the
//! structure.

use serde_json::Value;

use super::{items, list, members};
use crate::model::cause::{Cause, Causes};

/// A part of the structure; `None` if the schema does not specify it.
#[derive(Clone, Copy)]
struct Structure<'a> {
    schema: Option<&'a Value>,
    path: &'a str,
}

pub(super) fn check(schema: &Value, path: &str, causes: &mut Causes) {
    values(schema, Structure { schema: Some(schema), path }, path, causes);
}

fn values(values: &Value, of: Structure<'_>, path: &str, causes: &mut Causes) {
    if let Some(part) = values.get("not").filter(|part| part.is_object()) {
        nested(part, of, &format!("{path}.not"), causes);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in list(values, name).iter().enumerate() {
            nested(part, of, &format!("{path}.{name}[{index}]"), causes);
        }
    }
}

fn nested(part: &Value, of: Structure<'_>, path: &str, causes: &mut Causes) {
    let Some(schema) = of.schema else {
        causes.push(Cause::required(of.path, &format!("because it is defined in {path}")));
        return;
    };
    values(part, of, path, causes);
    if let Some(below) = items(part) {
        let at = format!("{}.items", of.path);
        nested(below, Structure { schema: items(schema), path: &at }, &format!("{path}.items"), causes);
    }
    for (name, below) in members(part, "properties") {
        let at = format!("{}.properties[{name}]", of.path);
        let of = Structure { schema: schema["properties"].get(name), path: &at };
        nested(below, of, &format!("{path}.properties[{name}]"), causes);
    }
}
