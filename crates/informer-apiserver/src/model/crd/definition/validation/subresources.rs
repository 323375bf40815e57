//! The paths of the `/scale` subresource.

use serde_json::Value;

use super::text;
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::required;

/// Returns the problem of a simple JSON path; `None` if it is valid.
pub(super) fn path_problem(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("must not be empty"),
        path if !path.starts_with('.') => Some("must be a simple json path starting with ."),
        _ => None,
    }
}

pub(super) fn check(subresources: &Value, path: &str, causes: &mut Causes) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    let mut check = |name: &str, prefixes: &[&str], why: &str| {
        let (value, field) = (text(scale, name), format!("{path}.scale.{name}"));
        if let Some(why) = path_problem(value) {
            causes.push(Cause::invalid(&field, &format!("{value:?}"), why));
        } else if !prefixes.iter().any(|prefix| value.starts_with(prefix)) {
            causes.push(Cause::invalid(&field, &format!("{value:?}"), why));
        }
    };
    let mut missing = Vec::new();
    for (name, prefix, why) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        if text(scale, name).is_empty() {
            missing.push(required(&format!("{path}.scale.{name}"), ""));
        } else {
            check(name, &[prefix], why);
        }
    }
    if !text(scale, "labelSelectorPath").is_empty() {
        let why = "should be a json path under either .spec or .status";
        check("labelSelectorPath", &[".spec.", ".status."], why);
    }
    causes.extend(missing);
}
