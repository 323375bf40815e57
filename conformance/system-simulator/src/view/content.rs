//! Converts the content of cached objects to JSON, for each representation.

use informer_client::{Dynamic, Lazy, Metadata, Packed, Representation, Typed};
use informer_core::Object;
use serde_json::{Value, json};

use crate::cluster::EXTRA;
use crate::sample::Sample;

/// A representation whose content can be compared as JSON with the server's object of kind `K`.
pub(crate) trait Content<K>: Representation {
    fn content(&self) -> Value;

    /// Returns the content that this representation should have for an object of the server.
    fn expected(object: &Value) -> Value {
        normalized(object.clone())
    }
}

/// Removes the fields that caches drop, and `apiVersion` and `kind`, which the items of lists do not have.
fn normalized(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Normalizes an object as [`normalized`] does. Also removes the fields that a newer server encodes with
/// protobuf field numbers unknown to the client: representations that are decoded from protobuf omit them.
fn known(object: Value) -> Value {
    let mut object = normalized(object);
    for path in ["/spec/containers", "/spec/template/spec/containers"] {
        let containers = object.pointer_mut(path).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove(EXTRA.name());
        }
    }
    object
}

fn parsed(text: Result<impl AsRef<str>, impl ToString>) -> Value {
    match text {
        Ok(text) => match serde_json::from_str(text.as_ref()) {
            Ok(value) => known(value),
            Err(error) => json!(format!("invalid JSON: {error}: {}", text.as_ref())),
        },
        Err(error) => json!(error.to_string()),
    }
}

impl<K: Sample> Content<K> for Lazy<K> {
    fn content(&self) -> Value {
        parsed(self.json())
    }

    fn expected(object: &Value) -> Value {
        known(object.clone())
    }
}

impl<K: Sample> Content<K> for Packed<K> {
    fn content(&self) -> Value {
        parsed(self.json())
    }

    fn expected(object: &Value) -> Value {
        known(object.clone())
    }
}

impl<K: Sample> Content<K> for Typed<K> {
    fn content(&self) -> Value {
        match self.get() {
            Ok(object) => normalized(serde_json::to_value(&*object).unwrap_or_default()),
            Err(error) => json!(error.to_string()),
        }
    }

    fn expected(object: &Value) -> Value {
        match serde_json::from_value::<K>(normalized_for_type(object)) {
            Ok(object) => normalized(serde_json::to_value(&object).unwrap_or_default()),
            Err(error) => json!(error.to_string()),
        }
    }
}

/// Removes managed fields, but keeps `apiVersion` and `kind`.
fn normalized_for_type(object: &Value) -> Value {
    let mut value = object.clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    value
}

impl<K: Sample> Content<K> for Dynamic {
    fn content(&self) -> Value {
        match self.value() {
            Ok(value) => normalized(Value::clone(&value)),
            Err(error) => json!(error.to_string()),
        }
    }
}

impl<K: Sample> Content<K> for Metadata<K> {
    fn content(&self) -> Value {
        let labels: serde_json::Map<_, _> =
            self.labels().iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let annotations: serde_json::Map<_, _> =
            Self::annotations(self).iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        let version = self.resource_version().to_string();
        json!({"uid": self.uid(), "version": version, "labels": labels, "annotations": annotations})
    }

    fn expected(object: &Value) -> Value {
        let meta = &object["metadata"];
        let or_empty = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
        json!({
            "uid": meta["uid"],
            "version": meta["resourceVersion"],
            "labels": or_empty(&meta["labels"]),
            "annotations": or_empty(&meta["annotations"]),
        })
    }
}
