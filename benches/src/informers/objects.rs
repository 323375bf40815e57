//! Generates realistic objects from a seed: workloads with their pods, random names and ids, values that
//! compress as badly as real ones, and managed fields that make up a quarter of the size.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::arguments::Kind;

pub(super) const GROUP: &str = "bench.informer.dev";
pub(super) const NAMESPACES: usize = 80;
/// The number of objects per workload. The objects of a workload have the same template, so they are similar.
const A_WORKLOAD: usize = 25;
/// The length of the data of a small Secret as base64, which encodes 4 KB.
const SMALL_SECRET: usize = 4096 / 3 * 4;
const WORDS: [&str; 24] = [
    "api", "web", "cache", "queue", "worker", "auth", "billing", "search", "index", "mail", "report",
    "ingest", "edge", "proxy", "store", "session", "catalog", "order", "stock", "price", "user", "audit",
    "trace", "metric",
];

/// Returns object `n`. Workloads are spread evenly over the namespaces, one after the other.
pub(super) fn object(kind: Kind, seed: u64, n: usize) -> Value {
    let mut workload = StdRng::seed_from_u64(seed ^ (n / A_WORKLOAD) as u64);
    let mut own = StdRng::seed_from_u64(!seed ^ n as u64);
    let name = workload_name(&mut workload);
    match kind {
        Kind::Pod | Kind::Crd => pod(n, &name, &mut workload, &mut own),
        Kind::Configmap => {
            json!({"metadata": metadata(n, &name, &mut workload, &mut own), "data": settings(&mut own, 1, 38)})
        }
        Kind::Secret => {
            let length = own.random_range(700..28_000);
            json!({"metadata": metadata(n, &name, &mut workload, &mut own), "type": "Opaque", "data": {"value": base64(&mut own, length)}})
        }
        Kind::SmallSecret => json!({
            "metadata": {
                "name": name_of(n), "namespace": namespace_of(kind, n),
                "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "bench"},
                "managedFields": [managed("kube-controller-manager", "", &mut own)],
            },
            "type": "Opaque", "data": {"value": base64(&mut own, SMALL_SECRET)},
        }),
        Kind::Node => node(n, &mut workload, &mut own),
    }
}

/// Returns object `n` with only a name, a namespace and labels, so that a million objects fit in memory.
pub(super) fn bare(kind: Kind, seed: u64, n: usize) -> Value {
    let mut own = StdRng::seed_from_u64(!seed ^ n as u64);
    let mut metadata = match kind {
        Kind::Node => json!({"name": name_of(n)}),
        _ => json!({"name": name_of(n), "namespace": namespace_of(kind, n)}),
    };
    metadata["labels"] = json!({"app": word(&mut own), "bench-sent": "none"});
    json!({"metadata": metadata})
}

pub(super) fn key(kind: Kind, n: usize) -> String {
    let (namespace, name) = (namespace_of(kind, n), name_of(n));
    if namespace.is_empty() { name } else { format!("{namespace}/{name}") }
}

/// Returns the namespace of an object; empty if its kind is cluster-scoped.
pub(super) fn namespace_of(kind: Kind, n: usize) -> String {
    match kind {
        Kind::Node => String::new(),
        // All objects of a workload are in one namespace.
        _ => format!("team-{:02}", n / A_WORKLOAD % NAMESPACES),
    }
}

pub(super) fn name_of(n: usize) -> String {
    format!("object-{n:07}")
}

fn workload_name(rng: &mut StdRng) -> String {
    format!("{}-{}", word(rng), word(rng))
}

fn word(rng: &mut StdRng) -> &'static str {
    WORDS[rng.random_range(0..WORDS.len())]
}

fn hex(rng: &mut StdRng, digits: usize) -> String {
    (0..digits).map(|_| char::from_digit(rng.random_range(0..16), 16).unwrap_or('0')).collect()
}

fn base64(rng: &mut StdRng, length: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..length / 4 * 4).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
}

/// Returns the metadata of object `n`. The values generated from `workload` are the same in each object of
/// the workload; those generated from `own` differ.
fn metadata(n: usize, name: &str, workload: &mut StdRng, own: &mut StdRng) -> Value {
    let hash = hex(workload, 10);
    json!({
        "name": name_of(n), "namespace": namespace_of(Kind::Pod, n), "generation": 1,
        "labels": {
            "app": name, "app.kubernetes.io/name": name, "pod-template-hash": hash,
            "topology.kubernetes.io/zone": format!("zone-{}", own.random_range(0..3)), "bench-sent": "none",
        },
        "annotations": {
            "kubectl.kubernetes.io/restartedAt": "2026-10-01T08:15:00Z", "checksum/config": hex(workload, 64),
            "prometheus.io/scrape": "true", "prometheus.io/port": workload.random_range(8000..9999).to_string(),
        },
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-{hash}"),
            "uid": uid(workload),
            "controller": true, "blockOwnerDeletion": true,
        }],
        "managedFields": [managed("kube-controller-manager", "", own), managed("kubelet", "status", own)],
    })
}

fn uid(rng: &mut StdRng) -> String {
    format!("{}-{}-4{}-a{}-{}", hex(rng, 8), hex(rng, 4), hex(rng, 3), hex(rng, 3), hex(rng, 12))
}

fn managed(manager: &str, subresource: &str, own: &mut StdRng) -> Value {
    let fields: Map<String, Value> = (0..own.random_range(4..9))
        .map(|n| {
            let field = format!("f:{}{n}", word(own));
            (field, json!({".": {}, "f:name": {}, "f:value": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}))
        })
        .collect();
    json!({
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-10-01T08:15:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": fields}, "subresource": subresource,
    })
}

fn settings(rng: &mut StdRng, least: usize, most: usize) -> Map<String, Value> {
    let kilobytes = rng.random_range(least..=most);
    (0..kilobytes)
        .map(|n| {
            let lines: Vec<_> = (0..16)
                .map(|_| {
                    format!(
                        "{}.{} = {} # {}",
                        word(rng),
                        word(rng),
                        rng.random_range(0..1_000_000),
                        hex(rng, 24)
                    )
                })
                .collect();
            (format!("{}-{n}.properties", word(rng)), Value::from(lines.join("\n")))
        })
        .collect()
}

fn container(at: usize, workload: &mut StdRng, own: &mut StdRng) -> Value {
    let variables: Vec<_> = (0..workload.random_range(2..5))
        .map(|n| match n % 3 {
            0 => json!({"name": format!("{}_{n}", word(workload).to_uppercase()), "value": hex(workload, 16)}),
            1 => json!({"name": format!("HOST_{n}"), "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIP"}}}),
            _ => json!({"name": format!("KEY_{n}"), "valueFrom": {"secretKeyRef": {"name": word(workload), "key": "token"}}}),
        })
        .collect();
    json!({
        "name": format!("{}-{at}", word(workload)),
        "image": format!("registry.example.com/{}/{}@sha256:{}", word(workload), word(workload), hex(workload, 64)),
        "args": ["--port=8080", format!("--shard={}", own.random_range(0..64)), "--verbose"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": variables,
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "token", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5, "failureThreshold": 3},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
    })
}

fn pod(n: usize, name: &str, workload: &mut StdRng, own: &mut StdRng) -> Value {
    // Most pods have one or two containers, and a few have many. Pods have 4 to 40 KB, 5.9 KB on average.
    let count = match workload.random_range(0..100) {
        0..78 => 1,
        78..98 => 2,
        98 => 8,
        _ => 24,
    };
    let containers: Vec<_> = (0..count).map(|at| container(at, workload, own)).collect();
    let statuses: Vec<_> = containers
        .iter()
        .map(|container| json!({
            "name": container["name"], "image": container["image"], "imageID": container["image"], "ready": true,
            "restartCount": own.random_range(0..4), "started": true, "state": {"running": {"startedAt": "2026-10-01T08:15:07Z"}},
            "containerID": format!("containerd://{}", hex(own, 64)), "lastState": {},
        }))
        .collect();
    let conditions: Vec<_> = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-10-01T08:15:08Z"}))
        .collect();
    let address =
        format!("10.{}.{}.{}", own.random_range(0..256), own.random_range(0..256), own.random_range(1..255));
    json!({
        "metadata": metadata(n, name, workload, own),
        "spec": {
            "containers": containers, "nodeName": format!("node-{:04}", own.random_range(0..1000)), "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst", "serviceAccountName": name, "serviceAccount": name, "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {}, "priority": 0, "enableServiceLinks": true,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [
                {"name": "config", "configMap": {"name": name, "defaultMode": 420}},
                {"name": "token", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
        },
        "status": {
            "phase": "Running", "conditions": conditions, "containerStatuses": statuses, "hostIP": address, "podIP": address,
            "podIPs": [{"ip": address}], "qosClass": "Burstable", "startTime": "2026-10-01T08:15:00Z",
        },
    })
}

fn node(n: usize, workload: &mut StdRng, own: &mut StdRng) -> Value {
    let images: Vec<_> = (0..own.random_range(10..50))
        .map(|_| json!({
            "names": [format!("registry.example.com/{}/{}@sha256:{}", word(own), word(own), hex(own, 64))],
            "sizeBytes": own.random_range(1_000_000_u64..900_000_000),
        }))
        .collect();
    let mut metadata = metadata(n, "node", workload, own);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("namespace");
        metadata.remove("ownerReferences");
    }
    json!({
        "metadata": metadata,
        "spec": {"podCIDR": "10.244.0.0/24", "providerID": format!("cloud:///{}", hex(own, 17))},
        "status": {
            "capacity": {"cpu": "32", "memory": "131072Mi", "pods": "110"}, "images": images,
            "nodeInfo": {
                "machineID": hex(own, 32), "systemUUID": hex(own, 32), "bootID": hex(own, 32), "kernelVersion": "6.12.0",
                "osImage": "Linux", "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}
