//! Aggregated ClusterRoles.

use informer_apiserver::{ApiServer, Controllers};
use serde_json::json;

use crate::support::{call, json as ask};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

async fn create(server: &ApiServer, name: &str, label: &str, verb: &str) {
    let rules = json!([{"apiGroups": [""], "resources": [name], "verbs": [verb]}]);
    let role = json!({"metadata": {"name": name, "labels": {label: "yes"}}, "rules": rules});
    assert_eq!(call(server, "POST", ROLES, &role.to_string()).await.0, 201);
}

async fn verbs(server: &ApiServer, name: &str) -> Vec<String> {
    let (_, role) = ask(server, "GET", &format!("{ROLES}/{name}"), "").await;
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().map(|rule| rule["verbs"][0].as_str().unwrap_or_default().to_owned()).collect()
}

fn aggregating(name: &str, labels: &serde_json::Value, selected: &str) -> String {
    json!({
        "metadata": {"name": name, "labels": labels},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["own"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selected: "yes"}}]},
    })
    .to_string()
}

#[tokio::test]
async fn an_aggregated_role_contains_the_rules_of_selected_roles_transitively() {
    let server = ApiServer::builder().build();
    call(&server, "POST", ROLES, &aggregating("outer", &json!({}), "to-outer")).await;
    call(&server, "POST", ROLES, &aggregating("inner", &json!({"to-outer": "yes"}), "to-inner")).await;
    create(&server, "b", "to-inner", "get").await;
    create(&server, "a", "to-inner", "list").await;
    create(&server, "c", "to-outer", "watch").await;
    assert_eq!(verbs(&server, "inner").await, ["list", "get"], "sorted by role name");
    assert_eq!(verbs(&server, "outer").await, ["watch", "list", "get"]);
    call(&server, "DELETE", &format!("{ROLES}/a"), "").await;
    assert_eq!(verbs(&server, "outer").await, ["watch", "get"]);
    let (_, role) = ask(&server, "GET", &format!("{ROLES}/outer"), "").await;
    let managers = role["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["manager"] == "clusterrole-aggregation-controller"));
}

#[tokio::test]
async fn without_the_controller_an_aggregated_role_keeps_its_initial_rules() {
    let server = ApiServer::builder().controllers(Controllers::NONE).build();
    create(&server, "a", "to-outer", "get").await;
    call(&server, "POST", ROLES, &aggregating("outer", &json!({}), "to-outer")).await;
    assert_eq!(verbs(&server, "outer").await, ["own"]);
}

#[tokio::test]
async fn the_default_user_facing_roles_exist_at_startup() {
    let server =
        ApiServer::builder().rbac(true).tokens("t,admin,1,\"system:masters\"".parse().unwrap()).build();
    let rules = |name: &str| {
        let gvr = informer_core::Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
        server.get(&gvr, "", name).unwrap()["rules"].as_array().unwrap().len()
    };
    // kube-controller-manager 1.36.3 aggregates these numbers of rules into the ClusterRoles `view`, `edit`
    // and `admin`.
    assert_eq!((rules("view"), rules("edit"), rules("admin")), (12, 27, 29));
}
