//! Tests that packed caches behave like lazy ones and use less memory. A packed cache compresses its objects
//! with a dictionary, which it trains on the first ones.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::Verb;
use informer_cache::handler::{EventHandler, on_event};
use informer_client::{DecodeError, Lazy, Packed};
use informer_core::Object;
use informer_runtime::source::watch_packed;
use informer_runtime::{
    Cache, CacheInformer, CachedClient, CancellationToken, Controller, ListOptions, Manager, Outcome,
    ReadError, ResourceKind, typed,
};
use informer_store::field;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::fixture::{SOON, Server, gvr, pod_spec};

/// The number of Pods in the test. The dictionary is trained on fewer Pods, so some are compressed with it
/// and some without.
const PODS: usize = 450;

type Log = Arc<Mutex<Vec<String>>>;

fn note<O: Object>(log: Log, json: fn(&O) -> Result<String, DecodeError>) -> impl EventHandler<O> {
    on_event(move |event| {
        log.lock().push(format!("{event}: {}", json(event.object()).expect("a decodable object")))
    })
}

/// Empties the log of events that a handler has received, and returns its entries in sorted order. The order
/// of events of an initial list is unspecified.
fn sorted(log: &Log) -> Vec<String> {
    let mut log = std::mem::take(&mut *log.lock());
    log.sort();
    log
}

fn pod(number: usize) -> Value {
    let mut pod = pod_spec();
    pod["metadata"] = json!({
        "labels": {"app": if number.is_multiple_of(2) { "web" } else { "api" }},
        "annotations": {"number": number.to_string()},
    });
    pod["spec"]["nodeName"] = json!(format!("worker-{}", number % 7));
    pod
}

fn change(server: &Server, key: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut object = server.get("pods", key);
    change(&mut object);
    let (namespace, _) = key.split_once('/').expect("a key with a namespace");
    let changed = server.api.update(&gvr("pods"), namespace, object).expect("a valid object");
    changed["metadata"]["resourceVersion"].as_str().expect("a resourceVersion").to_owned()
}

async fn selected<O, T>(cache: &Cache, options: &ListOptions, text: impl Fn(&O) -> T) -> Vec<(String, T)>
where
    O: informer_client::Representation,
{
    let list = cache.list_of::<O>(ResourceKind::of::<Pod>(), options).await.expect("a cached kind");
    let mut list: Vec<_> = list.iter().map(|pod| (pod.key().to_string(), text(pod.as_ref()))).collect();
    list.sort_by(|one, other| one.0.cmp(&other.0));
    list
}

async fn until_both_show(
    version: &str,
    lazy: &CacheInformer<Lazy<Pod>>,
    packed: &CacheInformer<Packed<Pod>>,
) {
    lazy.scoped_informers()[0]
        .informer
        .wait_until(|pods| pods.resource_version() == version)
        .await
        .expect("the store reaches the version");
    packed.scoped_informers()[0]
        .informer
        .wait_until(|pods| pods.resource_version() == version)
        .await
        .expect("the store reaches the version");
    // A handler is called only after the store has the change. The pause gives the handlers time to receive
    // all events.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn packed_cache_behaves_like_lazy_cache() {
    let server = Server::start();
    (0..PODS).for_each(|number| drop(server.create("pods", &format!("a/pod-{number}"), pod(number))));
    let cache = server.cache().build();
    let (lazy, packed) = (cache.informer::<Pod>(), cache.packed::<Pod>());
    let (of_lazy, of_packed) = (Log::default(), Log::default());
    lazy.add_handler(note(Arc::clone(&of_lazy), |pod: &Lazy<Pod>| pod.json().map(Cow::into_owned))).unwrap();
    packed.add_handler(note(Arc::clone(&of_packed), Packed::<Pod>::json)).unwrap();
    let kind = ResourceKind::of::<Pod>();
    cache.index_field_of::<Lazy<Pod>>(&kind, "spec.nodeName", field("spec.nodeName")).unwrap();
    cache.index_field_of::<Packed<Pod>>(&kind, "spec.nodeName", field("spec.nodeName")).unwrap();
    let image = |pod: &Pod| -> Vec<String> {
        pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|each| each.image.clone()).collect()
    };
    cache.index_field_of::<Lazy<Pod>>(&kind, "image", typed(image)).unwrap();
    cache.index_field_of::<Packed<Pod>>(&kind, "image", typed(image)).unwrap();
    cache.start();
    cache.wait_for_sync(SOON).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = sorted(&of_packed);
    assert_eq!(told.len(), PODS);
    assert_eq!(told, sorted(&of_lazy), "the first list");

    change(&server, "a/pod-1", |pod| {
        pod["spec"]["containers"][0]["image"] = json!("registry.example.com/new:2")
    });
    server.api.delete(&gvr("pods"), "a", "pod-2").expect("it exists");
    server.create("pods", "b/later", pod(3));
    let last = change(&server, "b/later", |pod| pod["metadata"]["labels"]["app"] = json!("web"));
    until_both_show(&last, &lazy, &packed).await;
    let told = std::mem::take(&mut *of_packed.lock());
    // The server first marks a deleted Pod with a deletion timestamp, which is an additional update event.
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told, std::mem::take(&mut *of_lazy.lock()), "later changes, in the same order");

    let selectors = [
        ListOptions::default(),
        ListOptions::default().labels("app=web".parse().unwrap()).namespace("a"),
        ListOptions::default().fields("spec.nodeName=worker-3".parse().unwrap()),
        ListOptions::default().fields("image=registry.example.com/new:2".parse().unwrap()),
    ];
    for options in selectors {
        let texts = selected(&cache, &options, |pod: &Packed<Pod>| pod.json().unwrap()).await;
        assert!(!texts.is_empty(), "{options:?}");
        let others = selected(&cache, &options, |pod: &Lazy<Pod>| pod.json().unwrap().into_owned()).await;
        assert_eq!(texts, others, "{options:?}");
        let typed = selected(&cache, &options, |pod: &Packed<Pod>| pod.get().unwrap()).await;
        assert_eq!(typed, selected(&cache, &options, |pod: &Lazy<Pod>| pod.get().unwrap()).await);
    }
    // Objects of this size are only smaller if they are compressed with a dictionary. The cache has no
    // dictionary for the first objects, so the test compares the last one.
    let bytes_of_last =
        |objects: Vec<(String, usize)>| objects.last().map(|(key, bytes)| (key.clone(), *bytes));
    let namespace = ListOptions::default().namespace("b");
    let in_lazy = bytes_of_last(selected(&cache, &namespace, Lazy::<Pod>::held_bytes).await);
    let in_packed = bytes_of_last(selected(&cache, &namespace, Packed::<Pod>::held_bytes).await);
    let (Some((one, in_lazy)), Some((other, in_packed))) = (in_lazy, in_packed) else { panic!("it exists") };
    assert_eq!((one.as_str(), other.as_str()), ("b/later", "b/later"));
    assert!(in_packed + 50 < in_lazy, "{in_packed} and {in_lazy} bytes");
}

#[tokio::test(start_paused = true)]
async fn kind_pinned_to_packed_is_read_and_written_through_the_client() {
    let server = Server::start();
    server.create("configmaps", "a/m", json!({"data": {"color": "red"}}));
    let kind = ResourceKind::of::<ConfigMap>();
    let cache = server.cache().pin_representation::<Packed<ConfigMap>>(&kind).build();
    cache.start();
    let client = CachedClient::new(&cache);
    let read = client.get::<ConfigMap>("a/m").await.unwrap().expect("it exists");
    assert_eq!(read.key().unwrap().as_str(), "a/m");
    let mut edited = read.edit();
    edited.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
    let written = client.update(&edited).await.unwrap();
    client.wait_until_cached(&written, SOON).await.unwrap();
    let read = client.get::<ConfigMap>("a/m").await.unwrap().expect("it exists");
    assert_eq!(read.data.as_ref().unwrap()["color"], "blue");
    assert!(client.get::<ConfigMap>("a/none").await.unwrap().is_none());
    let error = client.list::<ConfigMap>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::OtherRepresentation { .. }), "{error}");
    assert_eq!(server.api.count_requests(Verb::Get, "configmaps"), 0, "no request to the server");
}

#[tokio::test(start_paused = true)]
async fn controller_of_packed_objects_reconciles_their_changes() {
    let server = Server::start();
    server.create("configmaps", "a/m", json!({"data": {"color": "red"}}));
    let seen: Log = Arc::default();
    let log = Arc::clone(&seen);
    let controller = Controller::builder().named("maps").for_with(watch_packed::<ConfigMap>()).reconcile(
        move |request, ctx| {
            let log = Arc::clone(&log);
            async move {
                let map = ctx.get::<ConfigMap>(&request.key).await?;
                let color = map.map(|map| map.data.as_ref().unwrap()["color"].clone());
                log.lock().push(format!("{}: {color:?}", request.key));
                Ok(Outcome::Done)
            }
        },
    );
    let stop = CancellationToken::new();
    let manager = Manager::new(server.api_client()).controller(controller);
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut changed = server.get("configmaps", "a/m");
    changed["data"]["color"] = json!("blue");
    server.api.update(&gvr("configmaps"), "a", changed).expect("a valid object");
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.api.delete(&gvr("configmaps"), "a", "m").expect("it exists");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(*seen.lock(), [r#"a/m: Some("red")"#, r#"a/m: Some("blue")"#, "a/m: None"]);
    stop.cancel();
    running.await.expect("no panic").expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn secrets_can_be_cached_packed() {
    let server = Server::start();
    server.create("secrets", "a/s", json!({"data": {"password": "aHVudGVyMg=="}}));
    let cache = server.cache().build();
    cache.start();
    let secret = cache.get_of::<Packed<Secret>>(ResourceKind::of::<Secret>(), "a/s").await.unwrap().unwrap();
    assert_eq!(secret.get().unwrap().data.as_ref().unwrap()["password"].0, b"hunter2");
    assert!(!format!("{secret:?}").contains("hunter2"));
}
