//! Builds requests to CRD conversion webhooks and checks their responses. These are pure functions;
//! [`convert`](crate::registry::conversion) calls the webhook.

use serde_json::{Map, Value, json};

use crate::model::go_format::go_type;
use crate::model::object_meta::check_converted;

type Object = Map<String, Value>;

pub(crate) fn review(version: &str, uid: &str, desired: &str, objects: &[Value]) -> Value {
    json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
    })
}

/// Returns an object as conversion webhooks receive it, which is without `metadata.resourceVersion`.
pub(crate) fn shown(object: &Object) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    Value::Object(object)
}

/// Returns the GroupVersionKind of an object in Go's format.
fn type_of(object: &Object) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

/// Returns kube-apiserver's message for a failed conversion of an object. `what` is `failed: REASON` or
/// `returned ...`.
pub(crate) fn failed(object: &Object, what: &str) -> String {
    format!("conversion webhook for {} {what}", type_of(object))
}

/// Returns the converted objects in the response of a conversion webhook. The caller must wrap the error with
/// [`failed`].
pub(crate) fn read(review: &Value, version: &str, uid: &str, count: usize) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let failed = |why: &str| Err(format!("failed: {why}"));
    let api_version = format!("apiextensions.k8s.io/{version}");
    if review["kind"] != "ConversionReview" || review["apiVersion"] != *api_version {
        return failed(&format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            text(&review["kind"]),
            text(&review["apiVersion"])
        ));
    }
    let response = &review["response"];
    if !response.is_object() {
        return failed("no response provided");
    }
    // In `v1beta1` responses the `uid` is not checked, as in kube-apiserver.
    if version == "v1" && response["uid"] != uid {
        return failed(&format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        return match text(&result["message"]) {
            none if none.is_empty() => {
                failed(&format!("response.result.status was '{}', not 'Success'", text(&result["status"])))
            }
            message => failed(&message),
        };
    }
    let converted = response["convertedObjects"].as_array().cloned().unwrap_or_default();
    if converted.len() == count {
        Ok(converted)
    } else {
        Err(format!("returned {} objects, expected {count}", converted.len()))
    }
}

/// Returns one converted object. Its metadata are those of the original, except for labels and annotations,
/// because a conversion webhook may not change other metadata. The caller must wrap the error with
/// [`failed`].
pub(crate) fn take(original: &Object, converted: Value, desired: &str) -> Result<Object, String> {
    let Value::Object(mut object) = converted else {
        return Err("returned invalid object at index 0: it is not an object".to_owned());
    };
    let text =
        |object: &Object, name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = text(&object, "apiVersion");
    if found != desired {
        return Err(format!(
            "returned invalid object at index 0: invalid groupVersion (expected {desired}, received {found})"
        ));
    }
    let (expected, found) = (text(original, "kind"), text(&object, "kind"));
    if found != expected {
        return Err(format!(
            "returned invalid object at index 0: invalid kind (expected {expected}, received {found})"
        ));
    }
    for (name, what) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let of = |object: &Object| {
            object.get("metadata").map(|metadata| metadata[name].as_str().unwrap_or_default().to_owned())
        };
        let (expected, found) = (of(original).unwrap_or_default(), of(&object).unwrap_or_default());
        if expected != found {
            return Err(format!("returned invalid object: must have the same {what}: {expected} != {found}"));
        }
    }
    let metadata = with_original_metadata(original, &object)
        .map_err(|why| format!("returned invalid metadata: {why}"))?;
    object.insert("metadata".into(), metadata);
    Ok(object)
}

fn with_original_metadata(original: &Object, converted: &Object) -> Result<Value, String> {
    let given = match converted.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go_type(other)));
        }
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for name in ["labels", "annotations"] {
        let members = match given.get(name) {
            None | Some(Value::Null) => {
                metadata.remove(name);
                continue;
            }
            Some(Value::Object(members)) => members,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{name} of type {} in converted object",
                    go_type(other)
                ));
            }
        };
        if let Some((member, value)) = members.iter().find(|(_, value)| !value.is_string()) {
            let is = go_type(value);
            return Err(format!(
                "metadata.{name}[{member}] must be a string, but is {is} in converted object"
            ));
        }
        let members = Value::Object(members.clone());
        if metadata.get(name) != Some(&members) {
            check_converted(name, &members)?;
        }
        metadata.insert(name.to_owned(), members);
    }
    Ok(Value::Object(metadata))
}
