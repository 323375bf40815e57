//! Tests of the objects over HTTP.

use bytes::Bytes;
use informer_client::{Dynamic, Metadata, Typed};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};

use super::super::objects::{MAX_OBJECT_BYTES, ObjectRead};
use super::super::{ConsoleRoutes, ObjectContent, ObjectList};
use super::actions::routes;
use super::*;
use crate::{Cache, ListOptions, ResourceKind};

const OBJECTS: &str = "/debug/informer/v1/objects?informer=secrets.v1";
const OBJECT: &str = "/debug/informer/v1/object?informer=secrets.v1&key=default%2Fs";
const LOCAL: &str = "host: localhost\r\n";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn shown(server: HttpServer) -> Console {
    Console::from(server).show_objects(true)
}

/// A manager whose console is read without a socket, so that the test runs in paused time.
struct Offline {
    server: ApiServer,
    routes: Arc<ConsoleRoutes>,
    cache: Cache,
    _manager: Manager,
}

impl Offline {
    fn new() -> Self {
        let server = ApiServer::builder().build();
        let manager = Manager::new(Client::from_service(server.service(), "default"));
        let (routes, cache) = (Arc::new(routes(&manager)), manager.handle().services().cache.clone());
        cache.start();
        Self { server, routes, cache, _manager: manager }
    }

    fn create(&self, resource: &str, namespace: &str, object: Value) {
        self.server.create(&Gvr::new("", "v1", resource), namespace, object).expect("a valid object");
    }

    /// Returns the name of the informer of metadata of a resource, which also has one of whole objects.
    fn metadata_informer(&self, resource: &str) -> String {
        let names = || self.cache.states().into_iter().map(|state| state.name);
        let found = names().find(|name| name.starts_with(resource) && name != resource);
        found.unwrap_or_else(|| panic!("{:?}", names().collect::<Vec<_>>()))
    }

    /// Returns the status and the body of the response.
    async fn read(&self, read: ObjectRead, query: &str) -> (u16, String) {
        let request = http::Request::get(format!("/?{query}")).body(Bytes::new()).expect("a valid request");
        let response = Arc::clone(&self.routes).read_objects(read, request).await;
        (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
    }

    async fn list(&self, query: &str) -> ObjectList {
        let (status, body) = self.read(ObjectRead::List, query).await;
        assert_eq!(status, 200, "{body}");
        same::<ObjectList>(&serde_json::from_str(&body).expect("JSON"));
        serde_json::from_str(&body).expect("a list")
    }

    async fn object(&self, informer: &str, key: &str) -> ObjectContent {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("informer", informer), ("key", key)])
            .finish();
        let (status, body) = self.read(ObjectRead::Get, &query).await;
        assert_eq!(status, 200, "{body}");
        same::<ObjectContent>(&serde_json::from_str(&body).expect("JSON"));
        serde_json::from_str(&body).expect("an object")
    }
}

fn keys(list: &ObjectList) -> Vec<&str> {
    list.objects.iter().map(|object| object.key.as_str()).collect()
}

#[tokio::test]
async fn objects_are_refused_by_default() {
    let running = running(here(), 2).await;
    assert_eq!(running.json("/debug/informer/v1/snapshot").await["showsObjects"], json!(false));
    for path in [OBJECTS, OBJECT] {
        let response = running.get(path).await;
        assert!(
            response.starts_with("HTTP/1.1 403") && response.contains("Console::show_objects"),
            "{response}"
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn objects_of_an_open_server_are_shown_only_on_a_loopback_address() {
    let local = running(shown(here()), 2).await;
    assert_eq!(local.json("/debug/informer/v1/snapshot").await["showsObjects"], json!(true));
    assert_eq!(local.json(OBJECTS).await["objects"][0]["key"], "default/s");
    assert_eq!(local.json(OBJECT).await["object"]["metadata"]["name"], "s");
    for headers in ["host: attacker.example\r\n", "host: localhost\r\norigin: https://attacker.example\r\n"] {
        let response = request(local.address, OBJECT, headers).await;
        assert!(response.starts_with("HTTP/1.1 403"), "{headers}{response}");
    }
    local.stop().await;

    let open = running(shown(HttpServer::at("0.0.0.0:0")), 2).await;
    assert_eq!(open.json("/debug/informer/v1/snapshot").await["showsObjects"], json!(false));
    for path in [OBJECTS, OBJECT] {
        let response = request(open.address, path, LOCAL).await;
        assert!(response.starts_with("HTTP/1.1 403") && response.contains("authorized_by"), "{response}");
    }
    open.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_of_each_representation_is_shown_as_json() {
    let offline = Offline::new();
    let metadata = json!({"name": "a", "labels": {"app": "shop"}, "annotations": {"note": "b"},
        "finalizers": ["example.com/keep"]});
    offline.create("configmaps", "default", json!({"metadata": metadata, "data": {"color": "red"}}));
    offline.create(
        "services",
        "default",
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
    );
    let all = ListOptions::default();
    offline.cache.list::<ConfigMap>(&all).await.expect("lazy objects");
    offline
        .cache
        .list_of::<Typed<Service>>(ResourceKind::of::<Service>(), &all)
        .await
        .expect("typed objects");
    offline.cache.list_of::<Metadata>(ResourceKind::of::<ConfigMap>(), &all).await.expect("metadata");
    offline.cache.list_of::<Dynamic>(ResourceKind::of::<Namespace>(), &all).await.expect("dynamic objects");

    let lazy = offline.object("configmaps.v1", "default/a").await;
    assert_eq!(lazy.object["data"]["color"], json!("red"), "{}", lazy.object);
    assert_eq!(lazy.object["metadata"]["resourceVersion"], json!(lazy.resource_version));
    assert!(!lazy.metadata_only && !lazy.redacted);
    assert_eq!((&lazy.object["apiVersion"], &lazy.object["kind"]), (&json!("v1"), &json!("ConfigMap")));
    let names: Vec<String> = offline.cache.states().into_iter().map(|state| state.name).collect();
    let typed = names.iter().find(|name| name.starts_with("services.v1")).expect("an informer");
    assert_eq!(offline.object(typed, "default/s").await.object["spec"]["ports"][0]["port"], json!(80));
    let dynamic = offline.object("namespaces.v1", "default").await;
    assert_eq!(dynamic.object["kind"], json!("Namespace"));

    let only = offline.object(&offline.metadata_informer("configmaps.v1"), "default/a").await;
    assert!(only.metadata_only && !only.redacted);
    assert_eq!(only.object["data"], json!(null));
    let shown = &only.object["metadata"];
    assert_eq!((&shown["labels"], &shown["finalizers"]), (&metadata["labels"], &metadata["finalizers"]));
    assert_eq!((&shown["annotations"], &shown["uid"].is_string()), (&metadata["annotations"], &true));
}

#[tokio::test(start_paused = true)]
async fn values_of_secrets_are_never_shown() {
    let offline = Offline::new();
    let applied = json!({"stringData": {"password": MARKER}}).to_string();
    let metadata = json!({"name": "s", "annotations": {LAST_APPLIED: applied}});
    offline.create("secrets", "default", json!({"metadata": metadata, "stringData": {"password": MARKER}}));
    let all = ListOptions::default();
    let kind = || ResourceKind::of::<Secret>();
    offline.cache.list::<Secret>(&all).await.expect("lazy objects");
    offline.cache.list_of::<Metadata>(kind(), &all).await.expect("metadata");
    let lazy = offline.object("secrets.v1", "default/s").await;
    assert!(lazy.redacted);
    assert_eq!(lazy.object["data"], json!({"password": format!("(redacted, {} bytes)", MARKER.len())}));
    let only = offline.object(&offline.metadata_informer("secrets.v1"), "default/s").await;
    assert!(only.redacted && only.metadata_only);
    for shown in [lazy, only] {
        let text = shown.object.to_string();
        assert!(!text.contains(MARKER) && !text.contains("ZG8tbm90LXNob3ctdGhpcw"), "{text}");
        let annotation = shown.object["metadata"]["annotations"][LAST_APPLIED].as_str().expect("a string");
        assert!(annotation.starts_with("(redacted, "), "{annotation}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_sorted_filtered_and_paged() {
    let offline = Offline::new();
    for name in ["b", "a", "other", "d", "c"] {
        offline.create("configmaps", "default", json!({"metadata": {"name": name}}));
    }
    offline.cache.list::<ConfigMap>(&ListOptions::default()).await.expect("a read creates an informer");
    let all = offline.list("informer=configmaps.v1").await;
    assert_eq!(keys(&all), ["default/a", "default/b", "default/c", "default/d", "default/other"]);
    assert_eq!((all.total, all.matching, &all.next), (5, 5, &None));
    assert!(all.objects.iter().all(|object| !object.resource_version.is_empty()), "{all:?}");
    let first = offline.list("informer=configmaps.v1&limit=2").await;
    assert_eq!((keys(&first), first.next.as_deref()), (vec!["default/a", "default/b"], Some("default/b")));
    let second = offline.list("informer=configmaps.v1&limit=2&after=default%2Fb").await;
    assert_eq!((keys(&second), second.next.as_deref()), (vec!["default/c", "default/d"], Some("default/d")));
    assert_eq!((first.before, second.before), (0, 2));
    let last = offline.list("informer=configmaps.v1&limit=2&after=default%2Fd").await;
    assert_eq!((keys(&last), &last.next), (vec!["default/other"], &None));
    let filtered = offline.list("informer=configmaps.v1&contains=%2Fo&limit=1").await;
    assert_eq!((keys(&filtered), filtered.total, filtered.matching), (vec!["default/other"], 5, 1));
    assert_eq!(filtered.next, None);
    let filtered = offline.list("informer=configmaps.v1&contains=%2Fo&after=default%2Fz").await;
    assert_eq!((keys(&filtered), filtered.before), (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn reads_beyond_the_limit_are_rejected_and_can_be_repeated() {
    let offline = Offline::new();
    offline.cache.list::<ConfigMap>(&ListOptions::default()).await.expect("a read creates an informer");
    let running = Arc::clone(&offline.routes.reads).acquire_owned().await.expect("the semaphore is open");
    let (status, problem) = offline.read(ObjectRead::List, "informer=configmaps.v1").await;
    assert!(status == 503 && problem.contains("retry in a second"), "{status} {problem}");
    drop(running);
    assert_eq!(offline.read(ObjectRead::List, "informer=configmaps.v1").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn invalid_reads_of_objects_name_the_problem() {
    let offline = Offline::new();
    let all = ListOptions::default();
    let large = "x".repeat(MAX_OBJECT_BYTES);
    let large = json!({"metadata": {"name": "large", "namespace": "default"}, "data": {"large": large}});
    // No API server accepts an object of this size, so it is stored without validation.
    let maps = Gvr::new("", "v1", "configmaps");
    offline.server.raw().load(&maps, [large]).expect("a stored object");
    offline.cache.list::<ConfigMap>(&all).await.expect("a read creates an informer");
    offline.cache.list::<Service>(&all).await.expect("a read creates an informer");
    offline.cache.list_of::<Dynamic>(ResourceKind::of::<Service>(), &all).await.expect("another informer");
    let long = format!("informer=configmaps.v1&key={}", "a".repeat(2_000));
    for (read, query, status, part) in [
        (ObjectRead::List, "", 400, "list objects: the parameter `informer` is missing"),
        (ObjectRead::List, "informer=configmaps.v1&limit=0", 400, "`limit` is not a number from 1 to 500"),
        (ObjectRead::List, "informer=configmaps.v1&limit=501", 400, "`limit` is not a number from 1 to 500"),
        (ObjectRead::Get, "informer=configmaps.v1", 400, "read object: the parameter `key` is missing"),
        (ObjectRead::Get, long.as_str(), 400, "`key` has more than 1024 bytes"),
        (ObjectRead::List, "informer=pods.v1", 404, "list objects of pods.v1: there is no informer"),
        (
            ObjectRead::Get,
            "informer=configmaps.v1&key=a",
            404,
            "read object a of configmaps.v1: the cache has no",
        ),
        (ObjectRead::Get, "informer=services.v1&key=a", 409, "services.v1: several informers have this name"),
        (ObjectRead::Get, "informer=configmaps.v1&key=default/large", 413, "has more than 4194304 bytes"),
    ] {
        let (found, problem) = offline.read(read, query).await;
        assert!(found == status && problem.contains(part), "{query}: {found} {problem}");
        assert!(problem.contains("; "), "the remedy is missing: {problem}");
    }
}
