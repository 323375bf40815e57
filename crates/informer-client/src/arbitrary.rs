//! Random JSON for property tests, with varying whitespace, escapes and member order.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Generates a string with characters that can confuse a JSON scanner, such as quotes and brackets.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\\\"".to_owned()),
        Just("{}[],:".to_owned()),
        Just("\u{1F600}é\u{7f}".to_owned()),
        Just("\n\t\u{1}".to_owned()),
        Just("items".to_owned()),
        "[a-z]{0,70}",
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        // The generated numbers are multiples of 1/4, which keep their value when JSON is written and parsed
        // again.
        any::<i16>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        string().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((string(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Generates the JSON of a Kubernetes object. Some of its usual members (`kind`, `metadata`, ...) are missing
/// or have the wrong type.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![8 => "[a-z0-9]{1,8}".prop_map(Value::String), 1 => value()];
    let strings = prop::collection::btree_map("[a-z/.]{0,9}", string(), 0..4);
    let labels = prop_oneof![8 => strings.prop_map(|map| json!(map)), 1 => value()];
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true});
    let owners = prop_oneof![4 => Just(json!([owner])), 1 => Just(json!([])), 1 => value()];
    let members = (
        prop::option::weighted(0.95, text()),
        prop::option::weighted(0.8, text()),
        prop::option::weighted(0.9, text()),
        prop::option::weighted(0.9, text()),
        prop::option::of(labels),
        prop::option::of(owners),
        prop::option::of(value()),
        prop::option::of(prop_oneof![any::<i64>().prop_map(Value::from), value()]),
    );
    (members, prop::option::weighted(0.9, value()), any::<u8>()).prop_map(|(members, spec, wrap)| {
        let (name, namespace, uid, version, labels, owners, managed, generation) = members;
        let named = [
            ("name", name),
            ("namespace", namespace),
            ("uid", uid),
            ("resourceVersion", version),
            ("labels", labels),
            ("ownerReferences", owners),
            ("managedFields", managed),
            ("generation", generation),
        ];
        let metadata: serde_json::Map<String, Value> =
            named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let metadata = if wrap < 4 { Value::Null } else { Value::Object(metadata) };
        match spec {
            Some(spec) => json!({"metadata": metadata, "spec": spec}),
            None => json!({ "metadata": metadata }),
        }
    })
}

/// Serializes a JSON value in one of many equivalent spellings, to test the scanners with all of them. The
/// bytes of `choices` determine the whitespace, the escapes and the duplicate members.
pub(crate) fn write(value: &Value, choices: &mut impl Iterator<Item = u8>) -> String {
    let mut text = String::new();
    write_value(value, choices, &mut text);
    text
}

/// Generates a short random byte sequence for the argument `choices` of [`write`]. Since `write` can consume
/// any number of bytes, callers repeat the sequence with `cycle`.
pub(crate) fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..16)
}

fn write_value(value: &Value, choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push('{');
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            if choices.next() > Some(128) {
                members.reverse();
            }
            // Write one member twice, first with an outdated value, because JSON parsers use the last value.
            // The outdated value has a type that is valid for the member.
            if choices.next() > Some(230) && !members.is_empty() {
                let stale = if members[0].1.is_string() { Value::from("stale") } else { Value::Null };
                write_member(members[0].0, &stale, choices, text);
                text.push(',');
            }
            for (index, (name, value)) in members.into_iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                write_member(name, value, choices, text);
            }
            space(choices, text);
            text.push('}');
        }
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                space(choices, text);
                write_value(element, choices, text);
            }
            space(choices, text);
            text.push(']');
        }
        Value::String(string) => write_string(string, choices, text),
        scalar => text.push_str(&scalar.to_string()),
    }
}

fn write_member(name: &str, value: &Value, choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    space(choices, text);
    write_string(name, choices, text);
    space(choices, text);
    text.push(':');
    space(choices, text);
    write_value(value, choices, text);
}

fn write_string(string: &str, choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    if choices.next() < Some(200) {
        text.push_str(&Value::from(string).to_string());
        return;
    }
    text.push('"');
    for unit in string.encode_utf16() {
        text.push_str(&format!("\\u{unit:04x}"));
    }
    text.push('"');
}

fn space(choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    text.push_str(match choices.next() {
        Some(0..20) => "\n  ",
        Some(20..30) => "\t\r",
        Some(30..60) => " ",
        _ => "",
    });
}
