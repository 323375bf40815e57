//! Hides the values of Secrets in the output of `informer watch`.

use serde_json::Value;

use super::diff::Segment;

/// The text that replaces a hidden value. It does not reveal the length of the value.
pub(super) const HIDDEN: &str = "***";

/// The annotation in which `kubectl apply` stores the whole object, including the data of a Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn hide(path: &[Segment<'_>], value: &Value) -> Value {
    let keys: Vec<&str> = path.iter().map(|segment| segment.key().unwrap_or_default()).collect();
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
        // In a valid Secret, `data` and `stringData` are objects of strings. A value of any other type,
        // except null, is hidden as a whole.
        Value::Null => Value::Null,
        _ if matches!(path, ["data" | "stringData"]) => Value::String(HIDDEN.to_owned()),
        other => other.clone(),
    }
}

fn is_secret(path: &[&str]) -> bool {
    matches!(path, ["data" | "stringData", _, ..] | ["metadata", "annotations", LAST_APPLIED, ..])
}
