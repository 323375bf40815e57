//! Property tests that compare pruned objects in all representations with a pruned `serde_json` tree.

use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_cache::source::SourceContext;
use informer_schema::{Envelope, Schema};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{ObjectReader, Read};
use crate::object::{Interner, Origin, Packed};
use crate::scan::Cursor;
use crate::{Lazy, Pruning, Representation, ResourceKind, Typed, arbitrary};

/// The metadata members that differ between objects. The tests mostly prune all of them, so that only members
/// remain that are shared between objects.
const OWN: [&str; 5] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
];

const OTHERS: [&str; 6] = [
    "metadata",
    "metadata.labels",
    "metadata.labels.a",
    "metadata.annotations",
    "metadata.ownerReferences",
    "spec",
];

fn paths() -> impl Strategy<Value = Vec<&'static str>> {
    let own = prop_oneof![
        2 => Just(OWN.to_vec()),
        1 => prop::sample::subsequence(OWN.to_vec(), 0..=OWN.len()),
    ];
    let others = prop::sample::subsequence(OTHERS.to_vec(), 0..3);
    (own, prop_oneof![2 => Just(Vec::new()), 1 => others]).prop_map(|(own, others)| [own, others].concat())
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some(members) = value.as_object_mut() else { return };
    match path {
        [name] => drop(members.remove(*name)),
        [name, rest @ ..] => members.get_mut(*name).into_iter().for_each(|member| remove(member, rest)),
        [] => {}
    }
}

/// Generates managed fields, which the client prunes by default.
fn managed_fields() -> impl Strategy<Value = Value> {
    let managed =
        ("[a-z]{1,9}", prop_oneof![Just("Apply"), Just("Update")]).prop_map(|(manager, operation)| {
            let fields = json!({"f:data": {"f:a": {}}});
            json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
        });
    prop::collection::vec(managed, 1..3).prop_map(Value::from)
}

/// Generates ConfigMaps of which some have labels, annotations and owner references that are long enough to
/// be shared between objects.
fn config_map() -> impl Strategy<Value = Value> {
    let others = (prop::option::of(managed_fields()), any::<bool>(), any::<bool>());
    let data = prop::collection::btree_map("[a-z]{1,5}", arbitrary::string(), 1..4);
    (templated(), others, data).prop_map(|(templated, (managed, has_finalizers, is_immutable), data)| {
        let mut metadata = json!({
            "name": "m", "namespace": "a", "uid": "u", "resourceVersion": "5",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        });
        if has_finalizers {
            metadata["finalizers"] = json!(["example.com/keep"]);
        }
        if let Some(managed) = managed {
            metadata["managedFields"] = managed;
        }
        metadata.as_object_mut().into_iter().for_each(|metadata| metadata.extend(templated.clone()));
        let mut object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data});
        if is_immutable {
            object["immutable"] = json!(true);
        }
        object
    })
}

/// Generates labels, annotations and owner references, most of which are long enough to be shared between
/// objects.
fn templated() -> impl Strategy<Value = Map<String, Value>> {
    let words = || prop::collection::btree_map("[a-z]{1,3}", "[a-z]{40,50}", 1..3).prop_map(|map| json!(map));
    // A short owner reference in protobuf is below the minimum size of a shared part.
    let owner = prop_oneof![Just("u"), Just("6dbb5a0c-5b0e-4d49-9d3c-2f4a3b1c7e8d")].prop_map(|uid| {
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}])
    });
    let members = (prop::option::of(words()), prop::option::of(words()), prop::option::of(owner));
    members.prop_map(|(labels, annotations, owners)| {
        let named = [("labels", labels), ("annotations", annotations), ("ownerReferences", owners)];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn reader<O: Representation>(pruning: &Pruning) -> ObjectReader<O> {
    let kind = ResourceKind::new("example.com", "v1", "Thing", "things");
    let origin = Origin::new(kind, UndecodableLog::default()).with_interner(Arc::<Interner>::default());
    ObjectReader::new(origin, pruning.clone(), SourceContext::default())
}

fn read<O: Representation>(reader: &mut ObjectReader<O>, text: &str) -> Option<Arc<O>> {
    match reader.read_text(text, Cursor::new(text), false).read {
        Read::Fresh(object) => Some(object),
        _ => None,
    }
}

/// Returns a reader of ConfigMaps in protobuf.
fn wire_reader<O: Representation>(pruning: &Pruning) -> ObjectReader<O> {
    let kind = ResourceKind::of::<ConfigMap>();
    let wire = Schema::builtin().shared_kind(kind.gvk());
    let origin = Origin::new(kind, UndecodableLog::default())
        .with_wire(wire)
        .with_interner(Arc::<Interner>::default());
    ObjectReader::new(origin, pruning.clone(), SourceContext::default())
}

fn read_message<O: Representation>(reader: &mut ObjectReader<O>, message: &[u8]) -> Option<Arc<O>> {
    match reader.read_message(message, false) {
        Read::Fresh(object) => Some(object),
        _ => None,
    }
}

#[test]
fn few_objects_of_a_large_response_are_checked_for_unknown_fields() {
    let first = reader::<Lazy<Value>>(&Pruning::default());
    let batches: Vec<_> = (0..100).map(|_| first.clone()).collect();
    let checked = batches.iter().map(|batch| (0..70).filter(|_| batch.is_check_due()).count());
    assert_eq!(checked.sum::<usize>(), 16 + 100 * 70 / 512);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_pruned_object_is_the_json_of_a_tree_without_the_pruned_paths(
        mut object in arbitrary::object(),
        templated in templated(),
        choices in arbitrary::choices(),
        managed_fields in any::<bool>(),
        paths in paths(),
    ) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.extend(templated);
        }
        object.as_object_mut().expect("an object").remove("kind");
        object.as_object_mut().expect("an object").remove("apiVersion");
        let text = arbitrary::write(&object, &mut choices.into_iter().cycle());
        let mut expected: Value = serde_json::from_str(&text).expect("it was written as JSON");
        let mut pruning = if managed_fields { Pruning::default() } else { Pruning::nothing() };
        if managed_fields {
            remove(&mut expected, &["metadata", "managedFields"]);
        }
        for path in paths {
            pruning = pruning.cut(path.parse().expect("a path"));
            remove(&mut expected, &path.split('.').collect::<Vec<_>>());
        }
        let (mut lazy, mut packed) = (reader::<Lazy<Value>>(&pruning), reader::<Packed<Value>>(&pruning));
        // The object is read three times, because an equal part (such as labels) is shared, and stored
        // outside of the object's bytes, only after it was seen before.
        for _ in 0..3 {
            let (lazy, packed) = (read(&mut lazy, &text), read(&mut packed, &text));
            prop_assert_eq!(lazy.is_some(), packed.is_some());
            let (Some(lazy), Some(packed)) = (lazy, packed) else { continue };
            for json in [lazy.json().expect("it is text").into_owned(), packed.json().expect("it is text")] {
                let read: Result<Value, _> = serde_json::from_str(&json);
                prop_assert!(read.as_ref().is_ok_and(|read| *read == expected), "{} from {}", json, text);
            }
            (expected["apiVersion"], expected["kind"]) = ("example.com/v1".into(), "Thing".into());
            prop_assert_eq!(&*lazy.get().expect("it is JSON"), &expected);
            expected.as_object_mut().expect("an object").remove("kind");
            expected.as_object_mut().expect("an object").remove("apiVersion");
        }
    }

    #[test]
    fn a_pruned_protobuf_object_is_the_json_of_the_pruned_tree(
        object in config_map(),
        cuts_managed_fields in any::<bool>(),
    ) {
        let wire = Schema::builtin().to_protobuf(object.to_string().as_bytes()).expect("a valid ConfigMap");
        let message = Envelope::parse(&wire).expect("it has an envelope").raw;
        let pruning = if cuts_managed_fields { Pruning::default() } else { Pruning::nothing() };
        let mut expected = object;
        // The items of a list have neither of them.
        remove(&mut expected, &["apiVersion"]);
        remove(&mut expected, &["kind"]);
        if cuts_managed_fields {
            remove(&mut expected, &["metadata", "managedFields"]);
        }
        let (mut lazy, mut packed) =
            (wire_reader::<Lazy<ConfigMap>>(&pruning), wire_reader::<Packed<ConfigMap>>(&pruning));
        let mut typed = wire_reader::<Typed<ConfigMap>>(&pruning);
        // Equal parts, such as labels, are shared from the second or third object on.
        for _ in 0..3 {
            let lazy = read_message(&mut lazy, message).expect("it is valid");
            let packed = read_message(&mut packed, message).expect("it is valid");
            let typed = read_message(&mut typed, message).expect("it is valid");
            for json in [lazy.json().expect("it is text").into_owned(), packed.json().expect("it is text")] {
                let read: Value = serde_json::from_str(&json).expect("it is JSON");
                prop_assert_eq!(&read, &expected);
            }
            let as_type: ConfigMap = serde_json::from_value(expected.clone()).expect("a valid ConfigMap");
            prop_assert_eq!(&*typed.get().expect("it is decoded"), &as_type);
            prop_assert_eq!(&*lazy.get().expect("it can be decoded"), &as_type);
            prop_assert_eq!(&*packed.get().expect("it can be decoded"), &as_type);
        }
    }
}
