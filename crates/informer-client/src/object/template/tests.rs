use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_core::{Gvk, Object};
use informer_schema::{Envelope, Scan, Schema};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::ResourceKind;
use crate::header::RawHeader;
use crate::object::{Interner, Lazy, Origin, RawBytes, RawObject, Representation};
use crate::scan::Cursor;

fn pod(name: &str, checksum: &str) -> Value {
    json!({
        "metadata": {
            "annotations": {"checksum/config": checksum, "restartedAt": "2026-10-01T08:15:00Z"},
            "finalizers": ["a/b"],
            "labels": {"app": "web", "pod-template-hash": "6d4b75cb6d"},
            "managedFields": [{"manager": "kubelet", "operation": "Update"}],
            "name": name, "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4b75cb6d", "uid": "u-1", "blockOwnerDeletion": true,
            }],
            "resourceVersion": "7", "uid": "u-2",
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {}}]}, "status": {},
    })
}

/// The number of hash seeds that each test tries. Sharing between objects must not depend on which hashes
/// fall into the same set of the table.
const SEEDS: u64 = 64;

fn origin(seed: u64) -> Arc<Origin> {
    let wire = Schema::builtin().shared_kind(&Gvk::new("", "v1", "Pod"));
    let origin = Origin::new(ResourceKind::of::<Pod>(), UndecodableLog::default());
    Arc::new(origin.with_wire(wire).with_interner(Arc::new(Interner::of_seed(seed))))
}

/// Returns each combination of a function that builds a pod from JSON or from protobuf, and an origin whose
/// interner has one of the [`SEEDS`] hash seeds.
fn ways() -> impl Iterator<Item = (Read, Arc<Origin>)> {
    let reads: [Read; 2] = [from_json, from_protobuf];
    (0..SEEDS).flat_map(move |seed| reads.map(|read| (read, origin(seed))))
}

type Read = fn(&Value, &Arc<Origin>) -> Lazy<Pod>;

fn from_json(pod: &Value, origin: &Arc<Origin>) -> Lazy<Pod> {
    let (text, mut raw) = (pod.to_string(), RawHeader::default());
    raw.scan(Cursor::new(&text)).unwrap();
    let header = raw.build(&text).unwrap();
    let bytes = RawBytes::Json { raw: &raw, text: &text, cut_managed_fields: true };
    Lazy::decode(RawObject { header, bytes, origin }).unwrap()
}

fn from_protobuf(pod: &Value, origin: &Arc<Origin>) -> Lazy<Pod> {
    let mut pod = pod.clone();
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    let wire = Schema::builtin().to_protobuf(pod.to_string().as_bytes()).unwrap();
    let message = Envelope::parse(&wire).unwrap().raw;
    let scan = Scan::of(message).unwrap();
    let bytes = RawBytes::Protobuf { scan: &scan, message, cut_managed_fields: true };
    Lazy::decode(RawObject { header: scan.header().unwrap(), bytes, origin }).unwrap()
}

fn own(pod: &Lazy<Pod>) -> usize {
    pod.body.borrow().own().bytes().len()
}

fn common(pod: &Lazy<Pod>) -> *const super::Template {
    pod.body.borrow().common().map_or(std::ptr::null(), std::ptr::from_ref)
}

fn assert_whole(pod: &Lazy<Pod>, tree: &Value) {
    let mut tree = tree.clone();
    tree["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(serde_json::from_str::<Value>(&pod.json().unwrap()).unwrap(), tree);
    let annotations = tree["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(pod.annotations().len(), annotations.len());
    for (name, value) in annotations {
        assert_eq!(pod.annotation(name).as_deref(), value.as_str());
    }
    for path in ["metadata.labels.app", "metadata.name", "spec.nodeName"] {
        let wanted = tree.pointer(&format!("/{}", path.replace('.', "/"))).unwrap();
        assert_eq!(pod.field(&path.parse().unwrap()).as_deref(), wanted.as_str(), "{path}");
    }
    let typed = pod.get().unwrap();
    assert_eq!(
        serde_json::to_value(&typed.metadata.owner_references).unwrap(),
        tree["metadata"]["ownerReferences"]
    );
    assert_eq!(serde_json::to_value(&typed.metadata.labels).unwrap(), tree["metadata"]["labels"]);
}

#[test]
fn equal_parts_are_shared_and_each_object_is_complete() {
    for (read, origin) in ways() {
        let trees = ["a", "b", "c", "d"].map(|name| pod(name, &"f".repeat(64)));
        let pods = trees.each_ref().map(|tree| read(tree, &origin));
        assert!(own(&pods[1]) + 200 < own(&pods[0]), "{} {}", own(&pods[1]), own(&pods[0]));
        assert_eq!(pods[0].body.borrow().common().map(|_| ()), None, "the first object shares no parts yet");
        assert_eq!([common(&pods[1]); 2], [common(&pods[2]), common(&pods[3])]);
        for (pod, tree) in pods.iter().zip(&trees) {
            assert_whole(pod, tree);
        }
    }
}

#[test]
fn groups_of_objects_with_different_parts_share_different_templates() {
    let of_group = |name: &str, group: &str| {
        let mut tree = pod(name, &group.repeat(64));
        tree["metadata"]["labels"]["app"] = format!("app-of-{}", group.repeat(64)).into();
        tree["metadata"]["ownerReferences"][0]["name"] = format!("owner-of-{}", group.repeat(64)).into();
        tree
    };
    for (read, origin) in ways().take(8) {
        let names = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"), ("b3", "b")];
        let trees = names.map(|(name, group)| of_group(name, group));
        let pods = trees.each_ref().map(|tree| read(tree, &origin));
        assert!(!common(&pods[2]).is_null() && !common(&pods[3]).is_null());
        assert_eq!([common(&pods[2]), common(&pods[3])], [common(&pods[4]), common(&pods[5])]);
        assert_ne!(common(&pods[2]), common(&pods[3]));
        for (pod, tree) in pods.iter().zip(&trees) {
            assert_whole(pod, tree);
        }
    }
}

#[test]
fn unique_part_stays_with_its_object() {
    for (read, origin) in ways() {
        let trees = ["a", "b", "c"].map(|name| pod(name, &name.repeat(64)));
        let pods = trees.each_ref().map(|tree| read(tree, &origin));
        assert_eq!(pods[2].body.borrow().common().unwrap().chosen(), [true, false, true]);
        assert_eq!(common(&pods[1]), common(&pods[2]));
        for (pod, tree) in pods.iter().zip(&trees) {
            assert_whole(pod, tree);
        }
    }
}
