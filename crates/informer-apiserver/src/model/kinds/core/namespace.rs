//! Namespaces: the label with their name, and `spec.finalizers`.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::json::Object;
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::object_meta;
use crate::model::object_meta::metadata_of_mut;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::write_options::WriteMode;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "",
    "v1",
    "Namespace",
    Traits::STATUS.with(Traits::RETURNS_DELETED).with(Traits::OWN_FIELDS).with(Traits::NO_NAMESPACE_FIELD),
)
.with_traits(Traits::REVALIDATES_METADATA)
.selectable(&["status.phase"])
.bookmark(r#","spec":{},"status":{}"#)
.name_format(Some(NameFormat::Label))
.rules(Rules::new(&[], &[Check::Call(validate)]))
.after_decode(label_named)
.initialize(fill)
.carry_over(carry_over)
.cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    // Only `/finalize` changes the spec of a stored namespace.
    if at.old.is_some() {
        return;
    }
    for name in at.items("spec.finalizers").iter().filter_map(Value::as_str) {
        check_finalizer(&"spec.finalizers", name, causes);
    }
}

fn check_finalizer(field: &dyn Display, name: &str, causes: &mut Causes) {
    const STANDARD: [&str; 3] = [FINALIZER, "orphan", "foregroundDeletion"];
    NameFormat::Qualified.check(field, name, causes);
    if !name.contains('/') && !STANDARD.contains(&name) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        causes.push(Cause::invalid(field, &format!("{name:?}"), why));
    }
}

/// Validates the finalizers that a request to the `/finalize` subresource adds.
pub(crate) fn added_finalizer_causes(old: &Object, new: &Object) -> Vec<Cause> {
    let known: HashSet<String> = finalizers(old).into_iter().collect();
    let mut causes = Causes::default();
    for (index, name) in finalizers(new).iter().enumerate().filter(|(_, name)| !known.contains(*name)) {
        check_finalizer(&format!("spec.finalizers[{index}]"), name, &mut causes);
    }
    causes.into_vec()
}

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) const FINALIZER: &str = "kubernetes";

/// Sets the fields of a new namespace that clients do not set: the name label, the finalizer and the status.
pub(crate) fn fill(object: &mut Object) {
    label(object);
    let mut names: Vec<Value> = finalizers(object).into_iter().map(Value::from).collect();
    if !names.contains(&FINALIZER.into()) {
        names.push(FINALIZER.into());
    }
    object.insert("spec".into(), json!({"finalizers": names}));
    object.insert("status".into(), json!({"phase": "Active"}));
}

pub(crate) fn label(object: &mut Object) {
    let name = object_meta::text(object, "name").to_owned();
    let labels = metadata_of_mut(object).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(NAME_LABEL.into(), name.into());
    }
}

/// Returns `spec.finalizers` of a namespace. Like `metadata.finalizers`, they delay its removal.
pub(crate) fn finalizers(object: &Object) -> Vec<String> {
    let list = object.get("spec").and_then(|spec| spec.get("finalizers")?.as_array());
    list.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns the stored namespace with the `spec.finalizers` of a request to the `/finalize` subresource.
pub(crate) fn with_finalizers(old: &Object, new: &mut Object) -> Object {
    let names = finalizers(new);
    let mut merged = old.clone();
    let spec = if names.is_empty() { json!({}) } else { json!({"finalizers": names}) };
    merged.insert("spec".into(), spec);
    merged
}

fn label_named(object: &mut Object) {
    if !object_meta::text(object, "name").is_empty() {
        label(object);
    }
}

/// Resets the fields of a namespace that an update cannot change: the name label and the spec.
fn carry_over(old: &Object, object: &mut Object, mode: WriteMode) {
    if matches!(mode, WriteMode::Main | WriteMode::Whole) {
        label(object);
        object_meta::copy_member("spec", old, object);
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(text(&row.status()["phase"])), row.age()]
}
