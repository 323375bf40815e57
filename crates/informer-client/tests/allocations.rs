//! Tests that limit the number of memory allocations on hot paths. Unlike time, the number does not depend on
//! the machine. Each test runs on a separate thread, and all code whose allocations are counted runs on that
//! thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "canned/source.rs"]
mod canned;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use allocation_counter::measure;
use futures_util::StreamExt as _;
use informer_cache::UndecodableLog;
use informer_cache::source::{KnownObjects, Listed, SourceContext, WatchEvent, WatchRequest, WatchSource};
use informer_client::{KubeListWatch, Lazy, Metadata, Prefilter, ReadOptions, Representation, ResourceKind};
use informer_core::{FieldPath, Object, ObjectKey};
use informer_schema::{Schema, write_frame};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use canned::{JSON, PROTOBUF, list};

const PODS: usize = 2_000;

/// Parsing allocates, so the schema is parsed before allocations are counted.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fn pod(number: usize) -> Value {
    let env: Vec<Value> = (0..20)
        .map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value-{number}-{at}")}))
        .collect();
    json!({"metadata": {"name": format!("web-{number:06}"), "namespace": "team-a", "uid": format!("uid-{number:020}"),
            "resourceVersion": (1000 + number).to_string(), "labels": {"app": "web", "tier": "front", "zone": "a"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "env": env, "resources": {}}]}, "status": {"phase": "Running"}})
}

fn list_of(content_type: &str, count: usize) -> Vec<u8> {
    let items: Vec<Value> = (0..count).map(pod).collect();
    let list =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": items});
    written(content_type, &list)
}

fn written(content_type: &str, object: &Value) -> Vec<u8> {
    match content_type {
        PROTOBUF => SCHEMA.to_protobuf(object.to_string().as_bytes()).unwrap(),
        _ => object.to_string().into_bytes(),
    }
}

fn source<O: Representation>(content_type: &'static str, body: &[u8]) -> KubeListWatch<O> {
    KubeListWatch::of(canned::client(content_type, body), ResourceKind::of::<Pod>())
}

struct Held<O>(HashMap<String, Arc<O>>);

impl<O: Object> KnownObjects<O> for Held<O> {
    fn get(&self, key: &str) -> Option<Arc<O>> {
        self.0.get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.0.values().map(|object| object.key().clone()).collect()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Lists the same objects without a cache, and then with a cache that contains all of them. Returns the
/// number of allocations and of retained bytes per object without the cache, and of allocations per object
/// with it.
fn costs<O: Representation>(content_type: &'static str) -> (f64, f64, f64) {
    let source = source::<O>(content_type, &list_of(content_type, PODS));
    block_on(list(&source, SourceContext::default()));
    let mut first = Vec::new();
    let fresh = measure(|| first = block_on(list(&source, SourceContext::default())));
    assert_eq!(first.len(), PODS);
    let held = first.iter().map(|item| (item.object().key().to_string(), Arc::clone(item.object())));
    let held: Arc<dyn KnownObjects<O>> = Arc::new(Held(held.collect()));
    let again = measure(|| {
        let context = SourceContext::new(Some(Arc::clone(&held)), UndecodableLog::default());
        let second = block_on(list(&source, context));
        assert!(second.iter().all(|item| matches!(item, Listed::Known(_))));
    });
    let each = |count: u64| count as f64 / PODS as f64;
    (each(fresh.count_total), fresh.bytes_current as f64 / PODS as f64, each(again.count_total))
}

#[test]
fn relist_of_cached_objects_does_not_allocate_per_object() {
    for (name, (fresh, bytes, again)) in [
        ("lazy, JSON", costs::<Lazy<Pod>>(JSON)),
        ("lazy, protobuf", costs::<Lazy<Pod>>(PROTOBUF)),
        ("metadata", costs::<Metadata<Pod>>(JSON)),
    ] {
        println!(
            "{name}: {fresh} allocations and {bytes} bytes per new object, {again} allocations per cached object"
        );
        // If all objects are cached, only frames, batches and requests are allocated: one allocation for some
        // dozen objects.
        assert!(again < 0.2, "{name}: {again} allocations per cached object");
        assert!(fresh < 16.0, "{name}: {fresh} allocations per new object");
    }
}

#[test]
fn cached_object_takes_little_more_than_its_wire_size() {
    for (content_type, object) in [(JSON, pod(7).to_string().into_bytes()), (PROTOBUF, Vec::new())] {
        let (_, bytes, _) = costs::<Lazy<Pod>>(content_type);
        let wire = if object.is_empty() { list_of(PROTOBUF, 200).len() / 200 } else { object.len() };
        // In addition to its JSON or protobuf bytes, an object takes some hundred bytes for its header,
        // reference counts and the slot for the typed view. Managed fields are removed.
        assert!(bytes < wire as f64 + 500.0, "{content_type}: {bytes} bytes in memory, {wire} on the wire");
    }
}

#[test]
fn reads_of_decoded_data_do_not_allocate() {
    for content_type in [JSON, PROTOBUF] {
        let source = source::<Lazy<Pod>>(content_type, &list_of(content_type, 1));
        let pods = block_on(list(&source, SourceContext::default()));
        let pod = pods[0].object();
        let view = pod.get().unwrap();
        let hot = measure(|| assert!(Arc::ptr_eq(&pod.get().unwrap(), &view)));
        assert_eq!(hot.count_total, 0, "{content_type}: a view that is in use");
        let header = measure(|| {
            assert!(pod.labels().get("app") == Some("web") && pod.key() == "team-a/web-000000");
            assert!(pod.controller().is_some() && pod.resource_version() == "1000");
        });
        assert_eq!(header.count_total, 0, "{content_type}: header fields");
        let path = "spec.nodeName".parse().unwrap();
        let field = measure(|| assert_eq!(pod.field(&path).as_deref(), Some("n1")));
        assert_eq!(field.count_total, 0, "{content_type}: a field that is read from the bytes");
    }
}

#[test]
fn view_in_the_view_cache_is_read_without_allocation() {
    for content_type in [JSON, PROTOBUF] {
        let keeping = ReadOptions { view_bytes: 1 << 20, ..ReadOptions::default() };
        let source = source::<Lazy<Pod>>(content_type, &list_of(content_type, 1)).read_options(keeping);
        let pods = block_on(list(&source, SourceContext::default()));
        let pod = pods[0].object();
        drop(pod.get().unwrap());
        let again = measure(|| drop(pod.get().unwrap()));
        assert_eq!(again.count_total, 0, "{content_type}");
    }
}

#[test]
fn decoding_protobuf_allocates_no_more_than_decoding_json() {
    let decode = |content_type: &'static str| {
        let source = source::<Lazy<Pod>>(content_type, &list_of(content_type, 1));
        let pods = block_on(list(&source, SourceContext::default()));
        measure(|| drop(pods[0].object().get().unwrap())).count_total
    };
    let (json, protobuf) = (decode(JSON), decode(PROTOBUF));
    println!("{json} allocations of a view from JSON, {protobuf} from protobuf");
    assert!(protobuf <= json, "{protobuf} from protobuf, {json} from JSON");
}

#[test]
fn prefilter_rejects_an_object_before_its_body_is_copied() {
    let node: FieldPath = "spec.nodeName".parse().unwrap();
    for content_type in [JSON, PROTOBUF] {
        let node = node.clone();
        let prefilter = Prefilter::new(move |pod| {
            pod.label("app").as_deref() != Some("web") || pod.field(&node).as_deref() != Some("n1")
        });
        let options = ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() };
        let body = list_of(content_type, PODS);
        let source = source::<Lazy<Pod>>(content_type, &body).read_options(options);
        block_on(list(&source, SourceContext::default()));
        let rejected = measure(|| assert!(block_on(list(&source, SourceContext::default())).is_empty()));
        let each = rejected.count_total as f64 / PODS as f64;
        let bytes = rejected.bytes_total as f64 / PODS as f64;
        println!("{content_type}: {each} allocations and {bytes} bytes per rejected object");
        // The key is allocated, as a watch reports it. An object that spans two frames is copied once by the
        // splitter.
        assert!(each < 3.0, "{content_type}: {each} allocations per rejected object");
        assert!(bytes < body.len() as f64 / PODS as f64 / 4.0, "{content_type}: {bytes} bytes");
    }
}

#[test]
fn watch_event_allocates_only_its_object() {
    for content_type in [JSON, PROTOBUF] {
        let events: Vec<Vec<u8>> = (0..PODS)
            .map(|number| {
                let mut object = pod(number);
                (object["kind"], object["apiVersion"]) = ("Pod".into(), "v1".into());
                match content_type {
                    PROTOBUF => write_frame("MODIFIED", &written(PROTOBUF, &object)),
                    _ => format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n").into_bytes(),
                }
            })
            .collect();
        let source = source::<Lazy<Pod>>(content_type, &events.concat());
        let watch = || async {
            let request = WatchRequest {
                version: "1".into(),
                bookmarks: true,
                send_initial_events: false,
                timeout: std::time::Duration::from_secs(300),
                context: SourceContext::default(),
            };
            let (mut events, mut seen) = (source.watch(request).await.unwrap(), 0);
            while let Some(event) = events.next().await {
                assert!(matches!(event.unwrap(), WatchEvent::Modified(_)));
                seen += 1;
            }
            assert_eq!(seen, PODS);
        };
        block_on(watch());
        let each = measure(|| block_on(watch())).count_total as f64 / PODS as f64;
        println!("{content_type}: {each} allocations per event");
        assert!(each < 17.0, "{content_type}: {each} allocations per event");
    }
}
