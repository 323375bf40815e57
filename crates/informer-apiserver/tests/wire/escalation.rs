//! RBAC escalation checks for operators that create roles for their workloads.

use informer_apiserver::{ApiServer, User};
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{read, request};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// Creates a server whose user `operator` may write roles and bindings, and has the additional rules `more`.
fn server(more: &[Value]) -> ApiServer {
    let server = ApiServer::builder().rbac(true).build();
    // The verb `*` would include `escalate` and `bind`, which skip the check.
    let verbs = ["get", "create", "update", "patch"];
    let own = json!({"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": verbs});
    let rules = [&[own], more].concat();
    let role = json!({"metadata": {"name": "operator"}, "rules": rules});
    server.create(&Gvr::new(GROUP, "v1", "roles"), "default", role).unwrap();
    let binding = json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator"}],
    });
    server.create(&Gvr::new(GROUP, "v1", "rolebindings"), "default", binding).unwrap();
    server
}

async fn ask(server: &ApiServer, method: &str, uri: &str, body: &Value) -> (u16, Value) {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let mut request = request(method, uri, &[("content-type", kind)], &body.to_string());
    request.extensions_mut().insert(User::new("system:serviceaccount:default:operator"));
    let (status, text) = read(server.service().oneshot(request).await.unwrap()).await;
    (status, serde_json::from_str(&text).unwrap())
}

fn workload() -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "watch"]}]);
    json!({"metadata": {"name": "workload"}, "rules": rules})
}

fn binding() -> Value {
    json!({
        "metadata": {"name": "workload"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "workload"},
        "subjects": [{"kind": "ServiceAccount", "name": "workload"}],
    })
}

fn may(verb: &str, resource: &str, group: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
}

#[tokio::test]
async fn an_operator_cannot_create_a_role_with_permissions_it_does_not_have() {
    let server = server(&[may("get", "secrets", "")]);
    let (status, refused) = ask(&server, "POST", ROLES, &workload()).await;
    assert_eq!((status, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        refused["message"],
        "roles.rbac.authorization.k8s.io \"workload\" is forbidden: user \"system:serviceaccount:default:operator\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"watch\"]}"
    );
    assert_eq!(ask(&server, "GET", &format!("{ROLES}/workload"), &json!({})).await.0, 404);
}

#[tokio::test]
async fn an_operator_creates_and_binds_a_role_within_its_own_permissions() {
    let server = server(&[may("*", "secrets", "")]);
    assert_eq!(ask(&server, "POST", ROLES, &workload()).await.0, 201);
    assert_eq!(ask(&server, "POST", BINDINGS, &binding()).await.0, 201);
}

#[tokio::test]
async fn the_escalate_verb_allows_any_role_but_not_any_binding() {
    let server = server(&[may("escalate", "roles", GROUP)]);
    assert_eq!(ask(&server, "POST", ROLES, &workload()).await.0, 201);
    assert_eq!(ask(&server, "POST", BINDINGS, &binding()).await.0, 403);
}

#[tokio::test]
async fn the_bind_verb_allows_bindings_without_the_permissions_of_the_role() {
    let server = server(&[may("bind", "roles", GROUP)]);
    assert_eq!(ask(&server, "POST", ROLES, &workload()).await.0, 403);
    server.create(&Gvr::new(GROUP, "v1", "roles"), "default", workload()).unwrap();
    assert_eq!(ask(&server, "POST", BINDINGS, &binding()).await.0, 201);
}

#[tokio::test]
async fn a_role_update_needs_the_new_permissions_unless_only_owners_change() {
    let server = server(&[may("get", "secrets", "")]);
    server.create(&Gvr::new(GROUP, "v1", "roles"), "default", workload()).unwrap();
    let uri = format!("{ROLES}/workload");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(ask(&server, "PATCH", &uri, &labels).await.0, 403);
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]);
    let owned = json!({"metadata": {"ownerReferences": owners, "finalizers": ["example.com/a"]}});
    assert_eq!(ask(&server, "PATCH", &uri, &owned).await.0, 200);
    let less = json!({"metadata": {"labels": {"a": "b"}}, "rules": [may("get", "secrets", "")]});
    assert_eq!(ask(&server, "PATCH", &uri, &less).await.0, 200);
}

#[tokio::test]
async fn binding_a_missing_role_returns_404() {
    let server = server(&[]);
    let (status, missing) = ask(&server, "POST", BINDINGS, &binding()).await;
    assert_eq!(status, 404, "{missing}");
}

#[tokio::test]
async fn without_rbac_escalation_is_not_checked() {
    let server = ApiServer::builder().build();
    assert_eq!(ask(&server, "POST", ROLES, &workload()).await.0, 201);
    assert_eq!(ask(&server, "POST", BINDINGS, &binding()).await.0, 201);
}
