//! What happens to objects when their owners go.

use informer_apiserver::{ApiServer, Controllers};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, json as ask};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// An owner, its two dependents, and a dependent of one of these.
async fn family(server: &ApiServer) {
    for (name, owner) in [("root", ""), ("left", "root"), ("right", "root"), ("leaf", "left")] {
        let references = match owner {
            "" => json!([]),
            owner => {
                let (_, owner) = ask(server, "GET", &format!("{MAPS}/{owner}"), "").await;
                let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true}])
            }
        };
        let object = json!({"metadata": {"name": name, "ownerReferences": references}});
        assert_eq!(call(server, "POST", MAPS, &object.to_string()).await.0, 201);
    }
}

fn left(server: &ApiServer) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    server.list(&Gvr::new("", "v1", "configmaps"), "n").unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn what_an_owner_leaves_behind_is_deleted_down_to_the_last() {
    let server = ApiServer::builder().build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/left"), "").await;
    assert_eq!(left(&server), ["right", "root"]);
    call(&server, "DELETE", &format!("{MAPS}/root"), "").await;
    assert!(left(&server).is_empty());
}

#[tokio::test]
async fn orphans_stay_and_forget_their_owner() {
    let server = ApiServer::builder().build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Orphan"), "").await;
    assert_eq!(left(&server), ["leaf", "left", "right"]);
    let (_, orphan) = ask(&server, "GET", &format!("{MAPS}/left"), "").await;
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_a_dependent_with_a_finalizer() {
    let server = ApiServer::builder().build();
    family(&server).await;
    let hold = json!({"metadata": {"finalizers": ["x.io/hold"]}}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = crate::support::send_with(&server, "PATCH", &format!("{MAPS}/leaf"), &merge, &hold).await;
    assert_eq!(patch.status(), 200);
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Foreground"), "").await;
    assert_eq!(left(&server), ["leaf", "left", "root"]);
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    crate::support::send_with(&server, "PATCH", &format!("{MAPS}/leaf"), &merge, &free).await;
    assert!(left(&server).is_empty(), "{:?}", left(&server));
}

#[tokio::test]
async fn without_the_collector_dependents_and_finalizers_stay() {
    let server = ApiServer::builder().controllers(Controllers::NONE).build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/left"), "").await;
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Foreground"), "").await;
    assert_eq!(left(&server), ["leaf", "right", "root"]);
}
