use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::json;

use super::*;

fn deployment(namespace: &str, name: &str) -> Deployment {
    let metadata = json!({"name": name, "namespace": namespace, "uid": format!("uid-{name}")});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"selector": {}, "template": {}}})).unwrap()
}

fn config_map(namespace: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "map", "namespace": namespace}})).unwrap()
}

fn owners(map: &ConfigMap) -> Vec<(&str, &str, bool)> {
    let owners = map.metadata.owner_references.iter().flatten();
    owners.map(|held| (held.api_version.as_str(), held.name.as_str(), is_controller(held))).collect()
}

#[test]
fn controller_reference_is_set_once_and_updated() {
    let (web, mut map) = (deployment("ns", "web"), config_map("ns"));
    set_controller_reference(&web, &mut map).unwrap();
    map.metadata.owner_references.as_mut().unwrap()[0].api_version = "apps/v1beta1".to_owned();
    set_controller_reference(&web, &mut map).unwrap();
    assert_eq!(owners(&map), [("apps/v1", "web", true)]);
    assert!(has_controller_reference(&map) && has_owner_reference(&web, &map));
    let reference = &map.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((reference.block_owner_deletion, reference.uid.as_str()), (Some(true), "uid-web"));
}

#[test]
fn second_controller_is_rejected_and_second_owner_is_not() {
    let (web, api, mut map) = (deployment("ns", "web"), deployment("ns", "api"), config_map("ns"));
    set_controller_reference(&web, &mut map).unwrap();
    let error = set_controller_reference(&api, &mut map).unwrap_err().to_string();
    assert_eq!(error, "set the controller of ns/map: Deployment web is already its controller");
    set_owner_reference(&api, &mut map).unwrap();
    assert_eq!(owners(&map), [("apps/v1", "web", true), ("apps/v1", "api", false)]);
}

#[test]
fn owner_in_another_namespace_is_rejected() {
    let mut elsewhere = config_map("other");
    let error = set_owner_reference(&deployment("ns", "web"), &mut elsewhere).unwrap_err();
    assert!(matches!(error, OwnerError::OtherNamespace { .. }), "{error}");
    let mut node: Node = serde_json::from_value(json!({"metadata": {"name": "worker"}})).unwrap();
    let error = set_controller_reference(&deployment("ns", "web"), &mut node).unwrap_err();
    assert!(matches!(error, OwnerError::OtherNamespace { .. }), "a cluster-scoped object: {error}");
}

#[test]
fn cluster_scoped_owner_may_own_objects_in_any_namespace() {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "worker", "uid": "u"}})).unwrap();
    let mut map = config_map("ns");
    set_owner_reference(&node, &mut map).unwrap();
    assert_eq!(owners(&map), [("v1", "worker", false)]);
}

#[test]
fn owner_without_uid_is_rejected() {
    let mut fresh = deployment("ns", "web");
    fresh.metadata.uid = None;
    let error = set_controller_reference(&fresh, &mut config_map("ns")).unwrap_err();
    assert_eq!(error, OwnerError::NotStored { kind: "Deployment".to_owned() });
}

#[test]
fn existing_owner_references_are_removed() {
    let (web, api, mut map) = (deployment("ns", "web"), deployment("ns", "api"), config_map("ns"));
    assert!(remove_owner_reference(&web, &mut map).is_err());
    set_controller_reference(&web, &mut map).unwrap();
    set_owner_reference(&api, &mut map).unwrap();
    assert!(remove_controller_reference(&api, &mut map).is_err(), "it does not control it");
    remove_controller_reference(&web, &mut map).unwrap();
    assert!(!has_controller_reference(&map) && !has_owner_reference(&web, &map));
    remove_owner_reference(&api, &mut map).unwrap();
    assert!(owners(&map).is_empty());
}

#[test]
fn kind_in_another_group_is_another_owner() {
    let (web, mut map) = (deployment("ns", "web"), config_map("ns"));
    set_owner_reference(&web, &mut map).unwrap();
    let set: ReplicaSet = serde_json::from_value(
        json!({"metadata": {"name": "web", "namespace": "ns", "uid": "r"}, "spec": {"selector": {}}}),
    )
    .unwrap();
    assert!(!has_owner_reference(&set, &map));
    set_owner_reference(&set, &mut map).unwrap();
    assert_eq!(owners(&map).len(), 2);
}
