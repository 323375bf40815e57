//! The roles and bindings that every cluster begins with, as far as servers and their users need them.

use informer_core::Gvr;
use serde_json::{Value, json};

use crate::server::ApiServer;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role, what it allows, and to which groups.
struct Bootstrap {
    name: &'static str,
    rules: Value,
    groups: &'static [&'static str],
}

fn roles() -> [Bootstrap; 4] {
    let all = ["*"];
    let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    let discovery: Vec<&str> = discovery.into_iter().chain(health).collect();
    let everybody = &["system:authenticated", "system:unauthenticated"];
    [
        Bootstrap {
            name: "cluster-admin",
            rules: json!([
                {"apiGroups": all, "resources": all, "verbs": all},
                {"nonResourceURLs": all, "verbs": all},
            ]),
            groups: &["system:masters"],
        },
        Bootstrap {
            name: "system:discovery",
            rules: json!([{"nonResourceURLs": discovery, "verbs": ["get"]}]),
            groups: &["system:authenticated"],
        },
        Bootstrap {
            name: "system:basic-user",
            rules: json!([
                {
                    "apiGroups": ["authorization.k8s.io"],
                    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    "verbs": ["create"],
                },
                {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
            ]),
            groups: &["system:authenticated"],
        },
        Bootstrap {
            name: "system:public-info-viewer",
            rules: json!([{"nonResourceURLs": health, "verbs": ["get"]}]),
            groups: everybody,
        },
    ]
}

/// What marks roles as those of the server.
fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

/// What one of the roles for users of a namespace adds to the one below it.
struct Part {
    role: &'static str,
    /// The role that has all of this one.
    within: Option<&'static str>,
    rules: Value,
}

const WRITES: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
const READS: [&str; 3] = ["get", "list", "watch"];

/// Rules of one set of verbs: group, resources.
fn rules_for(verbs: &[&str], of: &[(&[&str], &[&str])]) -> Vec<Value> {
    let rule = |(groups, resources): &(&[&str], &[&str])| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    of.iter().map(rule).collect()
}

fn parts() -> [Part; 3] {
    const ALL: [&str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let view = rules_for(&READS, VIEWED);
    let edit = [
        rules_for(&READS, &[(&[""], SECRETIVE)]),
        rules_for(&["impersonate"], &[(&[""], &["serviceaccounts"])]),
        rules_for(&WRITES, &[(&[""], RUNNING)]),
        rules_for(&["create"], &[(&[""], &["pods/eviction"])]),
        rules_for(&WRITES, &[(&[""], KEPT)]),
        rules_for(&["create"], &[(&[""], &["serviceaccounts/token"])]),
        rules_for(&WRITES, EDITED),
        rules_for(&ALL, &[(&["coordination.k8s.io"], &["leases"])]),
        rules_for(&WRITES, &[(&["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"])]),
    ];
    let admin = [
        rules_for(&["create"], &[(&["authorization.k8s.io"], &["localsubjectaccessreviews"])]),
        rules_for(&ALL, &[(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"])]),
    ];
    [
        Part { role: "admin", within: None, rules: admin.concat().into() },
        Part { role: "edit", within: Some("admin"), rules: edit.concat().into() },
        Part { role: "view", within: Some("edit"), rules: view.into() },
    ]
}

type Resources = &'static [&'static str];

const SECRETIVE: Resources =
    &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"];
const RUNNING: Resources = &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
const KEPT: Resources = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "serviceaccounts",
    "services",
    "services/proxy",
];
const EDITED: &[(Resources, Resources)] = &[
    (&["", "events.k8s.io"], &["events"]),
    (
        &["apps"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    (&["autoscaling"], &["horizontalpodautoscalers"]),
    (&["batch"], &["cronjobs", "jobs"]),
    (
        &["extensions"],
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "ingresses",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers/scale",
        ],
    ),
    (&["policy"], &["poddisruptionbudgets"]),
    (&["networking.k8s.io"], &["ingresses", "networkpolicies"]),
];
const VIEWED: &[(Resources, Resources)] = &[
    (
        &[""],
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        &[""],
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    (&[""], &["namespaces"]),
    (&["", "events.k8s.io"], &["events"]),
    (&["discovery.k8s.io"], &["endpointslices"]),
    (
        &["apps"],
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    (&["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    (&["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    (
        &["extensions"],
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "ingresses",
            "ingresses/status",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers/scale",
        ],
    ),
    (&["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    (&["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
    (&["resource.k8s.io"], &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
];

/// Writes the roles and bindings.
pub(crate) fn write_bootstrap_policy(server: &ApiServer) {
    let write = |resource: &str, object: Value| {
        let created = server.create(&Gvr::new(GROUP, "v1", resource), "", object);
        created.expect("the first roles of a new server are valid");
    };
    for Part { role, within, rules } in parts() {
        let label = |of: &str| format!("rbac.authorization.k8s.io/aggregate-to-{of}");
        let mut own = metadata(role);
        if let Some(within) = within {
            own["labels"][label(within)] = "true".into();
        }
        let selectors = json!([{"matchLabels": {label(role): "true"}}]);
        let aggregated = json!({"clusterRoleSelectors": selectors});
        write("clusterroles", json!({"metadata": own, "rules": null, "aggregationRule": aggregated}));
        let mut part = metadata(&format!("system:aggregate-to-{role}"));
        part["labels"][label(role)] = "true".into();
        write("clusterroles", json!({"metadata": part, "rules": rules}));
    }
    for Bootstrap { name, rules, groups } in roles() {
        let metadata = metadata(name);
        write("clusterroles", json!({"metadata": metadata, "rules": rules}));
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "name": group, "apiGroup": GROUP})).collect();
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
        write("clusterrolebindings", json!({"metadata": metadata, "roleRef": role, "subjects": subjects}));
    }
}
