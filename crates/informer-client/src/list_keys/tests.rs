use serde_json::json;

use super::*;

fn names(at: ListKeysAt<'_>) -> Vec<String> {
    at.keys().into_iter().map(|key| key.name.to_owned()).collect()
}

#[test]
fn list_keys_of_built_in_kinds_come_from_the_schema() {
    let keys = ListKeys::of_builtin(&Gvk::new("apps", "v1", "Deployment"));
    let pod = keys.root().member("spec").member("template").member("spec");
    assert_eq!(names(pod.member("containers")), ["name"]);
    let container = pod.member("containers").element();
    assert_eq!(names(container.member("volumeMounts")), ["mountPath"]);
    let ports = container.member("ports").keys();
    assert_eq!(ports[1], ListKey { name: "protocol", default: Some(json!("TCP")) });
    assert!(names(pod.member("tolerations")).is_empty());
    assert!(names(keys.root().member("spec").member("unknown").member("list")).is_empty());
    assert!(names(ListKeys::of_builtin(&Gvk::new("example.com", "v1", "Website")).root()).is_empty());
}

#[test]
fn list_keys_of_a_crd_come_from_the_schema_of_each_version() {
    let zones = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone", "tier"],
        "items": {"type": "object", "properties": {"zone": {"type": "string"}, "tier": {"type": "string", "default": "a"}}},
    });
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "zones": zones, "byName": {"type": "object", "additionalProperties": {"type": "object", "properties": {"zones": zones}}},
        }},
    }});
    let definition = json!({"spec": {
        "group": "example.com", "names": {"kind": "Website"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}, {"name": "v2"}],
    }});
    let found = ListKeys::of_crd(&definition);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Gvk::new("example.com", "v1", "Website"));
    let spec = found[0].1.root().member("spec");
    assert_eq!(names(spec.member("zones")), ["zone", "tier"]);
    assert_eq!(spec.member("zones").keys()[1].default, Some(json!("a")));
    assert_eq!(names(spec.member("byName").member("any").member("zones")), ["zone", "tier"]);
    assert!(names(spec.member("other")).is_empty());
    assert!(ListKeys::of_crd(&json!({})).is_empty());
}
