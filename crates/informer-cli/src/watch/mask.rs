//! What of a Secret is hidden.

use serde_json::Value;

use super::diff::Segment;

/// What stands for a hidden value. Its length tells nothing.
pub(super) const HIDDEN: &str = "***";

/// `kubectl apply` writes the whole object here, data and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The value at a path of a Secret, without what is to be kept secret.
pub(super) fn hide(path: &[Segment<'_>], value: &Value) -> Value {
    let keys: Vec<&str> = path.iter().map(Segment::key).collect();
    hidden(&keys, value)
}

fn hidden(path: &[&str], value: &Value) -> Value {
    if is_secret(path) && !value.is_null() {
        return Value::String(HIDDEN.to_owned());
    }
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let path = [path, &[name.as_str()]].concat();
                (name.clone(), hidden(&path, value))
            });
            Value::Object(members.collect())
        }
        // `data` is an object of values; anything else there is not to be trusted.
        Value::Null => Value::Null,
        _ if matches!(path, ["data" | "stringData"]) => Value::String(HIDDEN.to_owned()),
        other => other.clone(),
    }
}

fn is_secret(path: &[&str]) -> bool {
    matches!(path, ["data" | "stringData", _, ..] | ["metadata", "annotations", LAST_APPLIED, ..])
}
