//! Caches that hold the metadata of all objects of a kind and the bodies of few: requests, freshness,
//! deletions, failures, and reads of clients.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{FaultMatch, Verb};
use informer_cache::handler::on_event;
use informer_client::{Lazy, Metadata};
use informer_core::ObjectKey;
use informer_runtime::{
    BODY_LEASE, Cache, CachedClient, InformerOptions, ListOptions, ReadError, Referenced, ResourceKind,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::sync::mpsc;

use crate::fixture::{SOON, Server, gvr};

fn key(key: &str) -> ObjectKey {
    key.parse().unwrap()
}

fn set(server: &Server, name: &str, value: &str) {
    let map = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}});
    match server.api.get(&gvr("configmaps"), "default", name) {
        Ok(_) => server.api.update(&gvr("configmaps"), "default", map).unwrap(),
        Err(_) => server.api.create(&gvr("configmaps"), "default", map).unwrap(),
    };
}

fn gets(server: &Server) -> usize {
    server.api.count_requests(Verb::Get, "configmaps")
}

fn value(map: &Lazy<ConfigMap>) -> String {
    map.get().unwrap().data.as_ref().map(|data| data["value"].clone()).unwrap_or_default()
}

async fn read(maps: &Referenced<ConfigMap>, name: &str) -> Option<String> {
    maps.get(&format!("default/{name}")).await.unwrap().map(|map| value(&map))
}

fn started(server: &Server) -> (Cache, Referenced<ConfigMap>) {
    let cache = server.cache().build();
    cache.start();
    let maps = cache.referenced::<ConfigMap>().unwrap();
    (cache, maps)
}

/// Waits until the metadata shows the state of the server.
async fn caught_up(server: &Server, maps: &Referenced<ConfigMap>) {
    let version = server.api.version();
    let informer = &maps.metadata().scoped_informers()[0].informer;
    let shows = |_: &_| informer.last_sync_resource_version().as_u64() >= Some(version);
    informer.wait_until_for(Duration::from_secs(600), shows).await.unwrap();
}

/// Waits until no body is being requested.
async fn settled(maps: &Referenced<ConfigMap>) {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        if maps.state().in_flight == 0 {
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_referenced_bodies_are_requested_and_held() {
    let server = Server::start();
    for name in ["a", "b", "c"] {
        set(&server, name, name);
    }
    let (_cache, maps) = started(&server);
    let a = maps.reference(&key("default/a"));
    assert_eq!(a.get().await.unwrap().map(|map| value(&map)).as_deref(), Some("a"));
    assert_eq!(maps.metadata().len(), 3);
    let (again, state) = (maps.reference(&key("default/a")), maps.state());
    assert_eq!((state.referenced, state.bodies, state.leased), (1, 1, 0));
    assert!(state.body_bytes > 0);
    assert_eq!(gets(&server), 1);
    drop(a);
    assert!(again.held().is_some(), "another reference exists");
    drop(again);
    assert_eq!(maps.state(), Default::default());
    let listed = server.api.requests().into_iter().filter(|request| request.is(Verb::Get, "configmaps"));
    assert!(listed.count() == 1, "the other bodies were never requested");
}

#[tokio::test(start_paused = true)]
async fn read_is_not_older_than_the_metadata_and_sends_one_request_for_each_version() {
    let server = Server::start();
    set(&server, "a", "1");
    let (_cache, maps) = started(&server);
    assert_eq!(read(&maps, "a").await.as_deref(), Some("1"));
    assert_eq!(read(&maps, "a").await.as_deref(), Some("1"));
    assert_eq!(gets(&server), 1, "the second read uses the held body");
    for number in 2..10 {
        set(&server, "a", &number.to_string());
        caught_up(&server, &maps).await;
        assert_eq!(read(&maps, "a").await, Some(number.to_string()));
    }
    assert_eq!(gets(&server), 9);
    tokio::time::sleep(BODY_LEASE + Duration::from_secs(1)).await;
    assert_eq!(maps.state().bodies, 0, "its lease has ended");
}

#[tokio::test(start_paused = true)]
async fn change_of_a_referenced_object_is_fetched_without_a_read() {
    let server = Server::start();
    set(&server, "a", "1");
    let (_cache, maps) = started(&server);
    let a = maps.reference(&key("default/a"));
    a.get().await.unwrap();
    set(&server, "a", "2");
    caught_up(&server, &maps).await;
    settled(&maps).await;
    assert_eq!(a.held().map(|map| value(&map)).as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn deleted_and_recreated_objects_never_show_the_old_body() {
    let server = Server::start();
    set(&server, "a", "old");
    let (_cache, maps) = started(&server);
    let a = maps.reference(&key("default/a"));
    a.get().await.unwrap();
    server.api.delete(&gvr("configmaps"), "default", "a").unwrap();
    caught_up(&server, &maps).await;
    assert!(a.get().await.unwrap().is_none());
    assert!(a.held().is_none());
    let before = gets(&server);
    assert!(read(&maps, "never-existed").await.is_none());
    assert_eq!(gets(&server), before, "objects that do not exist are not requested");
    set(&server, "a", "new");
    caught_up(&server, &maps).await;
    assert_eq!(read(&maps, "a").await.as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_before_its_body_is_fetched_reads_as_missing() {
    let server = Server::start();
    set(&server, "a", "1");
    let (_cache, maps) = started(&server);
    maps.metadata().wait_for_sync(SOON).await.unwrap();
    // The watch is blocked, so that the metadata does not show the deletion.
    let lagging = server.api.faults().on(FaultMatch::watch("configmaps")).status(503);
    server.api.disconnect_watchers();
    server.api.delete(&gvr("configmaps"), "default", "a").unwrap();
    assert!(read(&maps, "a").await.is_none());
    lagging.remove();
}

#[tokio::test(start_paused = true)]
async fn failed_fetch_fails_reads_with_its_cause_and_is_retried() {
    let server = Server::start();
    set(&server, "a", "1");
    let (_cache, maps) = started(&server);
    let a = maps.reference(&key("default/a"));
    a.get().await.unwrap();
    let forbidden = server.api.faults().on(FaultMatch::verb(Verb::Get)).status(403);
    set(&server, "a", "2");
    caught_up(&server, &maps).await;
    let error = a.get().await.unwrap_err();
    let ReadError::Body { cause, .. } = &error else { panic!("{error}") };
    let cause = cause.to_string();
    assert!(
        error.to_string().starts_with("read ConfigMap.v1 default/a: its body could not be fetched"),
        "{error}"
    );
    assert!(cause.contains("403") && cause.contains("; grant get on it"), "{cause}");
    assert_eq!(a.held().map(|map| value(&map)).as_deref(), Some("1"), "the last body is still held");
    let before = gets(&server);
    for _ in 0..100 {
        a.get().await.unwrap_err();
    }
    assert_eq!(gets(&server), before, "reads do not repeat a failed request");
    forbidden.remove();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(a.get().await.unwrap().map(|map| value(&map)).as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn restored_server_makes_the_cache_fetch_all_bodies_again() {
    let server = Server::start();
    set(&server, "a", "kept");
    let (_cache, maps) = started(&server);
    let a = maps.reference(&key("default/a"));
    a.get().await.unwrap();
    let backup = server.api.version();
    set(&server, "a", "lost");
    caught_up(&server, &maps).await;
    assert_eq!(read(&maps, "a").await.as_deref(), Some("lost"));
    server.api.rewind(backup).unwrap();
    server.api.disconnect_watchers();
    let informer = &maps.metadata().scoped_informers()[0].informer;
    informer.wait_until_for(Duration::from_secs(3600), |_| informer.rewinds() > 0).await.unwrap();
    assert_eq!(read(&maps, "a").await.as_deref(), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn reference_set_maps_changes_to_owners_and_releases_bodies() {
    let server = Server::start();
    for name in ["a", "b", "c"] {
        set(&server, name, name);
    }
    let (_cache, maps) = started(&server);
    let (references, one, two) = (maps.references(), key("web/one"), key("web/two"));
    references.set(&one, [key("default/a"), key("default/b")]);
    references.set(&two, [key("default/b")]);
    assert_eq!(references.owners("default/b"), [one.clone(), two.clone()]);
    assert_eq!(maps.state().referenced, 2);
    references.set(&one, [key("default/c")]);
    assert_eq!(references.owners("default/b"), std::slice::from_ref(&two));
    assert_eq!(references.targets(&one), [key("default/c")]);
    assert!(references.owners("default/a").is_empty());
    let (sender, mut changed) = mpsc::unbounded_channel();
    let mapped = references.clone();
    let handler = on_event(move |event: informer_cache::Event<Metadata<ConfigMap>>| {
        mapped.owners(event.key()).into_iter().for_each(|owner| sender.send(owner).unwrap());
    });
    let registration = maps.metadata().add_handler(handler).unwrap();
    registration.wait_for_sync(SOON).await.unwrap();
    while changed.try_recv().is_ok() {}
    set(&server, "c", "changed");
    assert_eq!(changed.recv().await, Some(one.clone()));
    references.remove(&one);
    assert_eq!(maps.state().referenced, 1);
    registration.remove_and_wait().await;
    drop(references);
    assert_eq!(maps.state().referenced, 0, "the last clone has released all references");
}

#[tokio::test(start_paused = true)]
async fn client_of_a_referenced_kind_reads_its_own_writes_and_rejects_lists() {
    let server = Server::start();
    let cache = server.cache().referenced::<Secret>().build();
    cache.start();
    let client = CachedClient::new(&cache);
    let secret = json!({"metadata": {"name": "db", "namespace": "default"}, "stringData": {"user": "one"}});
    client.create(&serde_json::from_value::<Secret>(secret).unwrap()).await.unwrap();
    for user in ["two", "three"] {
        let read = client.get::<Secret>("default/db").await.unwrap().expect("the write is shown");
        let mut edited = read.edit();
        edited.string_data = Some([("user".to_owned(), user.to_owned())].into());
        client.update(&edited).await.unwrap();
        let read = client.get::<Secret>("default/db").await.unwrap().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["user"].0, user.as_bytes());
    }
    client.delete::<Secret>("default/db").await.unwrap();
    assert!(client.get::<Secret>("default/db").await.unwrap().is_none());
    let error = client.list::<Secret>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::OtherRepresentation { .. }), "{error}");
    let kind = ResourceKind::of::<Secret>();
    assert!(cache.existing_informer::<Lazy<Secret>>(kind.gvk()).is_none(), "bodies are never watched");
}

#[tokio::test(start_paused = true)]
async fn transform_pruning_and_namespaces_of_the_cache_apply_to_bodies() {
    let server = Server::start();
    set(&server, "a", "1");
    let replaced = |_: Arc<Lazy<ConfigMap>>| {
        let map =
            r#"{"metadata":{"name":"a","namespace":"default","uid":"u"},"data":{"value":"transformed"}}"#;
        Ok(Arc::new(Lazy::from_json(map)?))
    };
    let options = InformerOptions::default().transform::<Lazy<ConfigMap>>(replaced);
    let cache = server.cache().namespaces(["default"]).options(options).build();
    cache.start();
    let maps = cache.referenced::<ConfigMap>().unwrap();
    assert_eq!(read(&maps, "a").await.as_deref(), Some("transformed"));
    let error = maps.get("other/a").await.unwrap_err();
    assert!(matches!(error, ReadError::UnknownNamespace { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn stopped_cache_and_removed_informer_end_the_requests() {
    let server = Server::start();
    set(&server, "a", "1");
    let cache = server.cache().build();
    let maps = cache.referenced::<ConfigMap>().unwrap();
    let error = maps.get("default/a").await.unwrap_err();
    assert!(matches!(error, ReadError::NotStarted { .. }), "{error}");
    cache.start();
    assert_eq!(read(&maps, "a").await.as_deref(), Some("1"));
    assert!(cache.remove::<Metadata<ConfigMap>>(ResourceKind::of::<ConfigMap>().gvk()));
    set(&server, "a", "2");
    let again = cache.referenced::<ConfigMap>().unwrap();
    assert_eq!(read(&again, "a").await.as_deref(), Some("2"), "the next use creates the informer again");
    let one_more = maps.reference(&key("default/b"));
    cache.stop().await;
    let before = gets(&server);
    let _reference = again.reference(&key("default/a"));
    settled(&again).await;
    assert_eq!(gets(&server), before);
    drop(one_more);
}
