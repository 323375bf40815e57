use informer_client::ListKeys;
use informer_core::Gvk;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Without a schema.
fn carried(whole: &Value, old: &Value, new: &Value) -> Value {
    super::carried(whole, old, new, ListKeys::default().root())
}

/// What a server makes of a merge patch, by the rule of RFC 7386.
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

/// The patch of a change of the view, and what a server has then.
fn patched(whole: &Value, old: &Value, new: &Value) -> (Option<Value>, Value) {
    let patch = merge_patch(whole, &carried(whole, old, new));
    let after = patch.as_ref().map_or_else(|| whole.clone(), |patch| merged(whole, patch));
    (patch, after)
}

#[test]
fn a_changed_field_is_the_whole_patch() {
    let whole = json!({"a": 1, "b": {"c": 2, "unknown": 3}});
    let (patch, _) = patched(&whole, &json!({"a": 1, "b": {"c": 2}}), &json!({"a": 1, "b": {"c": 5}}));
    assert_eq!(patch, Some(json!({"b": {"c": 5}})));
}

#[test]
fn what_was_taken_out_is_null_and_what_the_type_does_not_know_is_not_named() {
    let whole = json!({"a": 1, "unknown": 3});
    let (patch, after) = patched(&whole, &json!({"a": 1}), &json!({}));
    assert_eq!(patch, Some(json!({"a": null})));
    assert_eq!(after, json!({"unknown": 3}));
}

#[test]
fn defaults_that_a_type_writes_are_no_change() {
    let (patch, _) = patched(&json!({}), &json!({"list": []}), &json!({"list": []}));
    assert_eq!(patch, None);
    let (patch, _) = patched(&json!({}), &json!({"list": [], "a": 0}), &json!({"list": [], "a": 1}));
    assert_eq!(patch, Some(json!({"a": 1})));
}

#[test]
fn elements_keep_what_the_type_does_not_know_when_they_move_or_go() {
    let whole = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 3}]);
    let old = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let new = json!([{"name": "c"}, {"name": "new"}, {"name": "a", "image": "i"}]);
    let expected = json!([{"name": "c", "x": 3}, {"name": "new"}, {"name": "a", "x": 1, "image": "i"}]);
    assert_eq!(carried(&whole, &old, &new), expected);
}

#[test]
fn elements_without_an_identity_are_found_by_their_equals_and_their_places() {
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
fn elements_are_matched_by_the_keys_of_their_kind() {
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
fn two_elements_of_one_name_have_no_identity() {
    let whole = json!([{"name": "a", "p": 1, "x": 1}, {"name": "a", "p": 2, "x": 2}]);
    let old = json!([{"name": "a", "p": 1}, {"name": "a", "p": 2}]);
    let new = json!([{"name": "a", "p": 2}]);
    assert_eq!(carried(&whole, &old, &new), json!([{"name": "a", "p": 2, "x": 2}]));
}

#[test]
fn only_a_change_in_a_list_of_objects_needs_the_whole_object() {
    let old = json!({"a": [1], "l": [{"name": "a"}], "n": {"l": [{"name": "a"}]}});
    assert!(!changes_elements(&old, &old));
    let mut new = old.clone();
    new["a"] = json!([2]);
    assert!(!changes_elements(&old, &new));
    new["n"]["l"][0]["image"] = json!("i");
    assert!(changes_elements(&old, &new));
}

/// JSON without nulls, as servers store it.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..4_i32).prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from), object(inner),]
    })
}

fn object(member: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", member, 0..3).prop_map(|members| members.into_iter().collect())
}

/// The object, as a type sees it that does not know the members of these names.
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
    fn a_merge_patch_makes_the_new_of_the_old(old in object(value()), new in object(value())) {
        let after = merge_patch(&old, &new).map_or_else(|| old.clone(), |patch| merged(&old, &patch));
        prop_assert_eq!(after, new);
    }

    #[test]
    fn the_view_of_what_a_server_has_then_is_the_new_one(whole in object(value()), new in object(value())) {
        let (old, new) = (view(&whole, "c"), view(&new, "c"));
        let (_, after) = patched(&whole, &old, &new);
        prop_assert_eq!(view(&after, "c"), new);
    }

    #[test]
    fn no_change_of_the_view_is_no_patch(whole in object(value())) {
        let old = view(&whole, "c");
        prop_assert_eq!(patched(&whole, &old, &old).0, None);
    }
}
