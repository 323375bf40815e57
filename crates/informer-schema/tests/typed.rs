//! Compares headers, field paths and typed objects that were read from protobuf with those read from JSON.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fmt::Debug;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_core::{Gvk, Object};
use informer_schema::{
    Envelope, ExtraField, KindSchema, ListSegment, ListSplitter, Problem, ProtobufDecodeError, Scan, Schema,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::{apps, autoscaling, batch, core, discovery, networking, rbac, storage};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

struct Sample {
    kind: Gvk,
    wire: Vec<u8>,
    json: String,
}

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);
static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(samples);

fn samples() -> Vec<Sample> {
    let mut text = String::new();
    let packed = include_bytes!("corpus/objects.jsonl.gz");
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let sample = |line: &str| {
        let fields: Value = serde_json::from_str(line).unwrap();
        let name = fields["kind"].as_str().unwrap();
        let [group, version, kind] = name.split('/').collect::<Vec<_>>().try_into().unwrap();
        Sample {
            kind: Gvk::new(group, version, kind),
            wire: STANDARD.decode(fields["wire"].as_str().unwrap()).unwrap(),
            json: fields["json"].as_str().unwrap().replace(r#""items":null}"#, r#""items":[]}"#),
        }
    };
    text.lines().map(sample).collect()
}

/// Asserts that decoding from protobuf equals decoding from JSON. Returns the number of objects that the Rust
/// type accepts.
fn agree<T: DeserializeOwned + PartialEq + Debug>(gvk: &Gvk) -> usize {
    let (schema, mut taken) = (&*SCHEMA, 0);
    for sample in SAMPLES.iter().filter(|sample| sample.kind == *gvk) {
        let ours = schema.decode::<T>(&sample.wire);
        match serde_json::from_str::<T>(&sample.json) {
            Ok(theirs) => {
                assert_eq!(ours.unwrap(), theirs, "{}", sample.json);
                taken += 1;
            }
            Err(_) => assert!(ours.is_err(), "{}", sample.json),
        }
    }
    taken
}

#[test]
fn typed_objects_from_protobuf_equal_those_from_json() {
    let taken = [
        agree::<core::v1::Pod>(&Gvk::new("", "v1", "Pod")),
        agree::<k8s_openapi::List<core::v1::Pod>>(&Gvk::new("", "v1", "PodList")),
        agree::<core::v1::Secret>(&Gvk::new("", "v1", "Secret")),
        agree::<core::v1::ConfigMap>(&Gvk::new("", "v1", "ConfigMap")),
        agree::<core::v1::Service>(&Gvk::new("", "v1", "Service")),
        agree::<core::v1::Node>(&Gvk::new("", "v1", "Node")),
        agree::<core::v1::Event>(&Gvk::new("", "v1", "Event")),
        agree::<apps::v1::Deployment>(&Gvk::new("apps", "v1", "Deployment")),
        agree::<apps::v1::StatefulSet>(&Gvk::new("apps", "v1", "StatefulSet")),
        agree::<apps::v1::ControllerRevision>(&Gvk::new("apps", "v1", "ControllerRevision")),
        agree::<batch::v1::CronJob>(&Gvk::new("batch", "v1", "CronJob")),
        agree::<autoscaling::v2::HorizontalPodAutoscaler>(&Gvk::new(
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
        )),
        agree::<discovery::v1::EndpointSlice>(&Gvk::new("discovery.k8s.io", "v1", "EndpointSlice")),
        agree::<networking::v1::Ingress>(&Gvk::new("networking.k8s.io", "v1", "Ingress")),
        agree::<rbac::v1::ClusterRole>(&Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole")),
        agree::<storage::v1::StorageClass>(&Gvk::new("storage.k8s.io", "v1", "StorageClass")),
        agree::<apiextensions::v1::CustomResourceDefinition>(&Gvk::new(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    ];
    assert!(taken.iter().sum::<usize>() > taken.len(), "{taken:?}");
}

#[test]
fn every_object_decodes_to_the_same_json_value() {
    let schema = &*SCHEMA;
    for sample in &*SAMPLES {
        let theirs: Value = serde_json::from_str(&sample.json).unwrap();
        assert_eq!(schema.decode::<Value>(&sample.wire).unwrap(), theirs);
    }
}

#[test]
fn split_messages_decode_to_the_same_json_value() {
    let (schema, mut count) = (&*SCHEMA, 0);
    for sample in &*SAMPLES {
        let envelope = Envelope::parse(&sample.wire).unwrap();
        // Protobuf merges a message that occurs twice: lists are concatenated, and of scalars the last one
        // wins.
        let twice = [envelope.raw, envelope.raw].concat();
        let wire = informer_schema::enclose(envelope.api_version, envelope.kind, &twice);
        let Ok(json) = schema.to_json(&wire) else { continue };
        assert_eq!(schema.decode::<Value>(&wire).unwrap(), serde_json::from_slice::<Value>(&json).unwrap());
        count += 1;
    }
    assert!(count > 100, "{count}");
}

fn scalars(value: &Value, path: &str, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                scalars(member, &format!("{path}['{name}']"), out);
            }
        }
        Value::String(text) => out.push((path.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => out.push((path.to_owned(), value.to_string())),
        Value::Array(_) | Value::Null => {}
    }
}

#[test]
fn field_paths_read_the_same_values_as_from_json() {
    let (schema, mut count) = (&*SCHEMA, 0);
    for sample in &*SAMPLES {
        let json: Value = serde_json::from_str(&sample.json).unwrap();
        let raw = Envelope::parse(&sample.wire).unwrap().raw;
        let kind: KindSchema<'_> = schema.kind(&sample.kind).unwrap();
        let mut expected = Vec::new();
        scalars(&json, "", &mut expected);
        for (path, value) in expected {
            // Three kinds of values are skipped: those whose names contain quotes, because a field path
            // cannot express them; numbers in embedded JSON, which `scalar` returns unchanged; and `kind` and
            // `apiVersion`, which are not in the message.
            let Ok(path) = path.parse() else { continue };
            if matches!(&*value, "12.5" | "-10000000000.0")
                || ["['kind']", "['apiVersion']"].contains(&informer_core::FieldPath::as_str(&path))
            {
                continue;
            }
            assert_eq!(
                kind.scalar(raw, &path).unwrap().as_deref(),
                Some(&*value),
                "{path:?} {}",
                sample.json
            );
            count += 1;
        }
        assert_eq!(kind.scalar(raw, &"no.such.field".parse().unwrap()).unwrap(), None);
        assert_eq!(kind.scalar(raw, &"metadata".parse().unwrap()).unwrap(), None);
    }
    assert!(count > 1_000, "{count}");
}

#[test]
fn protobuf_headers_equal_json_headers() {
    let (schema, mut count) = (&*SCHEMA, 0);
    for sample in &*SAMPLES {
        let json: Value = serde_json::from_str(&sample.json).unwrap();
        let metadata = &json["metadata"];
        let of_objects =
            schema.kind(&sample.kind).unwrap().field("metadata").and_then(|field| field.message());
        if of_objects.is_none_or(|message| message.short_name() != "meta.v1.ObjectMeta") {
            continue;
        }
        let raw = Envelope::parse(&sample.wire).unwrap().raw;
        let scan = Scan::of(raw).unwrap();
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(scan.name(), text("name"));
        assert_eq!(scan.namespace(), text("namespace"));
        let Ok(header) = scan.header() else { continue };
        assert_eq!(header.uid(), text("uid"));
        assert_eq!(*header.resource_version(), *text("resourceVersion"));
        assert_eq!(header.generation(), metadata["generation"].as_i64());
        assert_eq!(header.deletion_timestamp(), metadata["deletionTimestamp"].as_str());
        for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
            assert_eq!(header.labels().get(name), value.as_str());
        }
        let owners = metadata["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(header.owners().len(), owners.len());
        for (ours, theirs) in header.owners().iter().zip(owners) {
            assert_eq!(
                (ours.uid(), ours.name()),
                (theirs["uid"].as_str().unwrap(), theirs["name"].as_str().unwrap())
            );
            assert_eq!(ours.is_controller(), theirs["controller"].as_bool().unwrap_or_default());
        }
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn only_managed_fields_are_removed() {
    let (schema, mut count) = (&*SCHEMA, 0);
    for sample in &*SAMPLES {
        let envelope = Envelope::parse(&sample.wire).unwrap();
        let kind = schema.kind(&sample.kind).unwrap();
        let Ok(scan) = Scan::of(envelope.raw) else { continue };
        if !scan.has_managed_fields() || kind.field("metadata").is_none() {
            continue;
        }
        let mut json: Value = serde_json::from_str(&sample.json).unwrap();
        json["metadata"].as_object_mut().unwrap().remove("managedFields");
        let kept = scan.without_managed_fields().unwrap();
        let whole = informer_schema::enclose(envelope.api_version, envelope.kind, &kept);
        assert_eq!(schema.decode::<Value>(&whole).unwrap(), json);
        assert!(kept.len() < envelope.raw.len());
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn template_metadata_is_removed_and_restored() {
    let (schema, mut count) = (&*SCHEMA, 0);
    for sample in &*SAMPLES {
        let envelope = Envelope::parse(&sample.wire).unwrap();
        let Ok(scan) = Scan::of(envelope.raw) else { continue };
        if schema.kind(&sample.kind).unwrap().field("metadata").is_none() {
            continue;
        }
        let json = |object: &[u8]| {
            let whole = informer_schema::enclose(envelope.api_version, envelope.kind, object);
            schema.decode::<Value>(&whole).unwrap()
        };
        let runs = scan.templated().unwrap();
        let own = scan.without_templated(runs.map(|run| run.is_some())).unwrap();
        let mut without = json(envelope.raw);
        let metadata = without["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        for (name, run) in ["labels", "annotations", "ownerReferences"].into_iter().zip(runs) {
            assert_eq!(run.is_some(), metadata.remove(name).is_some(), "{name} of {:?}", sample.kind);
        }
        assert_eq!(json(&own), without);

        let others: Vec<Vec<u8>> = runs.into_iter().flatten().map(Scan::object_of_metadata).collect();
        let again = Scan::with_metadata_of(&own, others.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(json(&again), json(&scan.without_managed_fields().unwrap()));
        count += usize::from(!others.is_empty());
    }
    assert!(count > 10, "{count}");
}

#[test]
fn non_contiguous_metadata_fields_are_not_shared() {
    let label = |key: &str| [b"\x5a\x05\x0a\x01", key.as_bytes(), b"\x12\x00"].concat();
    let (name, finalizer) = (b"\x0a\x01n".as_slice(), b"\x72\x01f".as_slice());
    let object = |fields: &[&[u8]]| Scan::object_of_metadata(&fields.concat());
    let labels = |object: &[u8]| Scan::of(object).unwrap().templated().unwrap()[0].map(<[u8]>::to_vec);
    let (a, b) = (label("a"), label("b"));
    assert_eq!(labels(&object(&[name, &a, &b])), Some([a.clone(), b.clone()].concat()));
    assert_eq!(labels(&object(&[name, &a, finalizer, &b])), None);
    assert_eq!(labels(&[object(&[name, &a]), object(&[&b])].concat()), None);
}

#[test]
fn decode_error_names_the_field_and_shows_no_value() {
    let schema = &*SCHEMA;
    let json = br#"{"apiVersion":"v1","kind":"Secret","data":{"password":"not base64!"}}"#;
    let error = schema.to_protobuf(json).unwrap_err();
    assert_eq!(error.path(), "data.password");
    assert!(!format!("{error} {error:?}").contains("not base64"));

    let wire =
        schema.to_protobuf(br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"hidden"}}"#).unwrap();
    #[derive(Debug, serde::Deserialize)]
    struct Numbers {
        #[expect(dead_code, reason = "only its type matters")]
        data: std::collections::BTreeMap<String, u32>,
    }
    let error = schema.decode::<Numbers>(&wire).unwrap_err();
    assert_eq!(error.to_string(), "cannot decode v1 ConfigMap at data.k: expected u32");
    assert!(!format!("{error:?}").contains("hidden"));
}

#[test]
fn nesting_is_bounded_in_both_directions() {
    let schema = &*SCHEMA;
    let nested = |depth: usize| {
        let open = r#"{"not":"#.repeat(depth);
        let json = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{open}{{}}{}}}}}]}}}}"#,
            "}".repeat(depth)
        );
        schema.to_protobuf(json.as_bytes())
    };
    let fine = nested(100).unwrap();
    assert!(schema.to_json(&fine).is_ok());
    assert_eq!(nested(1_000).unwrap_err().problem(), informer_schema::Problem::TooDeep);
    let mut deep = Vec::new();
    for _ in 0..2_000 {
        deep = [&[0xfa, 0x01][..], &varint(deep.len()), &deep].concat();
    }
    let wire = informer_schema::enclose("v1", "Status", &deep);
    assert!(schema.to_json(&wire).is_ok(), "unknown fields are skipped, not decoded");
}

#[test]
fn numbers_with_fractions_equal_those_from_json() {
    let json = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"maximum": 2.5, "minimum": 0.0, "multipleOf": -0.125}},
            }],
        },
    });
    let wire = SCHEMA.to_protobuf(json.to_string().as_bytes()).unwrap();
    let typed: apiextensions::v1::CustomResourceDefinition = SCHEMA.decode(&wire).unwrap();
    let properties = typed.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let numbers = (properties.maximum, properties.minimum, properties.multiple_of);
    assert_eq!(numbers, (Some(2.5), Some(0.0), Some(-0.125)));
    let read: Value = serde_json::from_slice(&SCHEMA.to_json(&wire).unwrap()).unwrap();
    let numbers = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(numbers, &json!({"maximum": 2.5, "minimum": 0, "multipleOf": -0.125}));
}

#[test]
fn json_growth_of_empty_messages_is_bounded() {
    let list = [0x12, 0].repeat(1 << 20);
    let wire = informer_schema::enclose("v1", "NodeList", &list);
    assert_eq!(SCHEMA.to_json(&wire).unwrap_err().problem(), Problem::TooLong);
    let wire = informer_schema::enclose("v1", "NodeList", &[0x12, 0].repeat(100));
    assert!(SCHEMA.to_json(&wire).is_ok());
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn split(wire: &[u8], chunk: usize) -> Result<(Vec<Vec<u8>>, String), informer_schema::TranscodeError> {
    let (mut splitter, mut items, mut version) = (ListSplitter::new(1 << 20), Vec::new(), String::new());
    for chunk in wire.chunks(chunk) {
        splitter.push(chunk, |part| match part {
            ListSegment::Item(item) => items.push(item.to_vec()),
            ListSegment::Metadata { resource_version, .. } => version = resource_version.to_owned(),
            ListSegment::TypeMeta { .. } => {}
        })?;
    }
    splitter.finish().map(|()| (items, version))
}

#[test]
fn lists_are_split_at_any_chunk_boundary() {
    let mut count = 0;
    for sample in SAMPLES.iter().filter(|sample| sample.kind.kind.ends_with("List")) {
        let json: Value = serde_json::from_str(&sample.json).unwrap();
        // Lists whose items are not objects of a built-in kind, such as lists of API groups, are skipped.
        let kind = SCHEMA.kind(&sample.kind).unwrap();
        let Some(item) = kind.item() else { continue };
        for chunk in [1, 2, 3, 7, 64, sample.wire.len()] {
            let (items, version) = split(&sample.wire, chunk).unwrap();
            let read: Vec<Value> = items
                .iter()
                .map(|raw| serde_json::from_slice(&item.message_to_json(raw).unwrap()).unwrap())
                .collect();
            assert_eq!(read, json["items"].as_array().cloned().unwrap_or_default());
            assert_eq!(version, json["metadata"]["resourceVersion"].as_str().unwrap_or_default());
            count += read.len();
        }
        for end in 0..sample.wire.len() - 4 {
            assert!(split(&sample.wire[..end], 16).is_err(), "{end} of {}", sample.wire.len());
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn list_splitter_rejects_other_messages_and_long_items() {
    let status = SCHEMA.to_protobuf(br#"{"apiVersion":"v1","kind":"Status","status":"Failure"}"#).unwrap();
    assert_eq!(split(&status, 9).unwrap_err().problem(), Problem::Value { expected: "a list" });
    assert_eq!(split(b"{}", 1).unwrap_err().problem(), Problem::Magic);
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"PodList","items":[{{"metadata":{{"name":"{}"}}}}]}}"#,
        "x".repeat(2 << 20)
    );
    let long = SCHEMA.to_protobuf(json.as_bytes()).unwrap();
    assert_eq!(split(&long, 4096).unwrap_err().problem(), Problem::TooLong);
}

proptest! {
    #[test]
    fn random_lists_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), chunk in 1..9_usize) {
        let _ = split(&bytes, chunk);
        let _ = split(&informer_schema::enclose("v1", "PodList", &bytes), chunk);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..300_usize) {
        let schema = &*SCHEMA;
        let kind = schema.kinds().nth(at % schema.kinds().len()).unwrap();
        let wire = informer_schema::enclose(&kind.gvk().api_version(), kind.name(), &bytes);
        if let Ok(json) = schema.to_json(&wire) {
            prop_assert!(serde_json::from_slice::<Value>(&json).is_ok());
            prop_assert!(schema.decode::<Value>(&wire).is_ok());
        }
        let _ = (schema.to_json(&bytes), schema.to_protobuf(&bytes), schema.watch_event_to_json(&bytes));
        if let Ok(scan) = Scan::of(&bytes) {
            let _ = (scan.header(), scan.without_managed_fields(), scan.templated());
            let _ = scan.without_templated([true; 3]).map(|own| Scan::with_metadata_of(&own, [bytes.as_slice()]));
        }
        let _ = kind.scalar(&bytes, &"metadata.labels.app".parse().unwrap());
    }

    #[test]
    fn what_was_written_is_read_again(name in "\\PC{0,12}", data in proptest::collection::btree_map("[a-z]{1,4}", "\\PC{0,12}", 0..5)) {
        let schema = &*SCHEMA;
        let object = serde_json::json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data});
        let wire = schema.to_protobuf(object.to_string().as_bytes()).unwrap();
        let json = schema.to_json(&wire).unwrap();
        prop_assert_eq!(schema.to_protobuf(&json).unwrap(), wire);
    }
}

/// A pod type whose containers have a field that the built-in schema does not have: `shells`.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct NewerPod {
    spec: NewerPodSpec,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewerPodSpec {
    #[serde(default)]
    containers: Vec<NewerContainer>,
    #[serde(default)]
    node_name: Option<String>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct NewerContainer {
    name: String,
    #[serde(default)]
    shells: Vec<String>,
}

#[test]
fn decode_complete_fails_if_the_type_needs_unknown_fields() {
    let extra = [
        ExtraField::new("core.v1.Container", "shells", 200, "[]string"),
        ExtraField::new("core.v1.PodStatus", "band", 201, "*string"),
    ];
    let newer = Schema::with_extra_fields(&extra).unwrap();
    let object = |container: Value, status: Value| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "nodeName": "n"}, "status": status});
        newer.to_protobuf(pod.to_string().as_bytes()).unwrap()
    };
    let pod = SCHEMA.kind(&Gvk::new("", "v1", "Pod")).unwrap();
    let plain = object(json!({"name": "a"}), json!({}));
    let in_container = object(json!({"name": "a", "shells": ["sh"]}), json!({}));
    let in_status = object(json!({"name": "a"}), json!({"band": "x"}));
    let raw = |wire| Envelope::parse(wire).unwrap().raw;
    let is_newer = |error| matches!(error, Err(ProtobufDecodeError::Newer { .. }));

    assert!(pod.decode_complete::<NewerPod>(raw(&plain)).is_ok());
    assert!(pod.decode_complete::<NewerPod>(raw(&in_status)).is_ok(), "the type has no status");
    assert!(is_newer(pod.decode_complete::<NewerPod>(raw(&in_container)).map(drop)));
    // The `Pod` of k8s-openapi has no field `shells`, so decoding it loses no data.
    assert!(pod.decode_complete::<Pod>(raw(&in_container)).is_ok());
    assert!(pod.decode_complete::<Value>(raw(&plain)).is_ok());
    assert!(
        is_newer(pod.decode_complete::<Value>(raw(&in_container)).map(drop)),
        "a `Value` has every field"
    );
    assert!(is_newer(pod.decode_complete::<Value>(raw(&in_status)).map(drop)));
    assert!(pod.decode_message::<Value>(raw(&in_container)).is_ok(), "this method permits missing fields");
    let known: NewerPod = pod.decode_message(raw(&in_container)).unwrap();
    assert_eq!((known.spec.containers[0].shells.len(), known.spec.node_name.as_deref()), (0, Some("n")));
}
