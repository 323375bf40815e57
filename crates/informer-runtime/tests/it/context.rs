//! Tests of `Context::list` and `Context::owned`, which read watched kinds from the cache of a controller.

use informer_apiserver::{ApiServer, Controllers, FaultAction, FaultMatch, Verb};
use informer_client::{Lazy, Packed, Representation, Typed};
use informer_runtime::testing::TestContext;
use informer_runtime::{
    CachedClient, Context, Fetched, ListOptions, LookupError, ReadError, ResourceKind,
    set_controller_reference, set_owner_reference,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use serde_json::{Value, json};

use crate::client::config_map;
use crate::fixture::{SOON, Server, gvr};
use crate::newer_server::{NewerMap, newer};

/// Starts a server that keeps objects whose owner does not exist.
fn without_garbage_collector() -> Server {
    Server { api: ApiServer::builder().controllers(Controllers::NONE).build() }
}

/// Returns the context of a controller whose cache has ConfigMaps in the representation `O`.
async fn context<O: Representation>(server: &Server) -> Context {
    let cache = server.cache().build();
    cache.informer_of::<O>(ResourceKind::of::<ConfigMap>());
    context_of(&CachedClient::new(&cache)).await
}

async fn context_of(client: &CachedClient) -> Context {
    let context = TestContext::builder(client).build().await.expect("no kind must sync").context();
    client.cache().wait_for_sync(SOON).await.expect("the server responds");
    context
}

fn names(maps: &[Fetched<ConfigMap>]) -> Vec<String> {
    let mut names: Vec<String> =
        maps.iter().map(|map| map.key().expect("a name").name().to_owned()).collect();
    names.sort();
    names
}

/// Creates a ConfigMap with these owner references.
fn child(server: &Server, key: &str, owners: &[Value]) {
    server.create("configmaps", key, json!({"metadata": {"ownerReferences": owners}}));
}

fn owner(uid: &str, controller: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "name": "web", "uid": uid, "controller": controller})
}

fn parent(key: &str, uid: &str) -> Secret {
    let (namespace, name) = key.split_once('/').expect("a key with a namespace");
    let metadata = json!({"name": name, "namespace": namespace, "uid": uid});
    serde_json::from_value(json!({"metadata": metadata})).expect("a valid Secret")
}

#[tokio::test(start_paused = true)]
async fn context_lists_each_representation_that_decodes_objects() {
    let server = Server::start();
    for (key, label) in [("a/one", "web"), ("a/two", "web"), ("a/three", "db"), ("b/four", "web")] {
        server.create("configmaps", key, json!({"metadata": {"labels": {"app": label}}, "data": {"k": key}}));
    }
    let contexts = [
        context::<Lazy<ConfigMap>>(&server).await,
        context::<Typed<ConfigMap>>(&server).await,
        context::<Packed<ConfigMap>>(&server).await,
    ];
    for ctx in contexts {
        let all = ctx.list::<ConfigMap>(&ListOptions::default()).await.unwrap();
        assert_eq!(names(&all), ["four", "one", "three", "two"]);
        let web = ListOptions::default().namespace("a").labels("app=web".parse().unwrap());
        let selected = ctx.list::<ConfigMap>(&web).await.unwrap();
        assert_eq!(names(&selected), ["one", "two"]);
        let first = selected.iter().find(|map| map.metadata.name.as_deref() == Some("one")).unwrap();
        assert_eq!(first.data.as_ref().unwrap()["k"], "a/one");
        let mut edited = first.edit();
        edited.data = None;
        assert!(ctx.client.dry_run().update(&edited).await.unwrap().data.is_none());
        assert_eq!(ctx.list::<ConfigMap>(&web.limit(1)).await.unwrap().len(), 1);
    }
    assert_eq!(server.api.count_requests(Verb::Get, "configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn context_list_of_an_unwatched_kind_or_field_is_an_error() {
    let server = Server::start();
    let ctx = context::<Lazy<ConfigMap>>(&server).await;
    let unwatched = [
        ctx.list::<Pod>(&ListOptions::default()).await.unwrap_err(),
        ctx.owned::<Pod>(&parent("a/web", "u")).await.unwrap_err(),
    ];
    let remedy = "the kind is not in the cache; let the controller watch it, or read it with `ctx.client`";
    for (error, attempt) in unwatched.into_iter().zip(["list Pod.v1", "list Pod.v1 of Secret a/web"]) {
        assert!(matches!(&error, LookupError::NotWatched { kind, .. } if kind == "Pod.v1"), "{error}");
        assert_eq!(error.to_string(), format!("{attempt}: {remedy}"));
    }
    assert!(server.api.requests().iter().all(|request| !format!("{:?}", request.gvr).contains("pods")));
    let fields = ListOptions::default().fields("data.k=v".parse().unwrap());
    let error = ctx.list::<ConfigMap>(&fields).await.unwrap_err();
    assert!(matches!(error, LookupError::Read(ReadError::NoIndex { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn context_list_and_owned_wait_for_own_writes() {
    let server = without_garbage_collector();
    server.api.faults().on(FaultMatch::watch("configmaps")).then(FaultAction::Lag { millis: 500 });
    let ctx = context::<Lazy<ConfigMap>>(&server).await;
    let web = parent("default/web", "u-1");
    for name in ["one", "two"] {
        let mut map = config_map(&format!("default/{name}"), "red");
        set_controller_reference(&web, &mut map).unwrap();
        ctx.client.create(&map).await.unwrap();
        assert!(ctx.get_cached::<ConfigMap>(&format!("default/{name}")).unwrap().is_none());
        let listed = ctx.list::<ConfigMap>(&ListOptions::default().namespace("default")).await.unwrap();
        let owned = ctx.owned::<ConfigMap>(&web).await.unwrap();
        let expected: &[&str] = if name == "one" { &["one"] } else { &["one", "two"] };
        assert_eq!(names(&listed), expected);
        assert_eq!(names(&owned), expected);
    }
    ctx.client.delete::<ConfigMap>("default/one").await.unwrap();
    assert_eq!(names(&ctx.owned::<ConfigMap>(&web).await.unwrap()), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn owned_returns_the_objects_whose_controller_has_the_uid_of_the_owner() {
    let server = without_garbage_collector();
    child(&server, "a/mine", &[owner("u-2", true)]);
    child(&server, "a/shared", &[owner("u-1", false), owner("u-2", true)]);
    child(&server, "a/second-owner", &[owner("u-2", false)]);
    child(&server, "a/other-controller", &[owner("u-2", false), owner("u-3", true)]);
    child(&server, "a/of-earlier-owner", &[owner("u-1", true)]);
    child(&server, "a/orphan", &[]);
    child(&server, "b/elsewhere", &[owner("u-2", true)]);
    let web = parent("a/web", "u-2");
    let contexts = [
        context::<Lazy<ConfigMap>>(&server).await,
        context::<Typed<ConfigMap>>(&server).await,
        context::<Packed<ConfigMap>>(&server).await,
    ];
    for ctx in contexts {
        // The first call scans the objects and adds the index that the second one uses.
        for _ in 0..2 {
            assert_eq!(names(&ctx.owned::<ConfigMap>(&web).await.unwrap()), ["mine", "shared"]);
        }
        let earlier = ctx.owned::<ConfigMap>(&parent("a/web", "u-1")).await.unwrap();
        assert_eq!(names(&earlier), ["of-earlier-owner"]);
        assert!(ctx.owned::<ConfigMap>(&parent("c/web", "u-2")).await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn owned_follows_changes_of_the_controller_reference() {
    let server = without_garbage_collector();
    child(&server, "a/one", &[owner("u-1", true)]);
    child(&server, "a/two", &[]);
    let (ctx, web) = (context::<Lazy<ConfigMap>>(&server).await, parent("a/web", "u-1"));
    let indexes = || {
        let maps = ctx.cache.informer::<ConfigMap>();
        let indexers = maps.scoped_informers()[0].informer.indexer().indexers();
        indexers.names().filter(|name| name.starts_with("owner:")).count()
    };
    assert_eq!(indexes(), 0);
    assert_eq!(names(&ctx.owned::<ConfigMap>(&web).await.unwrap()), ["one"]);
    assert_eq!(indexes(), 1);
    let adopt = |map: &mut ConfigMap| set_controller_reference(&web, map).expect("it has no controller");
    ctx.client.edit("a/two", adopt).await.unwrap();
    ctx.client.edit("a/one", |map: &mut ConfigMap| map.metadata.owner_references = None).await.unwrap();
    assert_eq!(names(&ctx.owned::<ConfigMap>(&web).await.unwrap()), ["two"]);
    assert_eq!(indexes(), 1);
}

#[tokio::test(start_paused = true)]
async fn owner_is_passed_as_an_object_or_as_it_was_read() {
    let server = Server::start();
    let secret = server.create("secrets", "a/web", json!({}));
    let ctx = context::<Lazy<ConfigMap>>(&server).await;
    let web = ctx.client.live().get::<Secret>("a/web").await.unwrap().unwrap();
    let (mut map, mut second) = (config_map("a/one", "red"), config_map("a/two", "red"));
    set_controller_reference(&web, &mut map).unwrap();
    set_owner_reference(&web, &mut second).unwrap();
    let reference = &map.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(json!(reference.uid), secret["metadata"]["uid"]);
    ctx.client.create(&map).await.unwrap();
    ctx.client.create(&second).await.unwrap();
    for owned in [ctx.owned::<ConfigMap>(&web).await, ctx.owned::<ConfigMap>(&**web.view()).await] {
        assert_eq!(names(&owned.unwrap()), ["one"]);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_cluster_scoped_owner_are_found_in_all_cached_namespaces() {
    let server = without_garbage_collector();
    for key in ["a/one", "b/two", "c/three"] {
        child(&server, key, &[owner("u-1", true)]);
    }
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "uid": "u-1"}})).unwrap();
    let everything = context::<Lazy<ConfigMap>>(&server).await;
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.informer::<ConfigMap>();
    let restricted = context_of(&CachedClient::new(&cache)).await;
    for _ in 0..2 {
        let all = everything.owned::<ConfigMap>(&node).await.unwrap();
        assert_eq!(names(&all), ["one", "three", "two"]);
        assert_eq!(names(&restricted.owned::<ConfigMap>(&node).await.unwrap()), ["one", "two"]);
        let of_secret = restricted.owned::<ConfigMap>(&parent("b/web", "u-1")).await.unwrap();
        assert_eq!(names(&of_secret), ["two"]);
        let error = restricted.owned::<ConfigMap>(&parent("c/web", "u-1")).await.unwrap_err();
        assert!(matches!(error, LookupError::Read(ReadError::UnknownNamespace { .. })), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn owner_that_was_not_read_is_an_error() {
    let server = Server::start();
    let ctx = context::<Lazy<ConfigMap>>(&server).await;
    let error = ctx.owned::<ConfigMap>(&parent("a/web", "")).await.unwrap_err();
    assert!(matches!(error, LookupError::OwnerNotStored { .. }), "{error}");
    let text = "list ConfigMap.v1 of Secret a/web: the owner has no uid; create it first, or pass the object \
        that was read";
    assert_eq!(error.to_string(), text);
    let error = ctx.owned::<ConfigMap>(&Secret::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("list ConfigMap.v1 of Secret without a name: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_fails_the_list() {
    let server = Server::start();
    server.create("configmaps", "a/valid", json!({}));
    let ctx = context::<Lazy<ConfigMap>>(&server).await;
    let invalid = json!({"metadata": {"name": "invalid", "namespace": "a"}, "immutable": "yes"});
    server.api.raw().create(&gvr("configmaps"), "a", invalid).unwrap();
    tokio::time::sleep(SOON).await;
    let error = ctx.list::<ConfigMap>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, LookupError::Read(ReadError::Decode(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn listed_objects_have_fields_that_the_type_knows_and_the_table_does_not() {
    let server = newer();
    let reference = json!([owner("u-1", true)]);
    for key in ["a/one", "a/two"] {
        let metadata = json!({"ownerReferences": reference});
        server.create(
            "configmaps",
            key,
            json!({"metadata": metadata, "data": {"k": "v"}, "audience": "all"}),
        );
    }
    // The objects lack the field in the cache, so each is read from the server.
    let ctx = context::<Lazy<NewerMap>>(&server).await;
    let listed = ctx.list::<NewerMap>(&ListOptions::default()).await.unwrap();
    assert_eq!(listed.iter().filter(|map| map.audience.as_deref() == Some("all")).count(), 2);
    assert_eq!(server.api.count_requests(Verb::Get, "configmaps"), 2);
    let owned = ctx.owned::<NewerMap>(&parent("a/web", "u-1")).await.unwrap();
    assert_eq!(owned.iter().filter(|map| map.audience.as_deref() == Some("all")).count(), 2);
}
