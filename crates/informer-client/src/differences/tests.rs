use std::fmt::Write;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Difference, MAX_CHANGED_FIELDS, PathSegment, changed_fields, differences};

/// Returns the differences as lines: the path, and the two values.
fn lines(old: &Value, new: &Value) -> Vec<String> {
    let line = |Difference { path, old, new }: &Difference<'_>| {
        let mut text = String::new();
        for segment in path {
            let _ = match segment {
                PathSegment::Key(key) => write!(text, ".{key}"),
                PathSegment::Index(index) => write!(text, "[{index}]"),
                PathSegment::Item { by, value, index } => write!(text, "[{index}:{by}={value}]"),
            };
        }
        let value = |value: &Option<&Value>| value.map_or("-".to_owned(), Value::to_string);
        format!("{text}: {} {}", value(old), value(new))
    };
    differences(old, new).iter().map(line).collect()
}

/// Returns the paths of the changed fields.
fn fields(old: &Value, new: &Value) -> String {
    changed_fields(&old.to_string(), &new.to_string()).to_string()
}

#[test]
fn changed_added_and_removed_values_are_found_by_path() {
    let old = json!({"spec": {"replicas": 3, "paused": true}, "status": {}});
    let new = json!({"spec": {"replicas": 4}, "status": {"phase": "Ready"}});
    assert_eq!(
        lines(&old, &new),
        [".spec.paused: true -", ".spec.replicas: 3 4", ".status.phase: - \"Ready\""]
    );
    assert_eq!(fields(&old, &new), "spec.paused, spec.replicas, status.phase");
}

#[test]
fn version_and_managed_fields_are_ignored_in_metadata_only() {
    let old = json!({"metadata": {"resourceVersion": "1", "managedFields": [1]}});
    let new = json!({"metadata": {"resourceVersion": "2"}});
    assert!(lines(&old, &new).is_empty() && fields(&old, &new).is_empty());
    let (old, new) = (json!({"spec": {"resourceVersion": "1"}}), json!({"spec": {"resourceVersion": "2"}}));
    assert_eq!(lines(&old, &new), [".spec.resourceVersion: \"1\" \"2\""]);
    assert_eq!(fields(&old, &new), "spec.resourceVersion");
}

#[test]
fn generation_and_type_are_ignored() {
    let old = json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}});
    let new = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}});
    assert_eq!(fields(&old, &new), "spec.replicas");
}

#[test]
fn items_with_names_are_compared_by_name_and_have_the_new_index() {
    let old = json!({"c": [{"name": "web", "image": "web:1"}, {"name": "old"}]});
    let new = json!({"c": [{"name": "proxy"}, {"name": "web", "image": "web:2"}]});
    assert_eq!(
        lines(&old, &new),
        [
            ".c[1:name=web].image: \"web:1\" \"web:2\"",
            ".c[1:name=old]: {\"name\":\"old\"} -",
            ".c[0:name=proxy]: - {\"name\":\"proxy\"}"
        ]
    );
    assert_eq!(fields(&old, &new), "c[1].image, c[1], c[0]");
}

#[test]
fn reordered_items_are_one_difference() {
    let (old, new) =
        (json!({"c": [{"name": "a"}, {"name": "b"}]}), json!({"c": [{"name": "b"}, {"name": "a"}]}));
    assert_eq!(lines(&old, &new).len(), 1);
    assert_eq!(fields(&old, &new), "c");
}

#[test]
fn items_without_names_are_compared_by_position() {
    let (old, new) = (json!({"args": ["a", "b", "c"]}), json!({"args": ["a", "x", "y", "c"]}));
    assert_eq!(lines(&old, &new), [".args[1]: \"b\" \"x\"", ".args[2]: - \"y\""]);
    assert_eq!(fields(&old, &new), "args[1], args[2]");
}

#[test]
fn labels_and_names_with_special_characters_are_in_brackets_and_quotes() {
    let changed = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}, "annotations": {key: value}}, "data": {key: value}});
    assert_eq!(
        fields(&changed("app", "a"), &changed("app", "b")),
        r#"data.app, metadata.annotations["app"], metadata.labels["app"]"#
    );
    assert_eq!(
        fields(&changed("tls.crt", "a"), &changed("tls.crt", "b")),
        r#"data["tls.crt"], metadata.annotations["tls.crt"], metadata.labels["tls.crt"]"#
    );
    let text = fields(&changed("\u{1b}[2J\"\n", "a"), &changed("\u{1b}[2J\"\n", "b"));
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.starts_with(r#"data["\u{1b}[2J\"\n"]"#), "{text}");
}

#[test]
fn relevant_fields_come_first_and_others_are_counted() {
    let state = |value: u8| {
        let labels: Value = (0..6).map(|at| (format!("l{at}"), json!(value))).collect();
        let status: Value = (0..6).map(|at| (format!("s{at}"), json!(value))).collect();
        json!({"metadata": {"labels": labels}, "spec": {"z": value}, "status": status})
    };
    let (old, new) = (state(1).to_string(), state(2).to_string());
    let fields = changed_fields(&old, &new);
    let expected = (0..6).map(|at| format!(r#"metadata.labels["l{at}"]"#));
    let expected: Vec<String> = std::iter::once("spec.z".to_owned()).chain(expected).collect();
    assert_eq!(fields.paths().take(7).collect::<Vec<_>>(), expected);
    assert_eq!((fields.paths().len(), fields.omitted()), (MAX_CHANGED_FIELDS, 5));
    assert!(fields.to_string().ends_with("status.s0 and 5 more"), "{fields}");
}

#[test]
fn path_has_limited_depth_and_length() {
    let deep = |value: u8| (0..40).fold(json!({"x": value, "y": value}), |inner, _| json!({"a": inner}));
    assert_eq!(fields(&deep(1), &deep(2)), ["a"; 12].join("."));
    let key = "é".repeat(500);
    let path = fields(&json!({&key: 1}), &json!({&key: 2}));
    assert!(path.ends_with('…') && path.len() < 210, "{} bytes", path.len());
}

#[test]
fn equivalent_json_encodings_are_equal() {
    let old =
        r#"{"metadata":{"labels":{"a":"<b>"},"name":"x"},"list":[1,{"b":2}],"named":[{"name":"n","v":[]}]}"#;
    let new = r#" { "named": [ {"v": [ ], "name": "n"} ], "list": [1, {"b": 2}],
        "metadata": {"name": "x", "labels": {"\u0061": "\u003cb\u003e"}} } "#;
    assert!(changed_fields(old, new).is_empty(), "{}", changed_fields(old, new));
}

#[test]
fn text_that_is_not_json_has_no_changed_fields() {
    for (old, new) in [("{}", ""), ("", "{}"), ("{\"a\":1}", "{\"a\""), ("[1]", "2"), ("nothing", "null")] {
        assert!(changed_fields(old, new).is_empty(), "{old} {new}");
    }
    assert_eq!(changed_fields(r#"{"a":{"b":1}}"#, r#"{"a":{"b":tru}}"#).to_string(), "a");
}

#[test]
fn changed_fields_contain_no_value() {
    let secret = |value: &str| json!({"data": {"password": value}, "list": [{"name": value, "v": value}, {"key": value}], "args": [value]});
    let text = fields(&secret("hunter2-old"), &secret("hunter2-new"));
    assert!(text.contains("data.password") && !text.contains("hunter2"), "{text}");
}

fn apply(value: &mut Value, path: &[PathSegment<'_>], new: Option<&Value>) {
    let Some((first, rest)) = path.split_first() else {
        *value = new.expect("the root is not removed").clone();
        return;
    };
    let PathSegment::Key(key) = first else { panic!("the test has no arrays") };
    let members = value.as_object_mut().expect("an object");
    match (rest.is_empty(), new) {
        (true, None) => drop(members.remove(&**key)),
        _ => apply(members.entry(&**key).or_insert(Value::Null), rest, new),
    }
}

fn tree(with_lists: bool) -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(3, 20, 4, move |inner| {
        let members = prop::collection::btree_map("name|[abc]", inner.clone(), 0..4);
        let object = members.prop_map(|members| Value::Object(members.into_iter().collect())).boxed();
        let list = prop::collection::vec(inner, 0..4).prop_map(Value::Array).boxed();
        if with_lists { prop_oneof![object, list].boxed() } else { object }
    })
}

proptest! {
    #[test]
    fn differences_applied_to_the_old_state_make_the_new_one(old in tree(false), new in tree(false)) {
        let mut made = old.clone();
        for difference in differences(&old, &new) {
            apply(&mut made, &difference.path, difference.new);
        }
        prop_assert_eq!(made, new);
    }

    #[test]
    fn changed_fields_and_differences_agree(old in tree(true), new in tree(true)) {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        let fields = changed_fields(&old.to_string(), &new.to_string());
        prop_assert_eq!(fields.paths().len() + fields.omitted(), differences(&old, &new).len());
        let pretty = serde_json::to_string_pretty(&new).expect("a value");
        prop_assert!(changed_fields(&new.to_string(), &pretty).is_empty());
    }
}
