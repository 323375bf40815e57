use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView};
use crate::model::rules::path::get;
use crate::model::table::TableRow;
use crate::model::table::text::size;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "ConfigMap", Traits::NONE)
    .with_traits(Traits::REVALIDATES_METADATA)
    .rules(Rules::new(&[], &[Check::Call(validate)]).changes(UPDATE_CHECKS))
    .cells(cells);

pub(crate) const UPDATE_CHECKS: &[Check] =
    &[Check::Call(|at, causes| check_immutable_data(at, &["data", "binaryData"], causes))];

const KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Maximum size of the data of one ConfigMap or Secret in bytes, as in kube-apiserver.
const MAX_DATA_BYTES: usize = 1 << 20;

pub(crate) fn check_keys(at: &FieldView<'_, '_>, field: &str, causes: &mut Causes) {
    for key in at.get(field).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys) {
        let field = at.field_path(field).key(key);
        let invalid = |why: &str| Cause::invalid(&field, &format!("{key:?}"), why);
        causes.extend(key_problems(key).into_iter().map(invalid));
    }
}

/// The maximum length of a key of a ConfigMap or Secret in bytes.
const MAX_KEY_BYTES: usize = 253;

/// Returns the reasons why a key of a ConfigMap or Secret is invalid. Volumes use keys as file names.
pub(crate) fn key_problems(key: &str) -> Vec<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let long = (key.len() > MAX_KEY_BYTES).then_some("must be no more than 253 characters");
    let wrong = (key.is_empty() || !key.bytes().all(is_allowed)).then_some(KEY_RULE);
    let parent = match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        key if key.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    };
    long.into_iter().chain(wrong).chain(parent).collect()
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_keys(at, "data", causes);
    let binary = at.get("binaryData").and_then(Value::as_object);
    for key in at.get("data").and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys) {
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(&format!("data[{key}]"), &format!("{key:?}"), why));
        }
    }
    check_keys(at, "binaryData", causes);
    let size = |field: &str, scale: fn(usize) -> usize| -> usize {
        let values = at.get(field).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::values);
        values.filter_map(Value::as_str).map(|text| scale(text.len())).sum()
    };
    if size("data", |bytes| bytes) + size("binaryData", |bytes| bytes / 4 * 3) > MAX_DATA_BYTES {
        causes.push(Cause::too_long("[]", MAX_DATA_BYTES));
    }
}

pub(crate) fn check_immutable_data(at: &FieldView<'_, '_>, fields: &[&str], causes: &mut Causes) {
    let Some(old) = at.old.filter(|old| old["immutable"] == true) else { return };
    let why = "field is immutable when `immutable` is set";
    if at.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in fields {
        if at.get(field) != get(old, field) {
            causes.push(Cause::forbidden(field, why));
        }
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let size = size(&row.object["data"]) + size(&row.object["binaryData"]);
    vec![row.name(), json!(size), row.age()]
}
