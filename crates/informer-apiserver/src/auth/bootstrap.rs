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

/// Writes the roles and bindings.
pub(crate) fn write_bootstrap_policy(server: &ApiServer) {
    let write = |resource: &str, object: Value| {
        let created = server.create(&Gvr::new(GROUP, "v1", resource), "", object);
        created.expect("the first roles of a new server are valid");
    };
    for Bootstrap { name, rules, groups } in roles() {
        let metadata = json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
        write("clusterroles", json!({"metadata": metadata, "rules": rules}));
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "name": group, "apiGroup": GROUP})).collect();
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
        write("clusterrolebindings", json!({"metadata": metadata, "roleRef": role, "subjects": subjects}));
    }
}
