//! Patches and rejected writes.

use informer_apiserver::{FaultMatch, Verb};
use informer_runtime::Patch;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::fixture::Server;

#[tokio::test(start_paused = true)]
async fn strategic_patch_merges_lists_by_merge_keys() {
    let server = Server::start();
    let containers = json!([{"name": "main", "image": "a:1"}, {"name": "proxy", "image": "b:1"}]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    server.create("deployments", "default/web", json!({"spec": spec}));
    let newer = json!([{"name": "main", "image": "a:2"}]);
    let patch = Patch::strategic(json!({"spec": {"template": {"spec": {"containers": newer}}}}));
    server.client().patch::<Deployment>("default/web", &patch).await.unwrap();
    let stored = server.get("deployments", "default/web");
    let containers = &stored["spec"]["template"]["spec"]["containers"];
    let images = [0, 1, 2].map(|place| containers[place]["image"].as_str());
    assert_eq!(images, [Some("a:2"), Some("b:1"), None], "{stored}");
}

#[tokio::test(start_paused = true)]
async fn json_patch_with_failed_test_changes_nothing() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let client = server.client();
    let paint = |from: &str| {
        Patch::json(json!([
            {"op": "test", "path": "/data/color", "value": from},
            {"op": "replace", "path": "/data/color", "value": "blue"},
        ]))
    };
    assert!(client.patch::<ConfigMap>("default/m", &paint("green")).await.unwrap_err().is_invalid());
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "red");
    client.patch::<ConfigMap>("default/m", &paint("red")).await.unwrap();
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "blue");
}

#[tokio::test(start_paused = true)]
async fn forbidden_write_fails_with_is_forbidden() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).status(403);
    let patch = Patch::merge(json!({"data": {"color": "blue"}}));
    let error = server.client().patch::<ConfigMap>("default/m", &patch).await.unwrap_err();
    assert!(error.is_forbidden() && !error.is_not_found() && !error.is_conflict(), "{error}");
}
