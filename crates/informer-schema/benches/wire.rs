//! Compares the time to read a pod from protobuf with the time to read it from JSON.
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use informer_schema::{Envelope, Scan, Schema};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Returns a pod of a Deployment that has two containers with probes, environment and mounts, conditions, and
/// managed fields.
fn pod() -> Value {
    let fields = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| {
                (
                    format!("f:{name}"),
                    json!({".": {}, "f:value": {}, "k:{\"type\":\"Ready\"}": {"f:status": {}}}),
                )
            })
            .collect()
    };
    let container = |name: &str| {
        json!({
            "name": name,
            "image": format!("registry.example.com/team/{name}:1.27.3"),
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": (0..8).map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value-of-{at}")})).collect::<Vec<_>>(),
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "token", "readOnly": true, "mountPath": "/var/run/secrets"}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 5},
            "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"
        })
    };
    let status = |name: &str| {
        json!({"name": name, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}, "lastState": {}, "ready": true, "restartCount": 1,
            "image": format!("registry.example.com/team/{name}:1.27.3"), "imageID": "sha256:0123456789abcdef0123456789abcdef", "started": true})
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let managed = |manager: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": fields(&["labels", "annotations", "ownerReferences", "generateName"]), "f:spec": fields(&["containers", "volumes", "tolerations", "restartPolicy", "nodeName"])}})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-7d9f8b6c5-x2x4z", "generateName": "web-7d9f8b6c5-", "namespace": "production", "uid": "5f1e9a8e-0000-4000-8000-123456789abc",
            "resourceVersion": "123456789", "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web", "pod-template-hash": "7d9f8b6c5", "team": "payments"},
            "annotations": {"checksum/config": "0123456789abcdef", "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9f8b6c5", "uid": "u", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [managed("kube-controller-manager"), managed("kubelet")]},
        "spec": {"containers": [container("web"), container("proxy")], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}], "defaultMode": 420}}],
            "restartPolicy": "Always", "nodeName": "worker-17", "serviceAccountName": "web", "securityContext": {}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}], "priority": 0},
        "status": {"phase": "Running", "conditions": [condition("Ready"), condition("PodScheduled"), condition("Initialized"), condition("ContainersReady")],
            "hostIP": "10.0.0.17", "podIP": "10.1.2.3", "startTime": "2026-01-02T03:04:05Z", "containerStatuses": [status("web"), status("proxy")], "qosClass": "Burstable"}
    })
}

fn wire(c: &mut Criterion) {
    let schema = Schema::builtin();
    let json = pod().to_string().into_bytes();
    let wire = schema.to_protobuf(&json).unwrap();
    let raw = Envelope::parse(&wire).unwrap().raw;
    let kind = schema.kind_by_api_version("v1", "Pod").unwrap();
    let cut = Scan::of(raw).unwrap().without_managed_fields().unwrap().into_owned();
    let path = "spec.nodeName".parse().unwrap();
    println!(
        "a pod of {} bytes as JSON, {} as protobuf, {} without managed fields",
        json.len(),
        wire.len(),
        cut.len()
    );

    c.bench_function("parse the schema", |b| b.iter(|| Schema::with_extra_fields(&[])));
    c.bench_function("scan", |b| b.iter(|| Scan::of(black_box(raw)).unwrap()));
    c.bench_function("scan, header", |b| b.iter(|| Scan::of(black_box(raw)).unwrap().header().unwrap()));
    c.bench_function("scan, cut", |b| {
        b.iter(|| Scan::of(black_box(raw)).unwrap().without_managed_fields().unwrap())
    });
    c.bench_function("field path", |b| b.iter(|| kind.scalar(black_box(&cut), &path).unwrap()));
    c.bench_function("typed from the wire", |b| b.iter(|| schema.decode::<Pod>(black_box(&wire)).unwrap()));
    c.bench_function("typed from the wire, cut", |b| {
        b.iter(|| kind.decode_message::<Pod>(black_box(&cut)).unwrap())
    });
    c.bench_function("typed from JSON", |b| {
        b.iter(|| serde_json::from_slice::<Pod>(black_box(&json)).unwrap())
    });
    let json_cut = kind.message_to_json(&cut).unwrap();
    c.bench_function("typed from JSON, cut", |b| {
        b.iter(|| serde_json::from_slice::<Pod>(black_box(&json_cut)).unwrap())
    });
    c.bench_function("to JSON", |b| b.iter(|| schema.to_json(black_box(&wire)).unwrap()));
    c.bench_function("to protobuf", |b| b.iter(|| schema.to_protobuf(black_box(&json)).unwrap()));
}

criterion_group!(benches, wire);
criterion_main!(benches);
