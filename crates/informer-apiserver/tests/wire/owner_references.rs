//! The admission plugin `OwnerReferencesPermissionEnforcement`, and enabling and disabling plugins.

use informer_apiserver::{ApiServer, User};
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{json as ask, read, request};

const GROUP: &str = "rbac.authorization.k8s.io";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PLUGIN: &str = "OwnerReferencesPermissionEnforcement";

/// Creates a server with the plugin whose user `operator` has these rules, and an owner: the Deployment
/// `web`.
fn server(rules: &Value) -> ApiServer {
    let server = ApiServer::builder().rbac(true).enable_admission_plugins([PLUGIN]).unwrap().build();
    let role = json!({"metadata": {"name": "operator"}, "rules": rules});
    server.create(&Gvr::new(GROUP, "v1", "roles"), "default", role).unwrap();
    let binding = json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "operator"}],
    });
    server.create(&Gvr::new(GROUP, "v1", "rolebindings"), "default", binding).unwrap();
    server
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn owned(name: &str, references: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

fn reference(blocks: bool) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "blockOwnerDeletion": blocks})
}

async fn as_operator(server: &ApiServer, method: &str, uri: &str, body: &Value) -> (u16, String) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = request(method, uri, &[("content-type", kind)], &body.to_string());
    request.extensions_mut().insert(User::new("operator"));
    let (status, text) = read(server.service().oneshot(request).await.unwrap()).await;
    let body: Value = serde_json::from_str(&text).unwrap();
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn blocking_owner_reference_needs_update_of_the_owners_finalizers() {
    let maps = rule("", "configmaps", &["create"]);
    let server = self::server(&json!([maps]));
    let (status, message) = as_operator(&server, "POST", MAPS, &owned("a", &json!([reference(true)]))).await;
    assert_eq!(status, 403);
    assert_eq!(
        message,
        "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
         can't set finalizers on: , <nil>"
    );
    let (status, message) = as_operator(&server, "POST", MAPS, &owned("a", &json!([reference(false)]))).await;
    assert_eq!(status, 201, "a reference that does not block needs no permission: {message}");

    let permitted = self::server(&json!([maps, rule("apps", "deployments/finalizers", &["update"])]));
    let (status, message) =
        as_operator(&permitted, "POST", MAPS, &owned("a", &json!([reference(true)]))).await;
    assert_eq!(status, 201, "{message}");
}

#[tokio::test]
async fn change_of_owner_references_needs_delete_of_the_object() {
    let patch = json!({"metadata": {"ownerReferences": [reference(false)]}});
    for (verbs, wanted) in [(&["create", "patch"][..], 403), (&["create", "patch", "delete"], 200)] {
        let server = self::server(&json!([rule("", "configmaps", verbs)]));
        assert_eq!(as_operator(&server, "POST", MAPS, &owned("a", &json!([]))).await.0, 201);
        let (status, message) = as_operator(&server, "PATCH", &format!("{MAPS}/a"), &patch).await;
        assert_eq!(status, wanted, "{message}");
        if wanted == 403 {
            assert!(message.contains("cannot set an ownerRef on a resource you can't delete"), "{message}");
        }
        let labels = json!({"metadata": {"labels": {"app": "web"}}});
        let (status, message) = as_operator(&server, "PATCH", &format!("{MAPS}/a"), &labels).await;
        assert_eq!(status, 200, "other changes need no permission to delete: {message}");
    }
}

#[tokio::test]
async fn reference_that_blocked_before_needs_no_new_permission() {
    let server = self::server(&json!([rule("", "configmaps", &["create", "patch", "delete"])]));
    let configmaps = Gvr::new("", "v1", "configmaps");
    server.create(&configmaps, "default", owned("a", &json!([reference(true)]))).unwrap();
    let mut renamed = reference(true);
    renamed["name"] = json!("shop");
    let patch = json!({"metadata": {"ownerReferences": [renamed]}});
    let (status, message) = as_operator(&server, "PATCH", &format!("{MAPS}/a"), &patch).await;
    assert_eq!(status, 200, "{message}");
}

#[tokio::test]
async fn blocking_reference_to_an_unknown_kind_is_rejected() {
    let server = self::server(&json!([rule("", "configmaps", &["create"])]));
    let mut unknown = reference(true);
    unknown["kind"] = json!("Website");
    let (status, message) = as_operator(&server, "POST", MAPS, &owned("a", &json!([unknown]))).await;
    assert_eq!(status, 403);
    assert!(message.ends_with("no matches for kind \"Website\" in version \"apps/v1\""), "{message}");
}

#[tokio::test]
async fn owner_references_are_unrestricted_without_the_plugin_or_rbac() {
    let references = json!([reference(true)]);
    let plain = ApiServer::builder().build();
    assert_eq!(ask(&plain, "POST", MAPS, &owned("a", &references).to_string()).await.0, 201);
    let open = ApiServer::builder().enable_admission_plugins([PLUGIN]).unwrap().build();
    assert_eq!(ask(&open, "POST", MAPS, &owned("a", &references).to_string()).await.0, 201);
}

#[tokio::test]
async fn disabled_plugin_does_not_run_and_unknown_one_is_named() {
    let pods = "/api/v1/namespaces/restricted/pods";
    let namespace = json!({"metadata": {"name": "restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let spec =
        json!({"containers": [{"name": "main", "image": "web:1", "securityContext": {"privileged": true}}]});
    let pod = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
    for (server, wanted) in [
        (ApiServer::builder().build(), 403),
        (ApiServer::builder().disable_admission_plugins(["PodSecurity"]).unwrap().build(), 201),
    ] {
        server.create(&Gvr::new("", "v1", "namespaces"), "", namespace.clone()).unwrap();
        assert_eq!(ask(&server, "POST", pods, &pod).await.0, wanted);
    }
    let error = ApiServer::builder().enable_admission_plugins(["AlwaysPullImages"]).unwrap_err().to_string();
    assert!(error.starts_with("cannot enable or disable admission plugin \"AlwaysPullImages\""), "{error}");
    assert!(error.contains("LimitRanger, TaintNodesByCondition, PodSecurity"), "{error}");
}
