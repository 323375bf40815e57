use serde_json::{Value, json};

use super::super::Schema;

fn errors(schema: Value, value: Value) -> Vec<String> {
    updated(schema, value, None)
}

fn updated(schema: Value, value: Value, old: Option<Value>) -> Vec<String> {
    let schema = Schema::new(json!({"type": "object", "properties": {"a": schema}}));
    let object = |value: Value| json!({"a": value});
    let old = old.map(object);
    let causes = super::validate(&schema, &object(value), old.as_ref());
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn integers_are_limited_to_the_range_of_their_format() {
    assert!(errors(json!({"type": "integer", "format": "int32"}), json!(2_147_483_647)).is_empty());
    assert_eq!(
        errors(json!({"type": "integer", "format": "int32"}), json!(2_147_483_648_i64)),
        ["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in a"]
    );
    assert_eq!(
        errors(json!({"type": "integer"}), json!(1e20)),
        [
            "a: Invalid value: \"number\": a in body must be of type integer: \"number\"",
            "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in a",
        ]
    );
}

#[test]
fn the_alternative_with_most_passed_checks_is_reported() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"kind": {"enum": ["a"]}}, "required": ["x"]},
        {"properties": {"kind": {"enum": ["b"]}}, "required": ["y"]},
    ]});
    assert_eq!(
        errors(schema, json!({"kind": "b"})),
        [
            "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found none valid",
            "a.kind: Unsupported value: \"b\": supported values: \"a\"",
            "a.x: Required value",
        ]
    );
}

#[test]
fn unchanged_items_of_lists_with_keys_are_not_validated() {
    let schema = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}},
    });
    let old = json!([{"k": "x", "v": 1}]);
    assert!(
        updated(schema.clone(), json!([{"k": "y", "v": 6}, {"k": "x", "v": 1}]), Some(old.clone()))
            .is_empty()
    );
    assert_eq!(updated(schema, json!([{"k": "x", "v": 2}]), Some(old)).len(), 1);
}

#[test]
fn changed_lists_without_keys_are_validated_completely() {
    let schema = json!({"type": "array", "items": {"type": "integer", "minimum": 5}});
    assert_eq!(updated(schema.clone(), json!([1, 6]), Some(json!([1]))).len(), 1);
    assert!(updated(schema, json!([1]), Some(json!([1]))).is_empty());
}

#[test]
fn enum_rejects_null_of_a_nullable_field() {
    assert_eq!(
        errors(json!({"type": "string", "nullable": true, "enum": ["x"]}), Value::Null),
        ["a: Unsupported value: null: supported values: \"x\""]
    );
}
