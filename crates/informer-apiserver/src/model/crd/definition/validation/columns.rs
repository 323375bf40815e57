//! Additional printer columns.

use serde_json::Value;

use super::subresources::path_problem;
use super::text;
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::required;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn check(column: &Value, path: &str, causes: &mut Causes) {
    if text(column, "name").is_empty() {
        causes.push(required(&format!("{path}.name"), ""));
    }
    let kind = text(column, "type");
    let allowed = format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        causes.push(Cause::required(&format!("{path}.type"), &allowed));
    } else if !TYPES.contains(&kind) {
        causes.push(Cause::invalid(&format!("{path}.type"), &format!("{kind:?}"), &allowed));
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let why = format!("must be one of {}", FORMATS.join(","));
        causes.push(Cause::invalid(&format!("{path}.format"), &format!("{format:?}"), &why));
    }
    let json_path = text(column, "jsonPath");
    let field = format!("{path}.JSONPath");
    if json_path.is_empty() {
        causes.push(required(&field, ""));
    } else if let Some(why) = path_problem(json_path) {
        causes.push(Cause::invalid(&field, &format!("{json_path:?}"), why));
    }
}
