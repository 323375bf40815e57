use informer_client::ListKeys;
use informer_core::Gvk;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn carried(whole: &Value, old: &Value, new: &Value) -> Value {
    super::carried(whole, old, new, ListKeys::default().root())
}

/// Applies a JSON merge patch as defined in RFC 7386.
fn merged(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = target.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        match value {
            Value::Null => {
                members.remove(name);
            }
            value => {
                let member = merged(members.get(name).unwrap_or(&Value::Null), value);
                members.insert(name.clone(), member);
            }
        }
    }
    Value::Object(members)
}

fn patched(whole: &Value, old: &Value, new: &Value) -> (Option<Value>, Value) {
    let patch = merge_patch(whole, &carried(whole, old, new));
    let after = patch.as_ref().map_or_else(|| whole.clone(), |patch| merged(whole, patch));
    (patch, after)
}

#[test]
fn patch_contains_only_changed_fields() {
    let whole = json!({"a": 1, "b": {"c": 2, "unknown": 3}});
    let (patch, _) = patched(&whole, &json!({"a": 1, "b": {"c": 2}}), &json!({"a": 1, "b": {"c": 5}}));
    assert_eq!(patch, Some(json!({"b": {"c": 5}})));
}

#[test]
fn removed_fields_are_null_and_unknown_fields_are_not_in_the_patch() {
    let whole = json!({"a": 1, "unknown": 3});
    let (patch, after) = patched(&whole, &json!({"a": 1}), &json!({}));
    assert_eq!(patch, Some(json!({"a": null})));
    assert_eq!(after, json!({"unknown": 3}));
}

#[test]
fn defaults_encoded_by_the_type_are_not_a_change() {
    let (patch, _) = patched(&json!({}), &json!({"list": []}), &json!({"list": []}));
    assert_eq!(patch, None);
    let (patch, _) = patched(&json!({}), &json!({"list": [], "a": 0}), &json!({"list": [], "a": 1}));
    assert_eq!(patch, Some(json!({"a": 1})));
}

#[test]
fn list_elements_keep_unknown_fields_when_moved_or_removed() {
    let whole = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 3}]);
    let old = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let new = json!([{"name": "c"}, {"name": "new"}, {"name": "a", "image": "i"}]);
    let expected = json!([{"name": "c", "x": 3}, {"name": "new"}, {"name": "a", "x": 1, "image": "i"}]);
    assert_eq!(carried(&whole, &old, &new), expected);
}

#[test]
fn list_elements_without_keys_are_matched_by_equality_and_index() {
    let whole = json!([{"v": 1, "x": 1}, {"v": 2, "x": 2}]);
    let old = json!([{"v": 1}, {"v": 2}]);
    let changed = carried(&whole, &old, &json!([{"v": 1}, {"v": 3}]));
    assert_eq!(changed, json!([{"v": 1, "x": 1}, {"v": 3, "x": 2}]));
    let swapped = carried(&whole, &old, &json!([{"v": 2}, {"v": 1}]));
    assert_eq!(swapped, json!([{"v": 2, "x": 2}, {"v": 1, "x": 1}]));
    let removed = carried(&whole, &old, &json!([{"v": 2}]));
    assert_eq!(removed, json!([{"v": 2, "x": 2}]));
}

#[test]
fn list_elements_are_matched_by_schema_keys() {
    let keys = ListKeys::of_builtin(&Gvk::new("", "v1", "Pod"));
    let pod = |mounts: Value, ports: Value| json!({"spec": {"containers": [{"name": "a", "volumeMounts": mounts, "ports": ports}]}});
    let whole = pod(
        json!([{"name": "v", "mountPath": "/a", "x": 1}, {"name": "w", "mountPath": "/b", "x": 2}]),
        json!([{"containerPort": 80, "protocol": "TCP", "x": 1}, {"containerPort": 80, "protocol": "UDP", "x": 2}]),
    );
    let old = pod(
        json!([{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/b"}]),
        json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]),
    );
    let new = pod(
        json!([{"name": "w", "mountPath": "/a"}, {"name": "w", "mountPath": "/c"}]),
        json!([{"containerPort": 80, "protocol": "UDP", "hostPort": 1}, {"containerPort": 80, "hostPort": 2}]),
    );
    let expected = pod(
        json!([{"name": "w", "mountPath": "/a", "x": 1}, {"name": "w", "mountPath": "/c"}]),
        json!([
            {"containerPort": 80, "protocol": "UDP", "hostPort": 1, "x": 2},
            {"containerPort": 80, "hostPort": 2, "x": 1},
        ]),
    );
    assert_eq!(super::carried(&whole, &old, &new, keys.root()), expected);
}

#[test]
fn duplicate_names_are_not_used_as_keys() {
    let whole = json!([{"name": "a", "p": 1, "x": 1}, {"name": "a", "p": 2, "x": 2}]);
    let old = json!([{"name": "a", "p": 1}, {"name": "a", "p": 2}]);
    let new = json!([{"name": "a", "p": 2}]);
    assert_eq!(carried(&whole, &old, &new), json!([{"name": "a", "p": 2, "x": 2}]));
}

#[test]
fn only_changes_in_lists_of_objects_need_the_whole_object() {
    let old = json!({"a": [1], "l": [{"name": "a"}], "n": {"l": [{"name": "a"}]}});
    assert!(!changes_elements(&old, &old));
    let mut new = old.clone();
    new["a"] = json!([2]);
    assert!(!changes_elements(&old, &new));
    new["n"]["l"][0]["image"] = json!("i");
    assert!(changes_elements(&old, &new));
}

/// Generates JSON values for property tests. They contain no nulls, since servers do not store nulls.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..4_i32).prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from), object(inner),]
    })
}

fn object(member: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", member, 0..3).prop_map(|members| members.into_iter().collect())
}

/// Returns the object without all members named `unknown`, as a type would decode it that does not know them.
fn view(whole: &Value, unknown: &str) -> Value {
    match whole {
        Value::Object(members) => {
            let known = members.iter().filter(|(name, _)| *name != unknown);
            known.map(|(name, value)| (name.clone(), view(value, unknown))).collect()
        }
        Value::Array(elements) => elements.iter().map(|element| view(element, unknown)).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn merge_patch_transforms_old_to_new(old in object(value()), new in object(value())) {
        let after = merge_patch(&old, &new).map_or_else(|| old.clone(), |patch| merged(&old, &patch));
        prop_assert_eq!(after, new);
    }

    #[test]
    fn patched_object_has_the_new_view(whole in object(value()), new in object(value())) {
        let (old, new) = (view(&whole, "c"), view(&new, "c"));
        let (_, after) = patched(&whole, &old, &new);
        prop_assert_eq!(view(&after, "c"), new);
    }

    #[test]
    fn unchanged_view_yields_no_patch(whole in object(value())) {
        let old = view(&whole, "c");
        prop_assert_eq!(patched(&whole, &old, &old).0, None);
    }
}
