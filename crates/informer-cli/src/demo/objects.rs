//! Generates the objects of the demo from a seed: ConfigMaps, and the pods of workloads, which have
//! managedFields and a size of about 6 KB.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Value, json};

/// The number of pods of each workload. The pods of one workload are created from one template, as on a real
/// cluster.
const PODS_PER_WORKLOAD: usize = 25;
/// The average number of pods on each node, as on a full cluster.
const PODS_PER_NODE: usize = 60;
const NAMESPACES: usize = 40;

const WORDS: [&str; 16] = [
    "web", "api", "cart", "search", "auth", "mail", "stock", "price", "image", "event", "order", "user",
    "audit", "batch", "proxy", "cache",
];

/// A generator of pods and ConfigMaps. The same seed generates the same objects.
#[derive(Debug)]
pub(crate) struct Objects {
    random: StdRng,
    pods: usize,
}

impl Objects {
    pub(crate) fn new(seed: u64, pods: usize) -> Self {
        Self { random: StdRng::seed_from_u64(seed), pods }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.pods.div_ceil(PODS_PER_NODE).max(1)
    }

    pub(crate) fn pod(&mut self, number: usize) -> Value {
        let workload = number / PODS_PER_WORKLOAD;
        let (app, namespace) = (app(workload), namespace(workload));
        let set = format!("{app}-{:08x}", hash(workload as u64, 1) as u32);
        let name = format!("{set}-{}", suffix(number));
        let node = format!("node-{:04}", self.random.random_range(0..self.nodes()));
        let ip = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "generateName": format!("{set}-"),
                "namespace": namespace,
                "labels": self.labels(workload, &app),
                "annotations": {
                    "example.com/config-hash": format!("{:016x}", hash(workload as u64, 2)),
                    "example.com/owner-team": WORDS[workload % 7],
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid(workload as u64, 3),
                    "controller": true, "blockOwnerDeletion": true,
                }],
                "managedFields": managed_fields(),
            },
            "spec": self.spec(workload, &app, &node),
            "status": self.status(workload, &app, &ip),
        })
    }

    fn labels(&mut self, workload: usize, app: &str) -> Value {
        let tiers = ["front", "back", "data"];
        json!({
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/instance": format!("{app}-{workload}"),
            "app.kubernetes.io/version": format!("1.{}.{}", workload % 30, workload % 7),
            "app": app,
            "tier": tiers[workload % tiers.len()],
            "pod-template-hash": format!("{:08x}", hash(workload as u64, 1) as u32),
        })
    }

    fn spec(&mut self, workload: usize, app: &str, node: &str) -> Value {
        let containers: Vec<Value> =
            (0..containers(workload)).map(|index| container(workload, app, index)).collect();
        json!({
            "volumes": [
                {"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}},
                {"name": "token", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "serviceAccount": app,
            "nodeName": node,
            "securityContext": {"fsGroup": 1000 + workload % 50, "runAsNonRoot": true},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "priority": 0,
        })
    }

    fn status(&mut self, workload: usize, app: &str, ip: &str) -> Value {
        let conditions =
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-05-01T12:00:09Z"});
        let statuses: Vec<Value> =
            (0..containers(workload)).map(|index| self.container_status(app, index)).collect();
        json!({
            "phase": "Running",
            "conditions": conditions.map(condition),
            "hostIP": "192.168.0.17",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": "2026-05-01T12:00:00Z",
            "containerStatuses": statuses,
            "qosClass": "Burstable",
        })
    }

    fn container_status(&mut self, app: &str, index: usize) -> Value {
        let (id, image): (u128, u128) = (self.random.random(), hash(index as u64, 4).into());
        json!({
            "name": format!("{app}-{index}"),
            "state": {"running": {"startedAt": "2026-05-01T12:00:08Z"}},
            "lastState": {},
            "ready": true,
            "restartCount": 0,
            "image": format!("registry.example.com/shop/{app}:1.4.2"),
            "imageID": format!("registry.example.com/shop/{app}@sha256:{image:064x}"),
            "containerID": format!("containerd://{id:064x}"),
            "started": true,
        })
    }

    pub(crate) fn config_map(&mut self, number: usize) -> Value {
        let lines: String =
            (0..8).map(|line| format!("setting-{line}={:016x}\n", hash(number as u64, line))).collect();
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("{}-{number}", app(number)),
                "namespace": namespace(number),
                "labels": {"app": app(number)},
            },
            "data": {"settings.properties": lines, "mode": *WORDS.choose(&mut self.random).expect("WORDS is not empty")},
        })
    }

    /// Updates a pod as a kubelet does: writes the time stamp `stamp`, in nanoseconds, to an annotation, and
    /// sets a random restart count.
    pub(crate) fn touch(&mut self, pod: &mut Value, stamp: u64) {
        pod["metadata"]["annotations"][super::STAMP] = stamp.to_string().into();
        let restarts = self.random.next_u64() % 3;
        pod["status"]["containerStatuses"][0]["restartCount"] = restarts.into();
    }
}

fn app(workload: usize) -> String {
    format!("{}-{}", WORDS[workload % WORDS.len()], WORDS[workload / 5 % WORDS.len()])
}

fn namespace(workload: usize) -> String {
    format!("team-{:02}", hash(workload as u64, 9) as usize % NAMESPACES)
}

/// Returns the number of containers of the workload's pods: one pod in four has a second container.
fn containers(workload: usize) -> usize {
    if workload % 4 == 3 { 2 } else { 1 }
}

fn container(workload: usize, app: &str, index: usize) -> Value {
    let probe = |path: &str, period: u64| {
        json!({"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": period,
            "successThreshold": 1, "failureThreshold": 3})
    };
    json!({
        "name": format!("{app}-{index}"),
        "image": format!("registry.example.com/shop/{app}:1.4.2"),
        "args": ["--listen=:8080", format!("--shard={}", workload % 12), "--log=json"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "DB_URL", "value": format!("postgres://db-{}.internal:5432/{app}", workload % 9)},
            {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": format!("{app}-db"), "key": "password"}}},
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
        "volumeMounts": [
            {"name": "config", "readOnly": true, "mountPath": "/etc/app"},
            {"name": "token", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe("/healthz", 10),
        "readinessProbe": probe("/readyz", 5),
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
    })
}

/// Returns the managed fields of two field managers, which make up about a third of a pod.
fn managed_fields() -> Value {
    let manager = |name: &str, subresource: Option<&str>, fields: Value| {
        let mut entry = json!({"manager": name, "operation": "Update", "apiVersion": "v1",
            "time": "2026-05-01T12:00:09Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    let leaf = || json!({});
    let probe = || {
        json!({".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}},
        "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {}})
    };
    let condition =
        || json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}});
    json!([
        manager(
            "kube-controller-manager",
            None,
            json!({
                "f:metadata": {"f:annotations": {".": {}, "f:example.com/config-hash": {}, "f:example.com/owner-team": {}},
                    "f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:tier": {}, "f:pod-template-hash": {},
                        "f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/instance": {}},
                    "f:ownerReferences": {".": {}, "k:{\"uid\":\"3c1e2ffc-9d3b-4a53-9a0f-2c4c0f5f9b11\"}": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:args": {}, "f:env": {".": {},
                            "k:{\"name\":\"DB_URL\"}": {".": {}, "f:name": {}, "f:value": {}}},
                    "f:image": {}, "f:imagePullPolicy": {}, "f:livenessProbe": probe(), "f:readinessProbe": probe(),
                    "f:name": leaf(), "f:ports": {".": {}, "k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {},
                        "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
                    "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}}}},
                    "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}},
            })
        ),
        manager(
            "kubelet",
            Some("status"),
            json!({
                "f:status": {"f:conditions": {"k:{\"type\":\"ContainersReady\"}": condition(), "k:{\"type\":\"Ready\"}": condition(),
                        "k:{\"type\":\"Initialized\"}": condition()},
                    "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {".": {}}, "f:startTime": {}},
            })
        ),
    ])
}

/// Returns a pseudorandom number that depends only on the arguments.
fn hash(value: u64, salt: u64) -> u64 {
    let mut mixed =
        value.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn uid(value: u64, salt: u64) -> String {
    let (a, b) = (hash(value, salt), hash(value, salt + 100));
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// Returns five letters that look like the suffix of a generated name. Each number has a different suffix.
fn suffix(number: usize) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number;
    let mut letters = [0; 5];
    for letter in &mut letters {
        *letter = LETTERS[rest % LETTERS.len()];
        rest /= LETTERS.len();
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}
