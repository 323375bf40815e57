//! Removes the values of Secrets from objects before the console returns them.

use serde_json::Value;

/// The members of a Secret that contain no secret values. The annotations below `metadata` are replaced:
/// tools such as `kubectl apply` store a copy of the whole object in one.
const SHOWN: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];

/// Returns true if an object of an informer is a Secret, or may be one.
///
/// Objects of built-in lists have no kind, and neither has metadata, so the name of the informer counts too.
/// An object without a kind is redacted if the name does not begin with a resource and a version.
pub(super) fn is_secret(informer: &str, object: &Value) -> bool {
    let resource = informer.split(' ').next().unwrap_or_default();
    match object["kind"].as_str() {
        Some("Secret") => true,
        _ if resource.starts_with("secrets.") => true,
        Some(kind) => kind.is_empty() && !names_version(resource),
        None => !names_version(resource),
    }
}

/// Returns true for a resource with its version, such as `pods.v1` or `deployments.v1.apps`.
fn names_version(resource: &str) -> bool {
    let version = resource.split('.').nth(1).and_then(|version| version.strip_prefix('v'));
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// Replaces the values of a Secret by their sizes: everything but its type and its metadata without
/// annotations. A custom resource of the kind `Secret` may have its values in any field.
pub(super) fn redact_secret(secret: &mut Value) {
    let Value::Object(members) = secret else {
        redact_value(secret, str::len);
        return;
    };
    for (name, value) in members.iter_mut().filter(|(name, _)| !SHOWN.contains(&name.as_str())) {
        redact_values(value, if name == "data" { decoded_size } else { str::len });
    }
    if let Some(annotations) = secret.pointer_mut("/metadata/annotations") {
        redact_values(annotations, str::len);
    }
}

/// Replaces the values of an object, or a value of another type as a whole.
fn redact_values(value: &mut Value, size: fn(&str) -> usize) {
    match value {
        Value::Object(values) => values.values_mut().for_each(|value| redact_value(value, size)),
        value => redact_value(value, size),
    }
}

fn redact_value(value: &mut Value, size: fn(&str) -> usize) {
    let text = match value {
        Value::Null => return,
        Value::String(text) => format!("(redacted, {} bytes)", size(text)),
        _ => "(redacted)".to_owned(),
    };
    *value = Value::String(text);
}

/// Returns the number of bytes that a base64 string encodes.
fn decoded_size(base64: &str) -> usize {
    let digits = base64.bytes().filter(|byte| !matches!(byte, b'=' | b'\n' | b'\r')).count();
    digits * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_a_secret_are_replaced_by_their_sizes() {
        let mut secret = json!({
            "kind": "Secret",
            "metadata": {"name": "s", "annotations": {"a": "b", "applied": "{\"data\":{}}"}},
            "data": {"short": "YQ==", "long": "aHVudGVyMg==", "empty": "", "none": null, "deep": {"a": "b"}},
            "stringData": {"password": "hunter2"},
            "type": "Opaque",
        });
        redact_secret(&mut secret);
        let data = json!({
            "short": "(redacted, 1 bytes)", "long": "(redacted, 7 bytes)", "empty": "(redacted, 0 bytes)",
            "none": null, "deep": "(redacted)",
        });
        assert_eq!(secret["data"], data);
        assert_eq!(secret["stringData"], json!({"password": "(redacted, 7 bytes)"}));
        let annotations = json!({"a": "(redacted, 1 bytes)", "applied": "(redacted, 11 bytes)"});
        assert_eq!(secret["metadata"], json!({"name": "s", "annotations": annotations}));
        assert_eq!((&secret["kind"], &secret["type"]), (&json!("Secret"), &json!("Opaque")));
    }

    #[test]
    fn values_in_other_fields_of_a_secret_are_replaced() {
        for mut secret in [
            json!({"data": "hunter2", "stringData": ["hunter2"], "metadata": null}),
            json!({"kind": "Secret", "spec": {"password": "hunter2"}, "status": {"deep": {"copy": "hunter2"}}}),
            json!({"metadata": {"annotations": "hunter2"}}),
            json!("hunter2"),
        ] {
            redact_secret(&mut secret);
            assert!(!secret.to_string().contains("hunter2"), "{secret}");
        }
    }

    #[test]
    fn object_without_kind_is_a_secret_unless_its_informer_names_another_resource() {
        for (informer, kind, expected) in [
            ("secrets.v1", json!(null), true),
            ("secrets.v1 namespace=a form=Metadata", json!("PartialObjectMetadata"), true),
            ("configmaps.v1", json!(null), false),
            ("deployments.v1.apps form=Metadata", json!(""), false),
            ("things", json!(null), true),
            ("things", json!(""), true),
            ("things", json!("ConfigMap"), false),
            ("things", json!("Secret"), true),
            ("configmaps.v1", json!("Secret"), true),
        ] {
            assert_eq!(is_secret(informer, &json!({"kind": kind})), expected, "{informer} {kind}");
        }
    }
}
