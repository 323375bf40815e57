//! Tests that every type of client (for example with a namespace or an interceptor) works on caches of every
//! representation.

use std::sync::Arc;

use informer_apiserver::Verb;
use informer_client::{Lazy, Packed, Typed};
use informer_runtime::{
    CacheBuilder, CachedClient, DeleteOptions, ListOptions, Next, Operation, OperationResult, Patch,
    ReadError, ResourceKind,
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fixture::Server;

type Configure = fn(CacheBuilder) -> CacheBuilder;
type Derive = fn(CachedClient) -> CachedClient;

fn kind() -> ResourceKind {
    ResourceKind::of::<ConfigMap>()
}

const REPRESENTATIONS: [(&str, Configure); 4] = [
    ("default", |cache| cache),
    ("lazy", |cache| cache.pin_representation::<Lazy<ConfigMap>>(&kind())),
    ("typed", |cache| cache.pin_representation::<Typed<ConfigMap>>(&kind())),
    ("packed", |cache| cache.pin_representation::<Packed<ConfigMap>>(&kind())),
];

fn pass(client: CachedClient) -> CachedClient {
    client.intercept(|operation: Operation, next: Next| next.run(operation))
}

const CLIENTS: [(&str, Derive); 9] = [
    ("plain", |client| client),
    ("intercepted", pass),
    ("intercepted twice", |client| pass(pass(client))),
    ("field owner", |client| client.field_owner("test")),
    ("fenced", |client| client.fenced(|| Ok(()))),
    ("fenced and intercepted", |client| pass(client.fenced(|| Ok(())))),
    ("namespaced", |client| client.in_namespace("default")),
    ("namespaced and intercepted", |client| pass(client.in_namespace("default"))),
    ("uncached", |client| CachedClient::builder(client.cache()).uncached::<ConfigMap>().build()),
];

/// Runs a check with each type of client on a cache of each representation. The server has the ConfigMap
/// `default/m`.
async fn for_each(check: impl AsyncFn(Server, CachedClient) -> Result<(), Box<dyn std::error::Error>>) {
    for (representation, configure) in REPRESENTATIONS {
        for (name, derive) in CLIENTS {
            let server = Server::start();
            server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
            let cache = configure(server.cache()).build();
            cache.start();
            let checked = check(server, derive(CachedClient::new(&cache))).await;
            checked.unwrap_or_else(|error| panic!("{representation}, {name}: {error}"));
        }
    }
}

fn color(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("color")).map_or("", String::as_str)
}

fn paint(color: &str) -> Patch {
    Patch::merge(json!({"data": {"color": color}}))
}

#[tokio::test(start_paused = true)]
async fn all_clients_read_all_representations() {
    for_each(async |_server, client| {
        let map = client.get::<ConfigMap>("default/m").await?.ok_or("it exists")?;
        assert_eq!((color(&map), map.metadata.name.as_deref()), ("red", Some("m")));
        assert_eq!(map.key().ok_or("it has a key")?, "default/m");
        assert!(client.get::<ConfigMap>("default/none").await?.is_none());
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_clients_update_all_representations_and_read_own_writes() {
    for_each(async |_server, client| {
        let mut edited = client.get::<ConfigMap>("default/m").await?.ok_or("it exists")?.edit();
        edited.data.get_or_insert_default().insert("shape".to_owned(), "round".to_owned());
        client.update(&edited).await?;
        let map = client.get::<ConfigMap>("default/m").await?.ok_or("it exists")?;
        assert_eq!(json!(map.data), json!({"color": "red", "shape": "round"}));
        let (map, result) = client
            .create_or_update(ConfigMap::clone(&edited), |map| {
                map.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
                Ok(())
            })
            .await?;
        assert_eq!((color(&map), result), ("blue", OperationResult::Updated));
        client.delete_with::<ConfigMap>("default/m", &DeleteOptions::default()).await?;
        assert!(client.get::<ConfigMap>("default/m").await?.is_none());
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dry_runs_change_no_representation() {
    for_each(async |_server, client| {
        let dry = client.dry_run();
        dry.patch::<ConfigMap>("default/m", &paint("blue")).await?;
        for client in [client, dry] {
            assert_eq!(color(&*client.get::<ConfigMap>("default/m").await?.ok_or("it exists")?), "red");
        }
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn interceptor_sees_and_changes_all_representations() {
    for_each(async |_server, client| {
        let painting = client.intercept(|operation: Operation, next: Next| async move {
            let mut object: Value = next.run(operation).await?;
            assert_eq!(object["data"]["color"], "red");
            object["data"]["color"] = json!("painted");
            Ok(object)
        });
        let map = painting.get::<ConfigMap>("default/m").await?.ok_or("it exists")?;
        assert_eq!(color(&map), "painted");
        assert_eq!(map.key().ok_or("it has a key")?, "default/m");
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fields_that_a_typed_cache_dropped_survive_an_update_by_an_intercepted_client() {
    use crate::old_types::OldDeployment;
    let server = Server::start();
    let resources = json!({"requests": {"cpu": "1"}});
    let spec = json!({
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "a:1", "resources": resources}]},
        },
    });
    server.create("deployments", "default/web", json!({"spec": spec}));
    let cache = server
        .cache()
        .pin_representation::<Typed<OldDeployment>>(&ResourceKind::of::<OldDeployment>())
        .build();
    cache.start();
    let renaming = |operation: Operation, next: Next| async move {
        let mut object = next.run(operation.clone()).await?;
        if !operation.verb.is_write() {
            object["metadata"]["annotations"] = json!({"seen": "by the interceptor"});
        }
        Ok(object)
    };
    for client in [pass(CachedClient::new(&cache)), CachedClient::new(&cache).intercept(renaming)] {
        let web = client.get::<OldDeployment>("default/web").await.unwrap().unwrap();
        let mut edited = web.edit();
        let image = format!("{}0", edited.spec.template.spec.containers[0].image);
        edited.spec.template.spec.containers[0].image = image.clone();
        client.update(&edited).await.unwrap();
        let stored = server.get("deployments", "default/web");
        let main = &stored["spec"]["template"]["spec"]["containers"][0];
        assert_eq!((&main["image"], &main["resources"]), (&json!(image), &resources), "{stored}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_pinned_kind_name_its_representation() {
    let server = Server::start();
    let cache = server.cache().pin_representation::<Typed<ConfigMap>>(&kind()).build();
    cache.start();
    for client in [CachedClient::new(&cache), pass(CachedClient::new(&cache))] {
        let error = client.list::<ConfigMap>(&ListOptions::default()).await.unwrap_err();
        assert!(matches!(error, ReadError::OtherRepresentation { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn interceptor_sees_dynamic_reads_of_the_cache() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let cache = server.cache().build();
    cache.start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let client = CachedClient::builder(&cache).cache_dynamic(true).build();
    let client = client.intercept(move |operation: Operation, next: Next| {
        log.lock().push(operation.to_string());
        next.run(operation)
    });
    let maps = client.dynamic(kind());
    let map = maps.get("default/m").await.unwrap().expect("it exists");
    assert_eq!((&map.data["data"]["color"], map.metadata.name.as_deref()), (&json!("red"), Some("m")));
    assert!(maps.get("default/none").await.unwrap().is_none());
    assert_eq!(maps.list(&ListOptions::default()).await.unwrap().len(), 1);
    assert_eq!(*seen.lock(), ["get configmaps default/m", "get configmaps default/none", "list configmaps"]);
    assert_eq!(server.api.count_requests(Verb::Get, "configmaps"), 0, "the cache returns the object");
}
