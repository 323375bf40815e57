//! The metadata of objects of any kind: access, the fields that an update takes from the stored object, and
//! validation.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::{Map, Value};

use crate::model::cause::Cause;
use crate::model::json::Object;
use crate::model::labels::label_value_problems;
use crate::model::rules::{label_problems, qualified_problems};

pub(crate) const FIELDS: &str = "managedFields";

pub(crate) fn metadata_of(object: &Object) -> Option<&Object> {
    object.get("metadata").and_then(Value::as_object)
}

/// Returns the metadata of an object. Creates the metadata if it is missing or not an object.
pub(crate) fn metadata_of_mut(object: &mut Object) -> &mut Object {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("the metadata was just replaced by an object")
}

/// Returns a string field of an object's metadata; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    metadata_of(object).and_then(|metadata| metadata.get(name)?.as_str()).unwrap_or_default()
}

pub(crate) fn finalizers(object: &Object) -> Vec<&str> {
    let list = metadata_of(object).and_then(|metadata| metadata.get("finalizers")?.as_array());
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the name of an object for error messages, or its `generateName` if it has no name yet.
pub(crate) fn display_name(object: &Object) -> &str {
    let text = |name: &str| {
        metadata_of(object).and_then(|metadata| metadata.get(name))?.as_str().filter(|text| !text.is_empty())
    };
    text("name").or_else(|| text("generateName")).unwrap_or("Unknown")
}

/// Removes the metadata that clients cannot set from a new object.
pub(crate) fn remove_server_fields(object: &mut Object) {
    let metadata = metadata_of_mut(object);
    for wiped in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(wiped);
    }
}

/// Copies a top-level field from one object to another. Removes it there if the source does not have it.
pub(crate) fn copy_member(name: &str, from: &Object, to: &mut Object) {
    match from.get(name) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

/// Copies the metadata that clients cannot change from the stored object to the updated one.
pub(crate) fn carry_over(old: &Object, new: &mut Object) {
    const CARRIED: [&str; 7] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let empty = Map::new();
    let old = metadata_of(old).unwrap_or(&empty);
    let new = metadata_of_mut(new);
    new.remove("selfLink");
    for name in CARRIED {
        match old.get(name) {
            Some(value) => new.insert(name.to_owned(), value.clone()),
            None => new.remove(name),
        };
    }
}

/// Returns true if a deletion increments `metadata.generation` of the object, which it does for all kinds
/// except CRDs.
pub(crate) fn counts_deletion(object: &Object) -> bool {
    object.get("kind").is_none_or(|kind| kind != "CustomResourceDefinition")
}

pub(crate) fn take_fields(object: &mut Object) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.remove(FIELDS)
}

pub(crate) fn set_fields(object: &mut Object, fields: Option<Value>) {
    let metadata = metadata_of_mut(object);
    match fields {
        Some(fields) => metadata.insert(FIELDS.into(), fields),
        None => metadata.remove(FIELDS),
    };
}

/// Validates the labels or annotations that a conversion webhook returned.
pub(crate) fn check_converted(name: &str, members: &Value) -> Result<(), String> {
    let metadata = Map::from_iter([(name.to_owned(), members.clone())]);
    let causes = field_causes(&Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]));
    if causes.is_empty() { Ok(()) } else { Err(Cause::joined(&causes)) }
}

/// Validates the metadata of an embedded resource. The fields of the errors begin with `metadata`.
pub(crate) fn embedded_causes(metadata: &Object) -> Vec<Cause> {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut causes = Vec::new();
    for name in ["generateName", "name"] {
        let value = text(name);
        let problems = match value {
            "." if name == "name" => vec!["may not be '.'"],
            ".." if name == "name" => vec!["may not be '..'"],
            value => [("/", "may not contain '/'"), ("%", "may not contain '%'")]
                .into_iter()
                .filter_map(|(part, why)| value.contains(part).then_some(why))
                .collect(),
        };
        let field = format!("metadata.{name}");
        causes.extend(problems.iter().map(|why| Cause::invalid(&field, &format!("{value:?}"), why)));
    }
    let namespace = text("namespace");
    if !namespace.is_empty() {
        let cause = |why: &&str| Cause::invalid("metadata.namespace", &format!("{namespace:?}"), why);
        causes.extend(label_problems(namespace).iter().map(cause));
    }
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0)
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("metadata.generation", &generation.to_string(), why));
    }
    let object = Map::from_iter([("metadata".to_owned(), Value::Object(metadata.clone()))]);
    causes.extend(field_causes(&object));
    causes
}

/// The maximum size of all annotations of an object, as in kube-apiserver.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// Validates labels, annotations and ownerReferences, which have the same rules for all kinds.
pub(crate) fn field_causes(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let map = |name: &str| metadata_of(object).and_then(|metadata| metadata.get(name)?.as_object());
    for (name, value) in map("labels").into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let invalid = |text: &str, why: &str| Cause::invalid("metadata.labels", &format!("{text:?}"), why);
        causes.extend(qualified_problems(name).iter().map(|why| invalid(name, why)));
        causes.extend(label_value_problems(value).iter().map(|why| invalid(value, why)));
    }
    let annotations = metadata_of(object).and_then(|metadata| metadata.get("annotations"));
    causes.extend(annotation_causes("metadata.annotations", annotations));
    causes.extend(owner_references_causes(object));
    causes
}

/// Validates the names and the size of annotations.
pub(crate) fn annotation_causes(field: &(impl Display + ?Sized), annotations: Option<&Value>) -> Vec<Cause> {
    let (mut causes, mut size) = (Vec::new(), 0);
    for (name, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        size += name.len() + value.as_str().unwrap_or_default().len();
        let problems = qualified_problems(&lowercase(name));
        causes.extend(problems.iter().map(|why| Cause::invalid(field, &format!("{name:?}"), why)));
    }
    if size > MAX_ANNOTATIONS_BYTES {
        causes.push(Cause::too_long(field, MAX_ANNOTATIONS_BYTES));
    }
    causes
}

/// Returns a name in lower case. Most names are ASCII without capitals, and are not copied.
fn lowercase(name: &str) -> Cow<'_, str> {
    let is_lowercase = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lowercase { name.into() } else { name.to_lowercase().into() }
}

/// Validates the syntax of finalizers. The errors are those of all kinds.
pub(crate) fn finalizer_causes(object: &Object) -> Vec<Cause> {
    let invalid = |name: &str, why: &str| Cause::invalid("metadata.finalizers", &format!("{name:?}"), why);
    let names = finalizers(object);
    let mut causes: Vec<Cause> = names
        .iter()
        .flat_map(|name| qualified_problems(name).into_iter().map(move |why| invalid(name, &why)))
        .collect();
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let shown = serde_json::to_string(&names).unwrap_or_default();
        let why = "finalizers orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &shown, why));
    }
    causes
}

/// Returns the errors for finalizers that have no domain and are not those of Kubernetes.
pub(crate) fn unqualified_finalizer_causes(object: &Object) -> Vec<Cause> {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let unqualified = |(_, name): &(usize, &str)| !name.contains('/') && !STANDARD.contains(name);
    let cause = |(index, name): (usize, &str)| {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        Cause::invalid(&format!("metadata.finalizers[{index}]"), &format!("{name:?}"), why)
    };
    finalizers(object).into_iter().enumerate().filter(unqualified).map(cause).collect()
}

pub(crate) fn owner_references_causes(object: &Object) -> impl Iterator<Item = Cause> {
    let owners = metadata_of(object).and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    owners.into_iter().flatten().flat_map(owner_reference_causes)
}

fn owner_reference_causes(owner: &Value) -> impl Iterator<Item = Cause> {
    let text = |name: &str| owner[name].as_str().unwrap_or_default();
    let versioned = !text("apiVersion").rsplit('/').next().unwrap_or_default().is_empty();
    let missing = [
        ("apiVersion", !versioned, "version must not be empty"),
        ("kind", text("kind").is_empty(), "must not be empty"),
        ("name", text("name").is_empty(), "must not be empty"),
        ("uid", text("uid").is_empty(), "must not be empty"),
    ];
    let cause = |(name, _, why): (&str, bool, &str)| {
        Cause::invalid(&format!("metadata.ownerReferences.{name}"), "\"\"", why)
    };
    missing.into_iter().filter(|(_, missing, _)| *missing).map(cause)
}
