//! Tests of the client's dry runs: writes with every verb return a result, and the server stores nothing.

use informer_runtime::{DeleteOptions, ListOptions, Patch, ResourceKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_core::DynamicObject;
use serde_json::{Value, json};

use crate::client::{color, config_map, deployable};
use crate::fixture::Server;

#[tokio::test(start_paused = true)]
async fn dry_runs_of_all_verbs_change_nothing() {
    let server = Server::start();
    let client = server.client();
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    let before = server.api.version();
    let dry = client.dry_run();
    dry.create(&config_map("default/other", "red")).await.unwrap();
    let mut edited = map.edit();
    edited.data = None;
    dry.update(&edited).await.unwrap();
    dry.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"color": "blue"}}))).await.unwrap();
    dry.replace(&config_map("default/m", "green")).await.unwrap();
    dry.apply(&config_map("default/applied", "green")).await.unwrap();
    dry.delete::<ConfigMap>("default/m").await.unwrap();
    dry.delete_all::<ConfigMap>(&ListOptions::default().namespace("default"), &DeleteOptions::default())
        .await
        .unwrap();
    assert_eq!(server.api.version(), before);
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_of_subresources_change_nothing() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    server.pod("default/web-0");
    let client = server.client();
    let web = client.get::<Deployment>("default/web").await.unwrap().unwrap();
    let before = server.api.version();
    let dry = client.dry_run();
    let mut edited = web.edit();
    edited.status.get_or_insert_default().observed_generation = Some(7);
    dry.status().update(&edited).await.unwrap();
    let patch = Patch::merge(json!({"status": {"observedGeneration": 8}}));
    dry.status().patch::<Deployment>("default/web", &patch).await.unwrap();
    let status = json!({
        "metadata": {"name": "web", "namespace": "default"}, "status": {"observedGeneration": 9},
    });
    let applied: Deployment = serde_json::from_value(status).unwrap();
    dry.status().apply(&applied).await.unwrap();
    let scale = dry.subresource("scale");
    let mut read: Scale = scale.read::<Deployment, _>("default/web").await.unwrap();
    read.spec.get_or_insert_default().replicas = Some(4);
    scale.replace::<Deployment, _>("default/web", &read).await.unwrap();
    let _: Scale =
        scale.merge::<Deployment, _>("default/web", json!({"spec": {"replicas": 2}})).await.unwrap();
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0", "namespace": "default"},
    });
    let _: Value = dry.subresource("eviction").create::<Pod, _>("default/web-0", &eviction).await.unwrap();
    assert_eq!(server.api.version(), before);
}

#[tokio::test(start_paused = true)]
async fn dry_runs_of_dynamic_objects_change_nothing() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let before = server.api.version();
    let maps = server.client().dry_run().dynamic(ResourceKind::of::<ConfigMap>());
    let object = |name: &str| -> DynamicObject {
        let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"color": "blue"}});
        serde_json::from_value(object).unwrap()
    };
    maps.create(&object("other")).await.unwrap();
    maps.apply(&object("applied")).await.unwrap();
    maps.replace(&object("m")).await.unwrap();
    maps.patch("default/m", &Patch::merge(json!({"data": {"color": "blue"}}))).await.unwrap();
    maps.delete("default/m", &DeleteOptions::default()).await.unwrap();
    maps.delete_all(&ListOptions::default().namespace("default"), &DeleteOptions::default()).await.unwrap();
    assert_eq!(server.api.version(), before);
}
