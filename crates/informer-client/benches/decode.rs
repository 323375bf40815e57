//! Benchmarks of decoding: a list of pods of 5.9 KB from network frames to objects, the same list with all
//! objects cached (only splitter and header scan), the same list with a filter, and single objects.
//!
//! Run with `cargo bench -p informer-client`. Lists are measured in CPU time of the thread (Linux only),
//! which other load on the machine does not distort. Throughput is in bytes of the JSON list.

#[path = "../tests/canned/source.rs"]
mod canned;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use informer_cache::UndecodableLog;
use informer_cache::source::{FilteredSource, KnownObjects, Listed, SourceContext};
use informer_client::{
    KubeListWatch, Lazy, Metadata, Packed, Prefilter, ReadOptions, Representation, ResourceKind, Typed,
};
use informer_core::{FieldPath, Object, ObjectKey};
use informer_schema::Schema;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use canned::{JSON, PROTOBUF};

const PODS: usize = 10_000;

/// Measures the CPU time of the current thread. The Linux kernel updates this time every few milliseconds,
/// which is too coarse to measure the decoding of a single object, so only the benchmarks of lists use this
/// type.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")
            .expect("Linux reports the CPU time of a thread");
        let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(nanos.expect("the first number is nanoseconds on a processor"))
    }

    fn end(&self, start: Duration) -> Duration {
        self.start().saturating_sub(start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn pod(index: usize) -> Value {
    let hash = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let name = format!("web-{:08x}-{index:06}", hash as u32);
    let env: Vec<Value> = (0..8)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("value-{:016x}", hash.rotate_left(i))}))
        .collect();
    let conditions: Vec<Value> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .collect();
    let fields: Value = ["app", "tier", "version", "zone", "owner", "team"]
        .iter()
        .map(|key| (format!("f:{key}"), json!({})))
        .chain(
            (0..45).map(|i| (format!("k:{{\"type\":\"Condition{i}\"}}"), json!({".": {}, "f:status": {}}))),
        )
        .collect::<serde_json::Map<String, Value>>()
        .into();
    let managed = |manager: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": fields}}})
    };
    let container = |i: usize| {
        json!({"name": format!("c{i}"), "image": format!("registry.example.com/team/web:{}", hash % 100),
            "env": env, "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
            "volumeMounts": [{"mountPath": "/etc/config", "name": "config"}, {"mountPath": "/data", "name": "data"}]})
    };
    json!({
        "metadata": {
            "name": name, "generateName": "web-", "namespace": format!("team-{:02}", index % 80),
            "uid": format!("{:08x}-0000-4000-8000-{index:012}", hash as u32),
            "resourceVersion": (1000 + index).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "tier": "front", "version": "v1", "zone": "a", "pod-template-hash": "abcdef"},
            "annotations": {"checksum/config": format!("{hash:064x}"), "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abcdef",
                "uid": "0", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [managed("kube-controller-manager")],
        },
        "spec": {"nodeName": format!("node-{:03}", index % 500), "restartPolicy": "Always",
            "containers": [container(0), container(1)],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}, {"name": "data", "emptyDir": {}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1", "conditions": conditions,
            "containerStatuses": [{"name": "c0", "ready": true, "restartCount": 0, "image": "web",
                "imageID": format!("sha256:{hash:064x}"), "containerID": format!("containerd://{hash:064x}"),
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]},
    })
}

fn list_text() -> String {
    let items: Vec<String> = (0..PODS).map(|index| pod(index).to_string()).collect();
    let head = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":["#;
    format!("{head}{}]}}\n", items.join(","))
}

async fn ingest<O: Representation>(source: &KubeListWatch<O>) -> Vec<Listed<O>> {
    let kept = canned::list(source, SourceContext::default()).await;
    assert_eq!(kept.len(), PODS);
    kept
}

/// Measures filters and prefilters next to the header scan and the ingest without a filter. One of each keeps
/// no object by its labels, and one keeps no object by a field of its body.
fn filters(criterion: &mut Criterion<CpuTime>) {
    let text = list_text();
    let wire = Schema::builtin().to_protobuf(text.as_bytes()).expect("a list of pods");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = criterion.benchmark_group("filter of 10,000 pods");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(20);
    let path: FieldPath = "spec.nodeName".parse().expect("a path");
    for (name, client) in
        [("JSON", canned::client(JSON, text.as_bytes())), ("protobuf", canned::client(PROTOBUF, &wire))]
    {
        let source = || KubeListWatch::<Lazy<Pod>>::all(&client);
        group.bench_function(format!("no filter, {name}"), |bencher| {
            bencher.iter(|| black_box(runtime.block_on(ingest(&source()))))
        });
        let by_label = FilteredSource::new(source(), |pod| pod.labels().get("app") == Some("other"));
        let prefiltered = |prefilter: Prefilter| {
            source().read_options(ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() })
        };
        let early_by_label = prefiltered(Prefilter::new(|pod| pod.label("app").as_deref() == Some("other")));
        let early_path = path.clone();
        let early_by_field =
            prefiltered(Prefilter::new(move |pod| pod.field(&early_path).as_deref() == Some("other")));
        for (of, source) in [("label", early_by_label), ("field", early_by_field)] {
            group.bench_function(format!("prefilter by {of}, {name}"), |bencher| {
                bencher.iter(|| {
                    let kept = runtime.block_on(canned::list(&source, SourceContext::default()));
                    assert!(kept.is_empty());
                })
            });
        }
        let path = path.clone();
        let by_field = FilteredSource::new(source(), move |pod| pod.field(&path).as_deref() == Some("other"));
        for (of, source) in [("label", by_label), ("field", by_field)] {
            group.bench_function(format!("by {of}, {name}"), |bencher| {
                bencher.iter(|| {
                    let kept = runtime.block_on(canned::list(&source, SourceContext::default()));
                    assert!(kept.is_empty());
                })
            });
        }
    }
    group.finish();
}

struct Held(HashMap<String, Arc<Lazy<Pod>>>);

impl KnownObjects<Lazy<Pod>> for Held {
    fn get(&self, key: &str) -> Option<Arc<Lazy<Pod>>> {
        self.0.get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.0.values().map(|pod| pod.key().clone()).collect()
    }
}

fn relists(criterion: &mut Criterion<CpuTime>) {
    let text = list_text();
    let wire = Schema::builtin().to_protobuf(text.as_bytes()).expect("a list of pods");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = criterion.benchmark_group("splitter and header scan of 10,000 pods");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(20);
    for (name, client) in
        [("JSON", canned::client(JSON, text.as_bytes())), ("protobuf", canned::client(PROTOBUF, &wire))]
    {
        let source = KubeListWatch::<Lazy<Pod>>::all(&client);
        let held = runtime.block_on(ingest(&source));
        let held = held.iter().map(|pod| (pod.object().key().to_string(), Arc::clone(pod.object())));
        let held: Arc<dyn KnownObjects<Lazy<Pod>>> = Arc::new(Held(held.collect()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let context = SourceContext::new(Some(Arc::clone(&held)), UndecodableLog::default());
                let again = runtime.block_on(canned::list(&source, context));
                assert!(matches!(again[0], Listed::Known(_)));
                black_box(again)
            });
        });
    }
    group.finish();
}

fn lists(criterion: &mut Criterion<CpuTime>) {
    let text = list_text();
    let wire = Schema::builtin().to_protobuf(text.as_bytes()).expect("a list of pods");
    let bytes = text.len();
    eprintln!("{PODS} pods of {} bytes, {} as protobuf", bytes / PODS, wire.len() / PODS);
    let (wire_client, client) = (canned::client(PROTOBUF, &wire), canned::client(JSON, text.as_bytes()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut group = criterion.benchmark_group("list of 10,000 pods");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(20);
    let lazy = KubeListWatch::<Lazy<Pod>>::all(&client);
    group.bench_function("lazy", |bencher| bencher.iter(|| black_box(runtime.block_on(ingest(&lazy)))));
    let metadata = KubeListWatch::<Metadata<Pod>>::all(&client);
    group.bench_function("metadata", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(ingest(&metadata))))
    });
    let lazy_wire = KubeListWatch::<Lazy<Pod>>::all(&wire_client);
    group.bench_function("lazy, protobuf", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(ingest(&lazy_wire))))
    });
    let packed = KubeListWatch::<Packed<Pod>>::all(&client);
    let packed_wire = KubeListWatch::<Packed<Pod>>::all(&wire_client);
    for (name, of) in [("packed", packed), ("packed, protobuf", packed_wire)] {
        let held: usize = runtime.block_on(ingest(&of)).iter().map(|pod| pod.object().held_bytes()).sum();
        eprintln!("{name}: {} bytes in memory per object", held / PODS);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(runtime.block_on(ingest(&of)))));
    }
    for (name, of) in [("lazy", &lazy), ("lazy, protobuf", &lazy_wire)] {
        let held: usize = runtime.block_on(ingest(of)).iter().map(|pod| pod.object().held_bytes()).sum();
        eprintln!("{name}: {} bytes in memory per object", held / PODS);
    }
    let typed_wire = KubeListWatch::<Typed<Pod>>::all(&wire_client);
    let typed = KubeListWatch::<Typed<Pod>>::all(&client);
    group.sample_size(10);
    group.bench_function("typed, protobuf", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(ingest(&typed_wire))))
    });
    group.bench_function("typed", |bencher| bencher.iter(|| black_box(runtime.block_on(ingest(&typed)))));
    group.finish();
}

fn listed<O: Representation>(content_type: &'static str, wire: bool) -> Arc<O> {
    let text = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{}]}}"#, pod(7));
    let body = if wire {
        Schema::builtin().to_protobuf(text.as_bytes()).expect("a list of pods")
    } else {
        text.into_bytes()
    };
    let source = KubeListWatch::<O>::of(canned::client(content_type, &body), ResourceKind::of::<Pod>());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let items = runtime.block_on(canned::list(&source, SourceContext::default()));
    items[0].object().clone()
}

fn reads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read of a cached pod");
    let path = "spec.nodeName".parse().expect("a path");
    for (name, content_type, wire) in [("JSON", JSON, false), ("protobuf", PROTOBUF, true)] {
        let lazy = listed::<Lazy<Pod>>(content_type, wire);
        group.bench_function(format!("lazy, {name}, cold"), |bencher| bencher.iter(|| lazy.get()));
        group.bench_function(format!("lazy, {name}, field"), |bencher| {
            bencher.iter(|| lazy.field(black_box(&path)).map(std::borrow::Cow::into_owned))
        });
        let _held = lazy.get().expect("a pod");
        group.bench_function(format!("lazy, {name}, hot"), |bencher| bencher.iter(|| lazy.get()));
        let packed = listed::<Packed<Pod>>(content_type, wire);
        group.bench_function(format!("packed, {name}, cold"), |bencher| bencher.iter(|| packed.get()));
    }
    group.finish();
}

fn objects(criterion: &mut Criterion) {
    let text = pod(7).to_string();
    let mut group = criterion.benchmark_group("one pod");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("lazy from json", |bencher| {
        bencher.iter(|| Lazy::<Pod>::from_json(black_box(&text)))
    });
    let pod = Lazy::<Pod>::from_json(&text).expect("a pod");
    group.bench_function("get, cold", |bencher| bencher.iter(|| pod.get()));
    let held = pod.get().expect("a pod");
    group.bench_function("get, hot", |bencher| bencher.iter(|| pod.get()));
    drop(held);
    let path = "spec.nodeName".parse().expect("a path");
    group.bench_function("field", |bencher| {
        bencher.iter(|| informer_core::Object::field(&pod, black_box(&path)))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = lists, relists, filters
}
criterion_group!(small, objects, reads);
criterion_main!(benches, small);
