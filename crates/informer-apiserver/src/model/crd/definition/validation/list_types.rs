//! `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{has, items, list, text};
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::unsupported;

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

pub(super) fn check(schema: &Value, path: &str, causes: &mut Causes) {
    for (name, kind, allowed) in [
        (MAP_TYPE, "object", &["atomic", "granular"][..]),
        (LIST_TYPE, "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(found) = schema[name].as_str() else { continue };
        if text(schema, "type") != kind {
            let why = format!("must be {kind} if {name} is specified");
            causes.push(match text(schema, "type") {
                "" => Cause::required(&format!("{path}.type"), &why),
                _ => Cause::invalid(&format!("{path}.type"), &schema["type"].to_string(), &why),
            });
        } else if found == "set" {
            check_set_items(schema, path, causes);
        }
        if !allowed.contains(&found) {
            causes.push(unsupported(&format!("{path}.{name}"), found, allowed));
        }
    }
    if has(schema, KEYS) {
        let (field, why) =
            (format!("{path}.{LIST_TYPE}"), "must be map if x-kubernetes-list-map-keys is non-empty");
        match schema[LIST_TYPE].as_str() {
            None => causes.push(Cause::required(&field, why)),
            Some("map") => {}
            Some(_) => causes.push(Cause::invalid(&field, &schema[LIST_TYPE].to_string(), why)),
        }
    }
    if schema[LIST_TYPE] == "map" {
        check_map(schema, path, causes);
    }
    check_items(schema, path, causes);
}

/// The items of a set must be scalars or atomic.
fn check_set_items(schema: &Value, path: &str, causes: &mut Causes) {
    let Some(items) = items(schema) else { return };
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = &items[LIST_TYPE];
    match text(items, "type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            causes.push(Cause::invalid(&format!("{path}.items.{LIST_TYPE}"), &list_type.to_string(), why));
        }
        // kube-apiserver reports the list type here, too.
        "object" if items[MAP_TYPE] != "atomic" => {
            causes.push(Cause::invalid(&format!("{path}.items.{MAP_TYPE}"), &list_type.to_string(), why));
        }
        _ => {}
    }
}

fn check_map(schema: &Value, path: &str, causes: &mut Causes) {
    if !has(schema, KEYS) {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(&format!("{path}.{KEYS}"), why));
    }
    let field = format!("{path}.items");
    let Some(items) = items(schema) else {
        causes.push(match schema.get("items") {
            None | Some(Value::Null) => {
                Cause::required(&field, "must have a schema if x-kubernetes-list-type is map")
            }
            Some(items) => {
                let why = "must only have a single schema if x-kubernetes-list-type is map";
                Cause::invalid(&field, &items.to_string(), why)
            }
        });
        return;
    };
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(&format!("{field}.type"), &json!(text(items, "type")).to_string(), why));
        return;
    }
    let mut seen = HashSet::new();
    for key in list(schema, KEYS).iter().filter_map(Value::as_str) {
        let keys = format!("{path}.{KEYS}");
        match items["properties"].get(key) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let field = format!("{field}.properties[{key}].type");
                causes.push(Cause::invalid(&field, &items["type"].to_string(), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                causes.push(Cause::invalid(&keys, &schema[KEYS].to_string(), why));
            }
        }
        if !seen.insert(key) {
            causes.push(Cause::invalid(
                &keys,
                &schema[KEYS].to_string(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// The items of sets and maps are not nullable, and the keys of a map are required or have defaults.
fn check_items(schema: &Value, path: &str, causes: &mut Causes) {
    let list_type = text(schema, LIST_TYPE);
    let Some(items) = items(schema).filter(|_| matches!(list_type, "set" | "map")) else { return };
    if items["nullable"] == true {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(&format!("{path}.items.nullable"), &why));
    }
    if list_type != "map" {
        return;
    }
    for key in list(schema, KEYS).iter().filter_map(Value::as_str) {
        let Some(property) = items["properties"].get(key) else { continue };
        let field = format!("{path}.items.properties[{key}]");
        if !list(items, "required").iter().any(|name| name == key) && property["default"].is_null() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                       required property";
            causes.push(Cause::required(&format!("{field}.default"), why));
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(&format!("{field}.nullable"), why));
        }
    }
}
