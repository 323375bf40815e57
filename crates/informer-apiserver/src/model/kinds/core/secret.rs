use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::config_map::{check_immutable_data, check_keys};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::pem::pem_blocks;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, check_immutable, required};
use crate::model::rules::defaults::Default::{self, Call, Fill};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::size;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "Secret", Traits::OWN_FIELDS)
    .with_traits(Traits::REVALIDATES_METADATA)
    .selectable(&["type"])
    .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(&[Check::Call(validate_change)]))
    .warnings(|secret, _| warn(secret))
    .cells(cells);

const DEFAULTS: &[Default] = &[Call(merge_string_data), Fill("type", "\"Opaque\"")];

/// Merges a Secret's `stringData` into `data`, overwriting existing keys.
fn merge_string_data(secret: &mut Value) {
    let Some(members) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = members.remove("stringData") else { return };
    let data = members.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    for (name, text) in texts {
        data[name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_immutable(at, "type", causes);
    check_immutable_data(at, &["data"], causes);
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_keys(at, "data", causes);
    let needs = |keys: &[&str], causes: &mut Causes| {
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

fn check_docker_config(at: &FieldView<'_, '_>, key: &str, causes: &mut Causes) {
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
            crate::model::json::json_type(&other)
        )),
        Err(why) => Some(why),
    };
    if let Some(why) = why {
        causes.push(Cause::invalid(&field, "\"<secret contents redacted>\"", &why));
    }
}

/// Returns a warning with the message of Go's crypto/tls if a TLS Secret lacks a PEM block. Does not check
/// whether the key belongs to the certificate.
fn warn(secret: &Value) -> Vec<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = |name: &str| STANDARD.decode(text(&secret["data"][name])).unwrap_or_default();
    let [certificate, key] =
        [data("tls.crt"), data("tls.key")].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let warnings = certificate_problem(&certificate).or_else(|| key_problem(&key));
    warnings.map(str::to_owned).into_iter().collect()
}

fn certificate_problem(text: &str) -> Option<&'static str> {
    let kinds = kinds(text);
    if kinds.is_empty() {
        return Some("tls: failed to find any PEM data in certificate input");
    }
    if kinds.contains(&"CERTIFICATE") {
        return None;
    }
    if kinds.len() == 1 && kinds[0].ends_with("PRIVATE KEY") {
        Some(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched",
        )
    } else {
        None
    }
}

fn key_problem(text: &str) -> Option<&'static str> {
    let kinds = kinds(text);
    if kinds.is_empty() {
        return Some("tls: failed to find any PEM data in key input");
    }
    if kinds.iter().any(|kind| *kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    if kinds == ["CERTIFICATE"] {
        Some("tls: found a certificate rather than a key in the PEM for the private key")
    } else {
        None
    }
}

/// Returns the types of the PEM blocks in a string, for example `CERTIFICATE`.
fn kinds(text: &str) -> Vec<&str> {
    pem_blocks(text).into_iter().map(|block| block.label).collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let secret = row.object;
    vec![row.name(), json!(text(&secret["type"])), json!(size(&secret["data"])), row.age()]
}
