//! The reference parser: `serde_json` values, and the header of an object.

use informer_core::{Header, ObjectKey, OwnerReference};
use serde_json::Value;

/// Returns the header of a parsed object; `None` if it is invalid.
pub(crate) fn header(object: &Value) -> Option<Header> {
    let metadata = object.as_object()?.get("metadata")?.as_object()?;
    for name in ["apiVersion", "kind"] {
        optional(object.get(name), Value::as_str)?;
    }
    let string =
        |name: &str| Some(optional(metadata.get(name), Value::as_str)?.unwrap_or_default().to_owned());
    let key = ObjectKey::new(&string("namespace")?, &string("name")?).ok()?;
    let deletion = optional(metadata.get("deletionTimestamp"), Value::as_str)?;
    string("creationTimestamp")?;
    optional(metadata.get("annotations"), Value::as_object)?;
    optional(metadata.get("finalizers"), Value::as_array)?;
    let mut labels = Vec::new();
    for (name, value) in optional(metadata.get("labels"), Value::as_object)?.into_iter().flatten() {
        labels.push((name.as_str(), value.as_str()?));
    }
    let mut owners = Vec::new();
    for owner in optional(metadata.get("ownerReferences"), Value::as_array)?.into_iter().flatten() {
        owners.push(owner_reference(owner)?);
    }
    let header = Header::new(key)
        .with_uid(string("uid")?)
        .with_version(string("resourceVersion")?)
        .with_generation(optional(metadata.get("generation"), Value::as_i64)?)
        .with_deletion_timestamp(deletion.map(Box::from))
        .with_labels(labels)
        .with_owners(owners);
    Some(header)
}

fn owner_reference(owner: &Value) -> Option<OwnerReference> {
    let owner = owner.as_object()?;
    let text = |name: &str| Some(optional(owner.get(name), Value::as_str)?.unwrap_or_default());
    let [api_version, kind] = [text("apiVersion")?, text("kind")?];
    let controller = optional(owner.get("controller"), Value::as_bool)?.unwrap_or_default();
    Some(OwnerReference::new(api_version, kind, text("name")?, text("uid")?, controller))
}

pub(crate) fn pruned(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Reads a member that may be absent or null; the outer `None` means another type.
fn optional<'a, T>(value: Option<&'a Value>, read: impl Fn(&'a Value) -> Option<T>) -> Option<Option<T>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}
