//! Metadata and types of embedded resources (`x-kubernetes-embedded-resource`).

use informer_schema::Message;
use serde_json::{Map, Value};

use crate::model::cause::{Cause, Causes};
use crate::model::json;
use crate::model::object_meta;
use crate::model::rules::checks::{LABEL_1035_RULE, NameFormat, required};

/// Returns the type of `metadata`.
pub(crate) fn type_of(kinds: &informer_schema::Schema) -> Option<Message<'_>> {
    kinds.kind_by_api_version("v1", "ConfigMap")?.message().field("metadata")?.message()
}

/// Decodes `metadata` as Go's `ObjectMeta`, and drops the unknown fields. Returns their paths below
/// `metadata`.
pub(crate) fn decode(meta: Message<'_>, metadata: &mut Map<String, Value>) -> Result<Vec<String>, String> {
    let unknown = crate::model::typed::fit(meta, metadata)
        .map_err(|why| why.replace("Go struct field ObjectMeta.metadata.", "Go struct field ObjectMeta."))?;
    Ok(unknown)
}

/// Checks the types of the embedded resources in an object, and drops unknown fields of their metadata.
/// Returns the paths of the dropped fields in order.
///
/// # Errors
///
/// Returns kube-apiserver's message for a field of a wrong type.
pub(crate) fn coerce(
    meta: Message<'_>,
    schema: &Value,
    object: &mut Map<String, Value>,
) -> Result<Vec<String>, String> {
    let mut coercion = Coercion { meta, unknown: Vec::new() };
    coercion.members(schema, object, "")?;
    coercion.unknown.sort();
    Ok(coercion.unknown)
}

struct Coercion<'a> {
    meta: Message<'a>,
    unknown: Vec<String>,
}

impl Coercion<'_> {
    fn value(&mut self, schema: &Value, value: &mut Value, path: &str) -> Result<(), String> {
        match value {
            Value::Object(object) if schema.is_object() => self.members(schema, object, path),
            Value::Array(items) if schema.is_object() => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(&schema["items"], item, &format!("{path}[{index}]"))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn members(&mut self, schema: &Value, object: &mut Map<String, Value>, path: &str) -> Result<(), String> {
        let is_embedded = schema["x-kubernetes-embedded-resource"] == true;
        for (name, value) in object.iter_mut() {
            let here = child(path, name);
            match name.as_str() {
                "apiVersion" | "kind" if is_embedded && !value.is_string() => {
                    return Err(format!("{here}: Invalid value: {value}: must be a string"));
                }
                "metadata" if is_embedded => self.metadata(value, &here)?,
                _ => {}
            }
            match schema["properties"].get(name) {
                Some(field) => self.value(field, value, &here)?,
                None => self.value(&schema["additionalProperties"], value, &format!("{path}[{name}]"))?,
            }
        }
        Ok(())
    }

    fn metadata(&mut self, value: &mut Value, path: &str) -> Result<(), String> {
        let invalid = |value: &Value, why: &str| format!("{path}: Invalid value: {value}: {why}");
        match value {
            Value::Null => *value = Value::Object(Map::new()),
            Value::Object(metadata) => {
                let sent = Value::Object(metadata.clone());
                let unknown = decode(self.meta, metadata).map_err(|why| invalid(&sent, &why))?;
                self.unknown.extend(unknown.into_iter().map(|name| format!("{path}.{name}")));
                crate::model::typed::form(self.meta, metadata);
                metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
            }
            other => {
                let found = json::json_type(other);
                let why = format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta");
                return Err(invalid(other, &why));
            }
        }
        Ok(())
    }
}

/// Validates the embedded resources of an object.
pub(crate) fn validate(schema: &Value, value: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(schema, value, path, &mut causes);
    causes.into_vec()
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Causes) {
    match value {
        Value::Object(members) if schema.is_object() => {
            if schema["x-kubernetes-embedded-resource"] == true {
                check_embedded(members, path, causes);
            }
            for (name, value) in members {
                match schema["properties"].get(name) {
                    Some(field) => check(field, value, &child(path, name), causes),
                    None => {
                        check(&schema["additionalProperties"], value, &format!("{path}[{name}]"), causes);
                    }
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

/// Validates the type and the metadata of one embedded resource.
pub(crate) fn check_embedded(members: &Map<String, Value>, path: &str, causes: &mut Causes) {
    for name in ["apiVersion", "kind"].into_iter().filter(|name| !members.contains_key(*name)) {
        causes.push(required(&child(path, name), ""));
    }
    let mut invalid = |name: &str, value: &Value, why: &str| {
        causes.push(Cause::invalid(&child(path, name), &value.to_string(), why));
    };
    if let Some(value) = members.get("apiVersion") {
        match value.as_str() {
            None => invalid("apiVersion", value, "must be a string"),
            Some("") => invalid("apiVersion", value, "must not be empty"),
            Some(text) if text.matches('/').count() > 1 => {
                invalid("apiVersion", value, &format!("unexpected GroupVersion string: {text}"));
            }
            Some(_) => {}
        }
    }
    if let Some(value) = members.get("kind") {
        match value.as_str() {
            None => invalid("kind", value, "must be a string"),
            Some("") => invalid("kind", value, "must not be empty"),
            Some(text) if !NameFormat::Label1035.is_valid(&text.to_lowercase()) => {
                let why = format!("may have mixed case, but should otherwise match: {LABEL_1035_RULE}");
                invalid("kind", value, &why);
            }
            Some(_) => {}
        }
    }
    if let Some(metadata) = members.get("metadata").and_then(Value::as_object) {
        let below = object_meta::embedded_causes(metadata);
        causes.extend(below.into_iter().map(|mut cause| {
            cause.field = child(path, &cause.field);
            cause
        }));
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
