//! Error messages of Go's converter for untyped values (`FromUnstructured`).

use informer_schema::{BaseType, Shape};
use serde_json::Value;

use super::go_name;
use crate::model::json::json_type;

/// Returns the error for a value that cannot be converted to a list or map (`shape`), or to a scalar if
/// `shape` is `None`.
pub(super) fn unconvertible(shape: Option<Shape>, base: BaseType<'_>, value: &Value) -> String {
    let (found, wanted) = (go_kind(value), go_name(base));
    match (shape, base) {
        (Some(Shape::Map), _) => format!("cannot restore map from {found}"),
        (Some(_), _) => format!("cannot restore slice from {found}"),
        (None, BaseType::Message(_)) => format!("cannot restore struct from: {found}"),
        // These Go types have their own JSON decoder, so their errors are those of encoding/json.
        (None, BaseType::Time | BaseType::MicroTime | BaseType::Duration) => {
            format!("json: cannot unmarshal {} into Go value of type string", json_type(value))
        }
        (None, BaseType::IntOrString) => {
            format!("json: cannot unmarshal {} into Go value of type int32", json_type(value))
        }
        // Go converts integers to strings and floats to integers. This server rejects such values, with its
        // own message.
        (None, BaseType::String) if found == "int64" => format!("cannot convert {found} to {wanted}"),
        (None, BaseType::Int32 | BaseType::Int64) if found == "float64" => {
            format!("cannot convert {found} to {wanted}")
        }
        _ => format!("unrecognized type: {wanted}"),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
