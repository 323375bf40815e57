//! Tests of `CachedClient::edit` and `edit_status`: read, change, update, and repeat after conflicts.

use std::time::Duration;

use informer_apiserver::{FaultMatch, Verb};
use informer_runtime::{CachedClient, MissingInformer, WriteError};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::Instant;

use crate::client::{color, config_map, deployable};
use crate::fixture::{Server, gvr};
use crate::newer_server::{ALL_READS, client, create, newer, stored};
use crate::old_types::OldDeployment;

const KEY: &str = "default/m";

/// Sets a key of the ConfigMap's data, as another program.
fn write_as_another(server: &Server, name: &str, value: &str) {
    let mut map = server.get("configmaps", KEY);
    map["data"][name] = json!(value);
    server.api.update(&gvr("configmaps"), "default", map).expect("a valid change");
}

fn set(map: &mut ConfigMap, name: &str, value: &str) {
    map.data.get_or_insert_default().insert(name.to_owned(), value.to_owned());
}

fn patches(server: &Server) -> usize {
    server.api.count_requests(Verb::Patch, "configmaps")
}

#[tokio::test(start_paused = true)]
async fn edit_reads_from_the_cache_and_sends_the_difference() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"color": "red", "size": "1"}}));
    let client = server.client();
    let edited = client.edit(KEY, |map: &mut ConfigMap| set(map, "color", "blue")).await.unwrap();
    assert_eq!(color(&edited.expect("it exists")), "blue");
    assert_eq!(server.get("configmaps", KEY)["data"], json!({"color": "blue", "size": "1"}));
    assert_eq!((server.api.count_requests(Verb::Get, "configmaps"), patches(&server)), (0, 1));
    assert_eq!(color(&client.get::<ConfigMap>(KEY).await.unwrap().unwrap()), "blue");
}

#[tokio::test(start_paused = true)]
async fn edit_repeats_the_change_on_the_state_of_the_server_after_each_conflict() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"count": "0"}}));
    let (client, mut seen) = (server.client(), Vec::new());
    let edited = client.edit(KEY, |map: &mut ConfigMap| {
        let count = map.data.as_ref().map_or("", |data| &data["count"]).to_owned();
        set(map, "color", &format!("blue {count}"));
        seen.push(count);
        // Another program writes the object twice, each time after this program has read it.
        if seen.len() <= 2 {
            write_as_another(&server, "count", &seen.len().to_string());
        }
    });
    assert_eq!(color(&edited.await.unwrap().expect("it exists")), "blue 2");
    assert_eq!(seen, ["0", "1", "2"], "it was called with the newest state");
    assert_eq!(server.get("configmaps", KEY)["data"], json!({"color": "blue 2", "count": "2"}));
    assert_eq!((server.api.count_requests(Verb::Get, "configmaps"), patches(&server)), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn edit_gives_up_after_five_conflicts_with_growing_delays() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({}));
    let client = server.client();
    client.get::<ConfigMap>(KEY).await.unwrap();
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).status(409);
    let (begin, mut calls) = (Instant::now(), 0);
    let edited = client.edit(KEY, |map: &mut ConfigMap| {
        calls += 1;
        set(map, "color", "blue");
    });
    let error = edited.await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!((calls, patches(&server)), (5, 5));
    // The delays are 10, 20, 40 and 80 ms, times 0.5 to 1.5.
    let took = begin.elapsed();
    assert!((Duration::from_millis(75)..=Duration::from_millis(250)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn edit_that_changes_nothing_sends_no_request() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"color": "red"}}));
    let client = server.client();
    let read = client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
    let before = server.api.requests().len();
    let same = client.edit(KEY, |map: &mut ConfigMap| set(map, "color", "red")).await.unwrap().unwrap();
    assert_eq!(same.metadata.resource_version, read.metadata.resource_version);
    client.edit_status(KEY, |_: &mut ConfigMap| {}).await.unwrap();
    assert_eq!(server.api.requests().len(), before);
}

#[tokio::test(start_paused = true)]
async fn edit_of_a_missing_or_deleted_object_returns_none() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"color": "red"}}));
    let client = server.client();
    let missing = client.edit("default/other", |_: &mut ConfigMap| panic!("there is no object")).await;
    assert!(missing.unwrap().is_none());
    assert_eq!(patches(&server), 0);
    // The object is deleted between the read and the update.
    let delete = || server.api.delete(&gvr("configmaps"), "default", "m").expect("it exists");
    let deleted = client.edit(KEY, |map: &mut ConfigMap| {
        delete();
        set(map, "color", "blue");
    });
    assert!(deleted.await.unwrap().is_none());
    assert_eq!(patches(&server), 1);
    // The object is deleted between a conflict and the second read.
    client.create(&config_map(KEY, "red")).await.unwrap();
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).status(409);
    let deleted = client.edit(KEY, |map: &mut ConfigMap| {
        delete();
        set(map, "color", "blue");
    });
    assert!(deleted.await.unwrap().is_none());
    assert_eq!(patches(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn edit_changes_an_object_that_was_recreated_meanwhile() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"color": "red"}}));
    let (client, mut calls) = (server.client(), 0);
    let edited = client.edit(KEY, |map: &mut ConfigMap| {
        calls += 1;
        if calls == 1 {
            server.api.delete(&gvr("configmaps"), "default", "m").expect("it exists");
            server.create("configmaps", KEY, json!({"data": {"made": "again"}}));
        }
        set(map, "color", "blue");
    });
    edited.await.unwrap().expect("it exists");
    assert_eq!(calls, 2);
    assert_eq!(server.get("configmaps", KEY)["data"], json!({"color": "blue", "made": "again"}));
}

#[tokio::test(start_paused = true)]
async fn edit_is_repeated_if_the_object_exists_again_after_a_404() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({"data": {"color": "red"}}));
    let client = server.client();
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).nth(1).status(404);
    let edited = client.edit(KEY, |map: &mut ConfigMap| set(map, "color", "blue")).await.unwrap();
    assert_eq!(color(&edited.expect("it exists")), "blue");
    assert_eq!((server.api.count_requests(Verb::Get, "configmaps"), patches(&server)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn edit_status_writes_the_status_and_nothing_else() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    let change = |web: &mut Deployment| {
        web.spec.replicas = Some(5);
        web.status.get_or_insert_default().observed_generation = Some(7);
    };
    let written = server.client().edit_status("default/web", change).await.unwrap().expect("it exists");
    assert_eq!(written.status.as_ref().and_then(|status| status.observed_generation), Some(7));
    let stored = server.get("deployments", "default/web");
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["status"]["observedGeneration"]),
        (&json!(1), &json!(7))
    );
    let requests = server.api.requests();
    let written = requests.iter().filter(|request| request.verb == Verb::Patch);
    let subresources: Vec<_> = written.map(|request| request.subresource.as_deref()).collect();
    assert_eq!(subresources, [Some("status")]);
}

#[tokio::test(start_paused = true)]
async fn edit_status_of_a_kind_without_the_subresource_is_an_error() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    server.api.faults().on(FaultMatch::path("/status")).status(404);
    let change = |web: &mut Deployment| web.status.get_or_insert_default().replicas = Some(7);
    let error = server.client().edit_status("default/web", change).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn edit_keeps_fields_that_a_newer_server_has_stored() {
    for reads in ALL_READS {
        let server = newer();
        let containers = json!([{"name": "main", "image": "a:1", "shells": ["sh"], "command": ["run"]}]);
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        create::<OldDeployment>(&server, "default/web", json!({"spec": spec})).await;
        let mut expected = stored(&server, "deployments", "default/web");
        expected["spec"]["template"]["spec"]["containers"][0]["image"] = json!("a:2");
        let conflict = server.api.faults().on(FaultMatch::verb(Verb::Patch)).nth(1).status(409);
        let client = client::<OldDeployment>(&server, reads);
        let change = |web: &mut OldDeployment| web.spec.template.spec.containers[0].image = "a:2".to_owned();
        client.edit("default/web", change).await.unwrap().expect("it exists");
        assert_eq!(conflict.fired(), 1, "{reads:?}");
        assert_eq!(stored(&server, "deployments", "default/web"), expected, "{reads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn edit_reports_failed_reads_and_changes_of_the_identity() {
    let server = Server::start();
    server.create("configmaps", KEY, json!({}));
    let rename = |map: &mut ConfigMap| map.metadata.name = Some("other".to_owned());
    let error = server.client().edit(KEY, rename).await.unwrap_err();
    assert!(matches!(error, WriteError::OtherObject { field: "metadata.name", .. }), "{error}");
    assert_eq!(patches(&server), 0);

    let cache = server.cache().missing_informer(MissingInformer::Refuse).build();
    cache.start();
    let error = CachedClient::new(&cache).edit(KEY, rename).await.unwrap_err();
    assert!(matches!(error, WriteError::Read { .. }), "{error}");
    assert_eq!(error.to_string(), "get configmaps default/m: the object cannot be read");

    let live = CachedClient::builder(server.client().cache()).uncached::<ConfigMap>().build();
    server.api.faults().on(FaultMatch::verb(Verb::Get)).status(403);
    assert!(live.edit(KEY, rename).await.unwrap_err().is_forbidden());
}
