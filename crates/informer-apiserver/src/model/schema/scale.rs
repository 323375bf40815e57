//! Validation of the fields that the `/scale` subresource of a custom resource reads.

use serde_json::Value;

use crate::model::cause::Cause;
use crate::model::go_format::{go_format, go_type};

/// The JSON paths of the `/scale` subresource, without the leading dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// Validates the number of replicas in the spec.
pub(super) fn check_spec(paths: &ScalePaths, object: &Value) -> Vec<Cause> {
    check_replicas(&paths.spec, object).into_iter().collect()
}

/// Validates the number of replicas and the selector in the status.
pub(super) fn check_status(paths: &ScalePaths, object: &Value) -> Vec<Cause> {
    let replicas = check_replicas(&paths.status, object);
    let selector = paths.selector.as_ref().and_then(|path| {
        let why = match find(object, path) {
            Ok(None | Some(Value::String(_))) => return None,
            Ok(Some(value)) => mistyped(path, value, "string"),
            Err(why) => why,
        };
        Some(Cause::invalid(&format!(".{path}"), "\"\"", &why))
    });
    replicas.into_iter().chain(selector).collect()
}

fn check_replicas(path: &str, object: &Value) -> Option<Cause> {
    let field = format!(".{path}");
    let replicas = match find(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(replicas) => replicas,
            None => return Some(Cause::invalid(&field, "0", &mistyped(path, value, "int64"))),
        },
        Err(why) => return Some(Cause::invalid(&field, "0", &why)),
    };
    let why = match replicas {
        ..0 => "should be a non-negative integer".to_owned(),
        0..=2_147_483_647 => return None,
        _ => format!("should be less than or equal to {}", i32::MAX),
    };
    Some(Cause::invalid(&field, &replicas.to_string(), &why))
}

/// Returns the value at a path; an error if a value above it is not an object.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut above = String::new();
    for name in path.split('.') {
        above = format!("{above}.{name}");
        let Value::Object(members) = value else {
            return Err(mistyped(above.trim_start_matches('.'), value, "map[string]interface{}"));
        };
        let Some(member) = members.get(name) else { return Ok(None) };
        value = member;
    }
    Ok(Some(value))
}

fn mistyped(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, found) = (go_format(value), go_type(value));
    format!(".{path} accessor error: {shown} is of the type {found}, expected {wanted}")
}
