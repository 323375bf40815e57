//! The uniqueness of the items of lists with `x-kubernetes-list-type` `set` and `map`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::duplicate;

pub(super) fn validate(schema: &Value, value: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(schema, value, "", &mut causes);
    causes.into_vec()
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Causes) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let additional = &schema["additionalProperties"];
                if additional.is_object() {
                    check(additional, value, &format!("{path}[{name}]"), causes);
                }
                if let Some(field) = schema["properties"].get(name) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    check(field, value, &path, causes);
                }
            }
        }
        Value::Array(items) => {
            match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => check_unique(items.to_vec(), path, causes),
                Some("map") => check_keys(schema, items, path, causes),
                _ => {}
            }
            if schema["items"].is_object() {
                for (index, item) in items.iter().enumerate() {
                    check(&schema["items"], item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(schema: &Value, items: &[Value], path: &str, causes: &mut Causes) {
    let wrong = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null());
    if let Some((index, item)) = wrong {
        let why = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(&format!("{path}[{index}]"), &item.to_string(), why));
        return;
    }
    let names: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let keys = |item: &Value| {
        let pair = |name: &&str| Some(((*name).to_owned(), item.get(*name)?.clone()));
        Value::Object(names.iter().filter_map(pair).collect::<Map<_, _>>())
    };
    check_unique(items.iter().map(keys).collect(), path, causes);
}

/// Reports the second occurrence of each repeated value.
fn check_unique(values: Vec<Value>, path: &str, causes: &mut Causes) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, value) in values.iter().enumerate() {
        let text = value.to_string();
        let times = seen.entry(text.clone()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(duplicate(&format!("{path}[{index}]"), &text));
        }
    }
}
