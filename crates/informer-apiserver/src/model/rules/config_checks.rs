//! Validation of ConfigMaps and Secrets, immutable ones included.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::checks::{Check, FieldView, required};
use crate::model::error::Cause;

pub(super) const CONFIG_MAP: &[Check] = &[Check::Call(config_map)];
pub(super) const CONFIG_MAP_CHANGES: &[Check] =
    &[Check::Call(|at, causes| check_immutable_data(at, &["data", "binaryData"], causes))];
pub(super) const SECRET: &[Check] = &[Check::Call(secret)];
pub(super) const SECRET_CHANGES: &[Check] = &[Check::Call(secret_changes)];

const KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
/// The maximum size of the data of one object, as in kube-apiserver.
const MAX_DATA_BYTES: usize = 1 << 20;

fn check_keys(at: &FieldView<'_>, field: &str, causes: &mut Vec<Cause>) {
    for key in at.get(field).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys) {
        let right =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !right {
            causes.push(Cause::invalid(
                &at.field_path(&format!("{field}[{key}]")),
                &format!("{key:?}"),
                KEY_RULE,
            ));
        }
    }
}

fn config_map(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
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

/// Rejects changes of an object that is marked as immutable.
fn check_immutable_data(at: &FieldView<'_>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = at.old.filter(|old| old["immutable"] == true) else { return };
    let why = "field is immutable when `immutable` is set";
    if at.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in fields {
        if at.get(field) != super::path::get(old, field) {
            causes.push(Cause::forbidden(field, why));
        }
    }
}

fn secret_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    super::service_checks::check_immutable(at, "type", causes);
    check_immutable_data(at, &["data"], causes);
}

fn secret(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    check_keys(at, "data", causes);
    let needs = |keys: &[&str], causes: &mut Vec<Cause>| {
        let data = at.get("data").and_then(Value::as_object);
        for key in keys {
            if data.is_none_or(|data| !data.contains_key(*key)) {
                causes.push(required(&format!("data[{key}]"), ""));
            }
        }
    };
    match at.text("type") {
        "kubernetes.io/tls" => needs(&["tls.crt", "tls.key"], causes),
        "kubernetes.io/ssh-auth" => needs(&["ssh-privatekey"], causes),
        "kubernetes.io/basic-auth" => {
            let data = at.get("data").and_then(Value::as_object);
            let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
            if !has("username") && !has("password") {
                needs(&["username", "password"], causes);
            }
        }
        "kubernetes.io/dockerconfigjson" => check_docker_config(at, ".dockerconfigjson", causes),
        "kubernetes.io/dockercfg" => check_docker_config(at, ".dockercfg", causes),
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let annotations = at.get("metadata.annotations");
            let account = annotations.and_then(|all| all.get(name)?.as_str()).unwrap_or_default();
            if account.is_empty() {
                causes.push(required(&format!("metadata.annotations[{name}]"), ""));
            }
        }
        _ => {}
    }
}

fn check_docker_config(at: &FieldView<'_>, key: &str, causes: &mut Vec<Cause>) {
    let field = format!("data[{key}]");
    let Some(text) = at.get("data").and_then(|data| data.get(key)?.as_str()) else {
        causes.push(required(&field, ""));
        return;
    };
    let content = STANDARD.decode(text).unwrap_or_default();
    let why = match crate::model::json::read_json(&content) {
        Ok(Value::Object(_)) => None,
        Ok(other) => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::model::metadata::json_type(&other)
        )),
        Err(why) => Some(why),
    };
    if let Some(why) = why {
        causes.push(Cause::invalid(&field, "\"<secret contents redacted>\"", &why));
    }
}
