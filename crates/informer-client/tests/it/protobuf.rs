//! Tests that compare JSON and protobuf: content negotiation, equal results and equal errors.

use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use informer_cache::UndecodableLog;
use informer_cache::source::{KnownObjects, ListRequest, Listed, SourceContext, SourceErrorKind};
use informer_client::{
    Encoding, Encodings, KubeListWatch, Lazy, Limits, Metadata, Pruning, ReadOptions, Representation,
    ResourceKind, Typed,
};
use informer_core::{FieldPath, Gvk, Object, ObjectKey};
use informer_schema::{Schema, enclose, write_frame};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_core::DynamicObject;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::script::{Read, Reply, first_list, list, script, watch, watch_from};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

pub(crate) fn protobuf(body: impl Into<bytes::Bytes>) -> Reply {
    Reply::status(200).header("content-type", PROTOBUF).data(body)
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": "3", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}, "annotations": {"note": "a \"b\""},
            "finalizers": ["keep"], "managedFields": [{"manager": "kubectl"}],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": true}]},
        "spec": {"nodeName": "n1", "priority": 5, "containers": [{"name": "c", "resources": {}}]}, "status": {"phase": "Running"}})
}

pub(crate) fn pods(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| pod(name)).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 4},
        "items": items})
}

pub(crate) fn wire(object: &Value) -> Vec<u8> {
    SCHEMA.to_protobuf(object.to_string().as_bytes()).unwrap()
}

async fn both<O: Representation>(
    source: impl Fn(informer_client::Client) -> KubeListWatch<O>,
    json: Vec<u8>,
    wire: Vec<u8>,
) -> [Read<O>; 2] {
    let (client, _) = script([protobuf(wire)]);
    let from_wire = list(&source(client), first_list()).await.unwrap();
    let (client, _) = script([Reply::ok(json)]);
    [from_wire, list(&source(client), first_list()).await.unwrap()]
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_are_requested_as_protobuf_and_others_as_json() {
    let (client, requests) = script([protobuf(wire(&pods(&["x"]))), protobuf(""), Reply::ok("")]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client.clone());
    let read = list(&source, first_list()).await.unwrap();
    assert_eq!(
        requests.last_header("accept").as_deref(),
        Some("application/vnd.kubernetes.protobuf,application/json")
    );
    assert_eq!((read.keys(), read.end.version.to_string()), (vec!["a/x"], "7".to_owned()));
    assert_eq!((read.end.continue_token.as_deref(), read.end.remaining), (Some("next"), Some(4)));
    assert_eq!(read.items[0].object().encoding(), Encoding::Protobuf);
    watch(&source, watch_from("7")).await.1.unwrap();
    assert_eq!(
        requests.last_header("accept").as_deref(),
        Some("application/vnd.kubernetes.protobuf,application/json")
    );

    let custom = ResourceKind::new("example.com", "v1", "Website", "websites");
    let dynamic = informer_client::ResourceKind::of::<Pod>();
    for source in [
        KubeListWatch::<Lazy<DynamicObject>>::of(client.clone(), dynamic),
        KubeListWatch::of(client.clone(), custom.clone()),
    ] {
        let (other, requests) = script([Reply::ok(r#"{"kind":"PodList","items":[]}"#)]);
        let source = KubeListWatch::<Lazy<DynamicObject>>::of(other, source.kind().clone());
        let _ = list(&source, first_list()).await;
        assert_eq!(requests.last_header("accept").as_deref(), Some("application/json"));
    }
    let typed = KubeListWatch::<Lazy<Pod>>::all(&client).encodings(Encodings::Json);
    list(&typed, first_list()).await.unwrap_err();
    assert_eq!(requests.last_header("accept").as_deref(), Some("application/json"));
}

#[tokio::test(start_paused = true)]
async fn json_is_requested_after_406_for_protobuf_and_remembered() {
    let refused =
        Reply::status(406).header("content-type", "application/json").data(r#"{"kind":"Status","code":406}"#);
    let json = || Reply::ok(pods(&["x"]).to_string());
    let (client, requests) = script([refused, json(), json(), json()]);
    let source = KubeListWatch::<Lazy<Pod>>::all(&client);
    assert_eq!(list(&source, first_list()).await.unwrap().keys(), ["a/x"]);
    assert_eq!(requests.uris().len(), 2);
    let other = KubeListWatch::<Lazy<Pod>>::all(&client).namespace("b");
    assert_eq!(list(&other, first_list()).await.unwrap().items[0].object().encoding(), Encoding::Json);
    assert_eq!(requests.last_header("accept").as_deref(), Some("application/json"));
    list(&KubeListWatch::<Lazy<Secret>>::all(&client), first_list()).await.unwrap_err();
    assert!(
        requests.last_header("accept").unwrap().starts_with(PROTOBUF),
        "other kinds are still requested as protobuf"
    );
}

#[tokio::test(start_paused = true)]
async fn json_response_to_a_protobuf_request_is_read_and_remembered() {
    let (client, requests) = script([Reply::ok(pods(&["x"]).to_string()), Reply::ok("")]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let read = list(&source, first_list()).await.unwrap();
    assert_eq!((read.keys(), read.items[0].object().encoding()), (vec!["a/x"], Encoding::Json));
    watch(&source, watch_from("7")).await.1.unwrap();
    assert_eq!(requests.last_header("accept").as_deref(), Some("application/json"));
}

#[tokio::test(start_paused = true)]
async fn protobuf_status_of_an_error_response_is_decoded() {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
    let refused = Reply::status(410).header("content-type", PROTOBUF).data(wire(&status));
    let (client, _) = script([refused]);
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Expired);
    assert_eq!(error.to_string(), "list pods: the server responded with 410 Expired: too old");
}

fn paths(value: &Value, path: &str, out: &mut Vec<FieldPath>) {
    if let Value::Object(members) = value {
        for (name, member) in members {
            paths(member, &format!("{path}['{name}']"), out);
        }
    }
    out.extend(path.parse::<FieldPath>());
}

/// Asserts that an object decoded from protobuf has the same header, fields and annotations as the same
/// object decoded from JSON.
fn agree<O: Representation>(wire: &O, json: &O, value: &Value) {
    assert_eq!(wire.header(), json.header());
    let mut all = Vec::new();
    paths(value, "", &mut all);
    for path in all {
        let (ours, theirs) = (wire.field(&path), json.field(&path));
        // A JSON value inside a protobuf object keeps its numbers as they were written, and the JSON response
        // may format them differently. Only the field with 12.5 contains such a number.
        assert!(ours == theirs || path.as_str().contains("12.5"), "{path:?}: {ours:?} {theirs:?}");
    }
    for name in value["metadata"]["annotations"].as_object().into_iter().flatten().map(|(name, _)| name) {
        assert_eq!(wire.annotation(name), json.annotation(name));
    }
}

#[tokio::test(start_paused = true)]
async fn pod_is_equal_from_json_and_protobuf_in_every_representation() {
    let (value, list_of) = (pod("x"), pods(&["x"]));
    let bodies = || (list_of.to_string().into_bytes(), wire(&list_of));
    let (json, protobuf) = bodies();
    let [ours, theirs] = both(KubeListWatch::<Lazy<Pod>>::all, json, protobuf).await;
    let (ours, theirs) = (ours.items[0].object(), theirs.items[0].object());
    assert_eq!((ours.encoding(), theirs.encoding()), (Encoding::Protobuf, Encoding::Json));
    agree(&**ours, &**theirs, &value);
    assert_eq!(ours.get().unwrap(), theirs.get().unwrap());
    assert_eq!(ours.field(&"kind".parse().unwrap()).as_deref(), Some("Pod"));
    assert!(ours.raw().len() < theirs.raw().len());
    let (json, protobuf) = bodies();
    let [ours, theirs] = both(KubeListWatch::<Typed<Pod>>::all, json, protobuf).await;
    assert_eq!(ours.items[0].object().get().unwrap(), theirs.items[0].object().get().unwrap());
    assert_eq!(ours.items[0].object().metadata.managed_fields, None);
    let (json, protobuf) = bodies();
    let whole = |client| {
        KubeListWatch::<Lazy<Pod>>::all(client)
            .read_options(ReadOptions { pruning: Pruning::nothing(), ..ReadOptions::default() })
    };
    let [ours, theirs] = both(whole, json, protobuf).await;
    assert!(ours.items[0].object().get().unwrap().metadata.managed_fields.is_some());
    assert_eq!(ours.items[0].object().get().unwrap(), theirs.items[0].object().get().unwrap());
}

#[tokio::test(start_paused = true)]
async fn metadata_is_equal_from_json_and_protobuf() {
    let mut list_of = pods(&["x"]);
    list_of["kind"] = "PartialObjectMetadataList".into();
    list_of["apiVersion"] = "meta.k8s.io/v1".into();
    let (client, requests) = script([protobuf(wire(&list_of)), protobuf("")]);
    let source = KubeListWatch::<Metadata<Pod>>::all(client);
    let ours = list(&source, first_list()).await.unwrap();
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(requests.last_header("accept").as_deref(), Some(accept));
    let (client, _) = script([Reply::ok(list_of.to_string())]);
    let theirs = list(&KubeListWatch::<Metadata<Pod>>::all(client), first_list()).await.unwrap();
    let (ours, theirs) = (ours.items[0].object(), theirs.items[0].object());
    agree(&**ours, &**theirs, &pod("x"));
    assert_eq!(ours.annotations(), theirs.annotations());
    assert_eq!(ours.creation_timestamp(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(ours.finalizers().collect::<Vec<_>>(), ["keep"]);
    let pod = {
        let mut pod = pod("x");
        pod["kind"] = "PartialObjectMetadata".into();
        pod["apiVersion"] = "meta.k8s.io/v1".into();
        wire(&pod)
    };
    let (client, _) = script([protobuf(write_frame("ADDED", &pod))]);
    let (events, end) = watch(&KubeListWatch::<Metadata<Pod>>::all(client), watch_from("7")).await;
    end.unwrap();
    assert_eq!(events, ["Added(a/x @3)"]);
}

struct Sample {
    kind: Gvk,
    wire: Vec<u8>,
    json: String,
}

/// Returns recorded objects that a Go fuzzer filled with random values, each as JSON and as protobuf.
fn corpus() -> Vec<Sample> {
    use base64::Engine as _;
    let packed = include_bytes!("../../../informer-schema/tests/corpus/objects.jsonl.gz");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let sample = |line: &str| {
        let fields: Value = serde_json::from_str(line).unwrap();
        let name = fields["kind"].as_str().unwrap();
        let [group, version, kind] = name.split('/').collect::<Vec<_>>().try_into().unwrap();
        let wire = fields["wire"].as_str().unwrap();
        Sample {
            kind: Gvk::new(group, version, kind),
            wire: base64::engine::general_purpose::STANDARD.decode(wire).unwrap(),
            json: fields["json"].as_str().unwrap().to_owned(),
        }
    };
    text.lines().map(sample).collect()
}

/// A Rust type that keeps every field of an object.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(transparent)]
struct Anything(Value);

#[tokio::test(start_paused = true)]
async fn every_kind_is_equal_from_json_and_protobuf() {
    let mut seen = 0;
    for sample in corpus() {
        let Some(resource) = SCHEMA.kind(&sample.kind).unwrap().resource() else { continue };
        let plural = resource.plural();
        let kind = ResourceKind::new(&sample.kind.group, &sample.kind.version, &sample.kind.kind, plural);
        let value: Value = serde_json::from_str(&sample.json).unwrap();
        if value["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
            continue;
        }
        let json = format!(r#"{{"type":"ADDED","object":{}}}"#, sample.json);
        let source = |client| KubeListWatch::<Lazy<Anything>>::of(client, kind.clone());
        // Labels and owner references are shared with earlier equal ones from the second event on, so several
        // events are decoded.
        let from_wire = added(&source, protobuf(write_frame("ADDED", &sample.wire).repeat(3))).await;
        let from_json = added(&source, Reply::ok(json.repeat(3))).await;
        // A random name is not always a valid key. An object with an invalid key is undecodable in both
        // encodings.
        let (ours, theirs) = match (from_wire, from_json) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (ours, theirs) => {
                assert_eq!((ours.is_some(), theirs.is_some()), (false, false), "{kind}: {}", sample.json);
                continue;
            }
        };
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!((ours.encoding(), theirs.encoding()), (Encoding::Protobuf, Encoding::Json));
            agree(&**ours, &**theirs, &value);
            assert_eq!(ours.get().unwrap(), theirs.get().unwrap());
        }
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

async fn added(
    source: &impl Fn(informer_client::Client) -> KubeListWatch<Lazy<Anything>>,
    reply: Reply,
) -> Option<Vec<Arc<Lazy<Anything>>>> {
    use futures_util::StreamExt as _;
    use informer_cache::source::{WatchEvent, WatchSource as _};
    let (client, _) = script([reply]);
    let mut events = source(client).watch(watch_from("1")).await.unwrap();
    let mut found = Vec::new();
    while let Some(event) = events.next().await {
        match event.unwrap() {
            WatchEvent::Added(object) => found.push(object),
            WatchEvent::Undecodable(_) => return None,
            other => panic!("{other:?}"),
        }
    }
    Some(found)
}

#[cfg(feature = "packed")]
#[tokio::test(start_paused = true)]
async fn packed_objects_are_equal_from_json_and_protobuf_before_and_after_training() {
    use informer_client::Packed;
    let names: Vec<String> = (0..900).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let list_of = pods(&names);
    let whole = |client| KubeListWatch::<Packed<Pod>>::all(client);
    let [ours, theirs] = both(whole, list_of.to_string().into_bytes(), wire(&list_of)).await;
    let held = |read: &Read<Packed<Pod>>, at: usize| read.items[at].object().held_bytes();
    assert!(held(&ours, 899) < held(&ours, 0) && held(&theirs, 899) < held(&theirs, 0));
    for (ours, theirs) in ours.items.iter().zip(&theirs.items) {
        let (ours, theirs) = (ours.object(), theirs.object());
        assert_eq!((ours.encoding(), theirs.encoding()), (Encoding::Protobuf, Encoding::Json));
        agree(&**ours, &**theirs, &pod("x"));
        assert_eq!(ours.get().unwrap(), theirs.get().unwrap());
    }
}

#[cfg(feature = "packed")]
#[tokio::test(start_paused = true)]
async fn objects_of_later_responses_are_packed_with_the_trained_dictionary() {
    use informer_client::Packed;
    let names: Vec<String> = (0..900).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (client, _) = script([protobuf(wire(&pods(&names))), protobuf(wire(&pods(&["p900"])))]);
    let source = KubeListWatch::<Packed<Pod>>::all(client);
    let first = list(&source, first_list()).await.unwrap();
    let second = list(&source, first_list()).await.unwrap();
    let held = |read: &Read<Packed<Pod>>, at: usize| read.items[at].object().held_bytes();
    let (untrained, trained, later) = (held(&first, 0), held(&first, 899), held(&second, 0));
    assert!(later < untrained && later <= trained + 16, "{untrained}, {trained}, {later}");
}

struct Held(Arc<Lazy<Pod>>);

impl KnownObjects<Lazy<Pod>> for Held {
    fn get(&self, key: &str) -> Option<Arc<Lazy<Pod>>> {
        (self.0.key() == key).then(|| Arc::clone(&self.0))
    }

    fn keys(&self) -> Vec<ObjectKey> {
        vec![self.0.key().clone()]
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_object_is_reused_from_the_cache_if_the_encoding_differs() {
    let (client, _) = script([Reply::ok(pods(&["x"]).to_string())]);
    let first = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    let held = Arc::new(Held(Arc::clone(first.items[0].object())));
    let context = SourceContext::new(Some(held), UndecodableLog::default());
    let (client, _) = script([protobuf(wire(&pods(&["x", "y"])))]);
    let request = ListRequest { context, ..first_list() };
    let second = list(&KubeListWatch::<Lazy<Pod>>::all(client), request).await.unwrap();
    assert!(matches!(&second.items[0], Listed::Known(known) if Arc::ptr_eq(known, first.items[0].object())));
    assert!(matches!(&second.items[1], Listed::Fresh(_)));
}

#[tokio::test(start_paused = true)]
async fn protobuf_watch_is_read_at_any_frame_boundary() {
    let mut object = pod("x");
    (object["kind"], object["apiVersion"]) = ("Pod".into(), "v1".into());
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9",
        "annotations": {"k8s.io/initial-events-end": "true"}}, "spec": {"containers": []}});
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "reason": "Expired", "code": 410, "message": "too old"});
    let body = [
        write_frame("ADDED", &wire(&object)),
        write_frame("MODIFIED", &wire(&object)),
        write_frame("BOOKMARK", &wire(&bookmark)),
        write_frame("SOMETHING", &wire(&object)),
        write_frame("DELETED", &wire(&object)),
        write_frame("ERROR", &wire(&status)),
    ]
    .concat();
    let mut runs = Vec::new();
    for size in [1, 2, 3, 5, 64, body.len()] {
        let reply = body.chunks(size).fold(protobuf(""), |reply, frame| reply.data(frame.to_vec()));
        let (client, _) = script([reply]);
        let (events, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("7")).await;
        end.unwrap();
        runs.push(events);
    }
    assert_eq!(runs[0][0], "Added(a/x @3)");
    assert_eq!(runs[0][2], "Bookmark(@9, initial events end)");
    assert!(runs[0][5].contains("too old"), "{runs:?}");
    assert!(runs.iter().all(|events| *events == runs[0]), "{runs:?}");
    let (client, _) = script([protobuf(body[..body.len() - 1].to_vec())]);
    let (events, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("7")).await;
    assert_eq!((events.len(), end.unwrap_err().kind()), (5, SourceErrorKind::Connection));
}

#[tokio::test(start_paused = true)]
async fn undecodable_protobuf_objects_are_quarantined() {
    let good = |name: &str| {
        let whole = wire(
            &json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": "4"}}),
        );
        informer_schema::Envelope::parse(&whole).unwrap().raw.to_vec()
    };
    // The name and the resourceVersion of this message are valid; its uid is not UTF-8.
    let broken: &[u8] = b"\x0a\x0b\x0a\x01b\x32\x015\x2a\x03\xff\xff\xff";
    let items = [good("a"), broken.to_vec(), good(""), b"\xff\xff\xff".to_vec(), good("c")];
    let item = |message: &Vec<u8>| [&[0x12, message.len() as u8], &message[..]].concat();
    let body = items.iter().map(item).collect::<Vec<_>>().concat();
    let body = enclose("v1", "PodList", &[&[0x0a, 0x03, 0x12, 0x01, b'9'][..], &body].concat());
    let (client, _) = script([protobuf(body)]);
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert_eq!((read.keys(), read.end.version.to_string().as_str()), (vec!["a", "c"], "9"));
    let errors: Vec<String> = read.undecodable.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("b at version 5: "), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn protobuf_decode_error_names_the_field_and_hides_the_value() {
    // The node name in the `spec` of this message is not UTF-8.
    let message = [&b"\x0a\x09\x0a\x01s\x1a\x01a\x32\x017\x12\x05\x52\x03\xff"[..], b"\xff\xff"].concat();
    let list_of = [&[0x12, message.len() as u8], &message[..]].concat();
    let (client, _) = script([protobuf(enclose("v1", "PodList", &list_of))]);
    let log = UndecodableLog::default();
    let request = ListRequest { context: SourceContext::new(None, log.clone()), ..first_list() };
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), request).await.unwrap();
    let pod = read.items[0].object();
    assert_eq!(
        pod.get().unwrap_err().to_string(),
        "cannot read Pod a/s at version 7: field spec.nodeName: text is not UTF-8"
    );
    assert_eq!((pod.json().unwrap_err().field(), log.len()), ("spec.nodeName", 1));
    assert_eq!(pod.field(&"spec.nodeName".parse().unwrap()), None);

    let numbers = |message: &[u8]| protobuf(enclose("v1", "ConfigMapList", message));
    #[derive(Debug, serde::Deserialize)]
    struct Numbers {
        #[expect(dead_code, reason = "only its type matters")]
        data: std::collections::BTreeMap<String, u32>,
    }
    let (client, _) = script([numbers(b"\x12\x13\x0a\x03\x0a\x01s\x12\x0c\x0a\x01k\x12\x07hunter2")]);
    let kind = ResourceKind::of::<ConfigMap>();
    let read = list(&KubeListWatch::<Lazy<Numbers>>::of(client, kind), first_list()).await.unwrap();
    let error = read.items[0].object().get().unwrap_err().to_string();
    assert_eq!(error, "cannot read ConfigMap s at version : field data.k: invalid type, expected u32");
}

async fn failed(reply: Reply) -> (SourceErrorKind, String) {
    let limits = Limits { object_bytes: 1000, page_bytes: 5000, depth: 10 };
    let options = ReadOptions { limits, ..ReadOptions::default() };
    let (client, _) = script([reply]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).read_options(options);
    let error = list(&source, first_list()).await.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test(start_paused = true)]
async fn invalid_protobuf_list_is_an_error() {
    let (kind, error) =
        failed(protobuf(wire(&json!({"kind": "SecretList", "apiVersion": "v1", "items": []})))).await;
    assert_eq!(kind, SourceErrorKind::Protocol);
    assert_eq!(error, "list pods: expected a PodList, but it is SecretList of v1; check group and kind");
    let (kind, error) = failed(protobuf("{}")).await;
    assert_eq!(kind, SourceErrorKind::Protocol);
    assert!(error.contains("does not begin with the prefix of a protobuf object"), "{error}");
    let whole = wire(&pods(&["x"]));
    let (kind, error) = failed(protobuf(whole[..whole.len() - 9].to_vec())).await;
    assert_eq!(kind, SourceErrorKind::Connection, "{error}");
    let many: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (_, error) = failed(protobuf(wire(&pods(&many)))).await;
    assert_eq!(error, "list pods: the list is over the limit of 5000 bytes (Limits::page_bytes)");
    let (_, error) = failed(protobuf(wire(&pods(&[&"x".repeat(2000)])))).await;
    assert!(error.contains("too long"), "{error}");
    let promise = [&0x7fff_ffff_u32.to_be_bytes()[..], b"few"].concat();
    let (client, _) = script([protobuf(promise)]);
    let (_, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("7")).await;
    assert!(end.unwrap_err().to_string().contains("an event is over the limit"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn random_protobuf_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), chunk in 1..50_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        for body in [bytes.clone(), enclose("v1", "PodList", &bytes), write_frame("ADDED", &enclose("v1", "Pod", &bytes))] {
            let reply = || body.chunks(chunk).fold(protobuf(""), |reply, frame| reply.data(frame.to_vec()));
            runtime.block_on(async {
                let (client, _) = script([reply(), reply()]);
                let source = KubeListWatch::<Lazy<Pod>>::all(client);
                if let Ok(read) = list(&source, first_list()).await {
                    for item in &read.items {
                        let _ = (item.object().get(), item.object().json(), item.object().field(&"spec.nodeName".parse().unwrap()));
                    }
                }
                let _ = watch(&source, watch_from("1")).await;
            });
        }
    }
}
