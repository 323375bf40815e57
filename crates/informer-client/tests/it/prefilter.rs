//! Tests of the predicate on received bytes, which keeps objects from being decoded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use informer_cache::SharedInformer;
use informer_client::{
    DecodeError, KubeListWatch, Metadata, Prefilter, Pruning, RawObject, ReadOptions, ReceivedObject,
    Representation, ResourceKind, StreamingLists,
};
use informer_core::{FieldPath, Header, LabelSelector, Object};
use informer_schema::{Schema, write_frame};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::script::{Reply, first_list, list, script, watch, watch_from};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A representation that panics for objects without the label `keep`, because the prefilter must reject these
/// before they are decoded.
struct Kept(Header);

impl Object for Kept {
    fn header(&self) -> &Header {
        &self.0
    }
}

impl Representation for Kept {
    fn takes_protobuf() -> bool {
        true
    }

    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        assert!(raw.header().labels().get("keep").is_some(), "a rejected object is decoded");
        Ok(Self(raw.into_header()))
    }
}

fn pod(name: &str, version: &str, keep: bool) -> Value {
    let labels = if keep { json!({"app": "web", "keep": "yes"}) } else { json!({"app": "web"}) };
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "a", "uid": format!("uid-{name}"), "resourceVersion": version,
            "labels": labels, "annotations": {"example.com/role": "front"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"}],
        },
        "spec": {"nodeName": format!("node-{name}"), "hostNetwork": true, "containers": []},
    })
}

fn encoded(content_type: &str, object: &Value) -> Vec<u8> {
    match content_type {
        PROTOBUF => Schema::builtin().to_protobuf(object.to_string().as_bytes()).unwrap(),
        _ => object.to_string().into_bytes(),
    }
}

fn list_of(content_type: &str, items: &[Value]) -> Reply {
    let list =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items});
    Reply::status(200).header("content-type", content_type).data(encoded(content_type, &list))
}

fn event(content_type: &str, event_type: &str, object: &Value) -> Vec<u8> {
    match content_type {
        PROTOBUF => write_frame(event_type, &encoded(PROTOBUF, object)),
        _ => format!("{}\n", json!({"type": event_type, "object": object})).into_bytes(),
    }
}

fn events_of(content_type: &str, events: &[(&str, Value)]) -> Reply {
    let body = events.iter().flat_map(|(event_type, object)| event(content_type, event_type, object));
    Reply::status(200).header("content-type", content_type).data(Bytes::from_iter(body))
}

fn options(predicate: impl Fn(&ReceivedObject<'_>) -> bool + Send + Sync + 'static) -> ReadOptions {
    ReadOptions { prefilter: Some(Prefilter::new(predicate)), ..ReadOptions::default() }
}

fn kept_pods(replies: impl IntoIterator<Item = Reply>) -> KubeListWatch<Kept> {
    let keep = |pod: &ReceivedObject<'_>| pod.label("keep").is_some();
    KubeListWatch::of(script(replies).0, ResourceKind::of::<Pod>()).read_options(options(keep))
}

#[tokio::test(start_paused = true)]
async fn listed_objects_that_the_prefilter_rejects_are_not_decoded() {
    for content_type in ["application/json", PROTOBUF] {
        let items = [pod("one", "1", false), pod("two", "2", true), pod("three", "3", false)];
        let source = kept_pods([list_of(content_type, &items)]);
        let read = list(&source, first_list()).await.unwrap();
        assert_eq!(read.keys(), ["a/two"], "{content_type}");
        assert_eq!((read.rejected, read.undecodable.len()), (2, 0), "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_reports_key_and_version_of_rejected_objects() {
    for content_type in ["application/json", PROTOBUF] {
        let events = [
            ("ADDED", pod("new", "10", false)),
            ("MODIFIED", pod("one", "11", false)),
            ("MODIFIED", pod("two", "12", true)),
            ("DELETED", pod("one", "13", false)),
        ];
        let (seen, ended) = watch(&kept_pods([events_of(content_type, &events)]), watch_from("9")).await;
        ended.unwrap();
        let expected =
            ["Rejected(a/new @10)", "Rejected(a/one @11)", "Modified(a/two @12)", "Rejected(a/one @13)"];
        assert_eq!(seen, expected, "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn cached_object_that_fails_the_prefilter_is_deleted_and_added_when_it_passes_again() {
    let events = [
        ("MODIFIED", pod("one", "10", false)),
        ("ADDED", pod("new", "11", false)),
        ("MODIFIED", pod("one", "12", true)),
    ];
    let list = list_of(PROTOBUF, &[pod("one", "1", true), pod("two", "2", false)]);
    let source = kept_pods([list, events_of(PROTOBUF, &events).stall()]).streaming_lists(StreamingLists::Off);
    let informer = SharedInformer::new(source);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let record = move |event: informer_cache::Event<Kept>| log.lock().push(event.to_string());
    informer.add_handler(informer_cache::handler::on_event(record)).unwrap();
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let expected = ["added a/one @1 (initial)", "deleted a/one @1 (last known)", "added a/one @12"];
    assert_eq!(*seen.lock(), expected);
    assert_eq!(informer.last_sync_resource_version(), "12");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn initial_events_of_rejected_objects_are_not_part_of_a_streaming_list() {
    let bookmark = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}},
    });
    let events =
        [("ADDED", pod("one", "1", false)), ("ADDED", pod("two", "2", true)), ("BOOKMARK", bookmark)];
    let source = kept_pods([events_of(PROTOBUF, &events).stall()]).streaming_lists(StreamingLists::On);
    let informer = SharedInformer::new(source);
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    let keys: Vec<String> = informer.indexer().keys().iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["a/two"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn prefilter_reads_metadata_and_fields_in_both_encodings() {
    let node: FieldPath = "spec.nodeName".parse().unwrap();
    let network: FieldPath = "spec.hostNetwork".parse().unwrap();
    let list_field: FieldPath = "spec.containers".parse().unwrap();
    let kind: FieldPath = "kind".parse().unwrap();
    let selector: LabelSelector = "app in (web, api),keep".parse().unwrap();
    let predicate = move |pod: &ReceivedObject<'_>| {
        let owners = pod.owners();
        pod.kind().kind() == "Pod"
            && pod.field(&kind).as_deref() == Some("Pod")
            && !pod.is_metadata_only()
            && (pod.namespace(), pod.name()) == (Some("a"), "two")
            && pod.label("app").as_deref() == Some("web")
            && pod.label("none").is_none()
            && selector.matches(&pod.labels())
            && pod.annotation("example.com/role").as_deref() == Some("front")
            && owners.len() == 1
            && owners[0].kind() == "ReplicaSet"
            && pod.field(&node).as_deref() == Some("node-two")
            && pod.field(&network).as_deref() == Some("true")
            && pod.field(&list_field).is_none()
    };
    for content_type in ["application/json", PROTOBUF] {
        let (client, _) = script([list_of(content_type, &[pod("one", "1", true), pod("two", "2", true)])]);
        let mut options = options(predicate.clone());
        if content_type != PROTOBUF {
            // The prefilter also sees the fields that pruning removes. The client then requests JSON.
            options.pruning = Pruning::default().cut("spec.hostNetwork".parse().unwrap());
        }
        let source = KubeListWatch::<Kept>::of(client, ResourceKind::of::<Pod>()).read_options(options);
        let read = list(&source, first_list()).await.unwrap();
        assert_eq!((read.keys(), read.rejected), (vec!["a/two"], 1), "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_the_prefilter_cannot_read_is_quarantined() {
    let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
        {"metadata":{"name":"labels","resourceVersion":"1","labels":{"keep":5}}},
        {"metadata":{"name":"node","resourceVersion":"2","labels":{"keep":"y"}},"spec":{"nodeName":secret}},
        {"metadata":{"name":"good","resourceVersion":"3","labels":{"keep":"y"}},"spec":{"nodeName":"n"}}]}"#;
    let node: FieldPath = "spec.nodeName".parse().unwrap();
    let predicate = move |pod: &ReceivedObject<'_>| pod.label("keep").is_some() && pod.field(&node).is_some();
    let (client, _) = script([Reply::ok(body)]);
    let source =
        KubeListWatch::<Kept>::of(client, ResourceKind::of::<Pod>()).read_options(options(predicate));
    let read = list(&source, first_list()).await.unwrap();
    assert_eq!((read.keys(), read.rejected), (vec!["good"], 0));
    let problems: Vec<String> = read.undecodable.iter().map(ToString::to_string).collect();
    let of_label = "labels at version 1: metadata.labels: is not a string but a number";
    assert_eq!(problems[0], of_label);
    assert!(
        problems[1].starts_with("node at version 2: the prefilter cannot read spec.nodeName: "),
        "{problems:?}"
    );
    assert!(!problems[1].contains("secret"), "an error contains no value of the object");
}

#[tokio::test(start_paused = true)]
async fn predicate_on_another_field_of_a_metadata_only_object_quarantines_it() {
    let read = async |predicate: fn(&ReceivedObject<'_>, &FieldPath) -> bool| {
        let node: FieldPath = "spec.nodeName".parse().unwrap();
        let (client, _) = script([list_of("application/json", &[pod("one", "1", true)])]);
        let source = KubeListWatch::<Metadata<Pod>>::of(client, ResourceKind::of::<Pod>())
            .read_options(options(move |pod| predicate(pod, &node)));
        list(&source, first_list()).await.unwrap()
    };
    let quarantined = read(|pod, node| pod.field(node).is_some()).await;
    assert_eq!((quarantined.keys(), quarantined.rejected), (vec![], 0));
    let problem = quarantined.undecodable[0].to_string();
    assert!(problem.contains("spec.nodeName, but only metadata was requested"), "{problem}");
    let accepted = read(|pod, node| pod.is_metadata_only() || pod.field(node).is_some()).await;
    assert_eq!(accepted.keys(), ["a/one"]);
    let labels: fn(&ReceivedObject<'_>, &FieldPath) -> bool =
        |pod, _| pod.field(&"metadata.uid".parse().unwrap()).as_deref() == Some("uid-one");
    assert_eq!(read(labels).await.keys(), ["a/one"]);
}

#[tokio::test(start_paused = true)]
async fn object_for_which_the_prefilter_panics_is_quarantined() {
    for content_type in ["application/json", PROTOBUF] {
        let predicate = |pod: &ReceivedObject<'_>| {
            assert!(pod.name() != "one", "on purpose");
            true
        };
        let (client, _) = script([list_of(content_type, &[pod("one", "1", true), pod("two", "2", true)])]);
        let source =
            KubeListWatch::<Kept>::of(client, ResourceKind::of::<Pod>()).read_options(options(predicate));
        let read = list(&source, first_list()).await.unwrap();
        assert_eq!(read.keys(), ["a/two"], "{content_type}");
        let problem = "a/one at version 1: the prefilter panicked; it must not panic for any object";
        assert_eq!(read.undecodable[0].to_string(), problem, "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn get_of_a_single_object_is_not_filtered() {
    let (client, _) = script([Reply::ok(pod("one", "1", true).to_string())]);
    let source =
        KubeListWatch::<Kept>::of(client, ResourceKind::of::<Pod>()).read_options(options(|_| false));
    assert!(source.get(&"a/one".parse().unwrap()).await.unwrap().is_some());
}
