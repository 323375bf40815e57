//! The default ClusterRoles and ClusterRoleBindings of RBAC, except for those of controllers and nodes.

use informer_core::Gvr;
use serde_json::{Value, json};

use crate::server::ApiServer;

const GROUP: &str = "rbac.authorization.k8s.io";

struct DefaultRole {
    name: &'static str,
    rules: Value,
    groups: &'static [&'static str],
}

fn default_roles() -> [DefaultRole; 4] {
    let all = ["*"];
    let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    let discovery: Vec<&str> = discovery.into_iter().chain(health).collect();
    let everybody = &["system:authenticated", "system:unauthenticated"];
    [
        DefaultRole {
            name: "cluster-admin",
            rules: json!([
                {"apiGroups": all, "resources": all, "verbs": all},
                {"nonResourceURLs": all, "verbs": all},
            ]),
            groups: &["system:masters"],
        },
        DefaultRole {
            name: "system:discovery",
            rules: json!([{"nonResourceURLs": discovery, "verbs": ["get"]}]),
            groups: &["system:authenticated"],
        },
        DefaultRole {
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
        DefaultRole {
            name: "system:public-info-viewer",
            rules: json!([{"nonResourceURLs": health, "verbs": ["get"]}]),
            groups: everybody,
        },
    ]
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

/// The rules that one of the ClusterRoles `admin`, `edit` and `view` has in addition to those of the next
/// less powerful role.
struct AggregatedRole {
    role: &'static str,
    /// The more powerful ClusterRole that also gets these rules.
    included_in: Option<&'static str>,
    rules: Value,
}

const WRITE_VERBS: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// Returns RBAC rules with these verbs, one for each pair of API groups and resources.
fn rules_for(verbs: &[&str], of: &[(&[&str], &[&str])]) -> Vec<Value> {
    let rule = |(groups, resources): &(&[&str], &[&str])| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    of.iter().map(rule).collect()
}

fn aggregated_roles() -> [AggregatedRole; 3] {
    const ALL: [&str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let view = rules_for(&READ_VERBS, VIEW_READS);
    let edit = [
        rules_for(&READ_VERBS, &[(&[""], SENSITIVE_READS)]),
        rules_for(&["impersonate"], &[(&[""], &["serviceaccounts"])]),
        rules_for(&WRITE_VERBS, &[(&[""], POD_WRITES)]),
        rules_for(&["create"], &[(&[""], &["pods/eviction"])]),
        rules_for(&WRITE_VERBS, &[(&[""], CORE_WRITES)]),
        rules_for(&["create"], &[(&[""], &["serviceaccounts/token"])]),
        rules_for(&WRITE_VERBS, GROUP_WRITES),
        rules_for(&ALL, &[(&["coordination.k8s.io"], &["leases"])]),
        rules_for(&WRITE_VERBS, &[(&["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"])]),
    ];
    let admin = [
        rules_for(&["create"], &[(&["authorization.k8s.io"], &["localsubjectaccessreviews"])]),
        rules_for(&ALL, &[(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"])]),
    ];
    [
        AggregatedRole { role: "admin", included_in: None, rules: admin.concat().into() },
        AggregatedRole { role: "edit", included_in: Some("admin"), rules: edit.concat().into() },
        AggregatedRole { role: "view", included_in: Some("edit"), rules: view.into() },
    ]
}

type Resources = &'static [&'static str];

const SENSITIVE_READS: Resources =
    &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"];
const POD_WRITES: Resources = &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
const CORE_WRITES: Resources = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "serviceaccounts",
    "services",
    "services/proxy",
];
const GROUP_WRITES: &[(Resources, Resources)] = &[
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
const VIEW_READS: &[(Resources, Resources)] = &[
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

pub(crate) fn write_bootstrap_policy(server: &ApiServer) {
    let write = |resource: &str, object: Value| {
        let created = server.create(&Gvr::new(GROUP, "v1", resource), "", object);
        created.expect("the default roles are valid");
    };
    for AggregatedRole { role, included_in, rules } in aggregated_roles() {
        let label = |of: &str| format!("rbac.authorization.k8s.io/aggregate-to-{of}");
        let mut role_metadata = metadata(role);
        if let Some(included_in) = included_in {
            role_metadata["labels"][label(included_in)] = "true".into();
        }
        let selectors = json!([{"matchLabels": {label(role): "true"}}]);
        let aggregated = json!({"clusterRoleSelectors": selectors});
        write(
            "clusterroles",
            json!({"metadata": role_metadata, "rules": null, "aggregationRule": aggregated}),
        );
        let mut part = metadata(&format!("system:aggregate-to-{role}"));
        part["labels"][label(role)] = "true".into();
        write("clusterroles", json!({"metadata": part, "rules": rules}));
    }
    for DefaultRole { name, rules, groups } in default_roles() {
        let metadata = metadata(name);
        write("clusterroles", json!({"metadata": metadata, "rules": rules}));
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "name": group, "apiGroup": GROUP})).collect();
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
        write("clusterrolebindings", json!({"metadata": metadata, "roleRef": role, "subjects": subjects}));
    }
}
