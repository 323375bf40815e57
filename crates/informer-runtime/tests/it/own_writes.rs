//! Tests that reads from a cache return the earlier writes of the same client (read your writes), even if the
//! watch has not delivered them yet.

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{Fault, FaultAction, FaultMatch, Verb};
use informer_client::{HashShares, Lazy, Metadata, Prefilter, ReadOptions};
use informer_core::{FieldPath, Gvk};
use informer_runtime::{
    Cache, CachedClient, CancellationToken, ClientMetrics, Controller, InformerOptions, ListOptions, Manager,
    Outcome, Patch, ReadError, ResourceKind,
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{SOON, Server};

const BOUND: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Waits(Mutex<Vec<(Duration, bool)>>);

impl ClientMetrics for Waits {
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        assert_eq!(kind.kind, "ConfigMap");
        self.0.lock().push((waited, shown));
    }
}

/// Returns a client whose cache has synced a ConfigMap and then receives no more events. Also returns the
/// faults that cause this, so that a test can remove them.
async fn stalled(server: &Server, bound: Duration) -> (CachedClient, Arc<Waits>, [Fault; 2]) {
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    with_stalled_watches(server, server.cache().build(), bound).await
}

/// Returns a client whose cache has synced its ConfigMaps and then receives no more events, because the
/// server rejects its watches and lists. Also returns these faults, so that a test can remove them.
async fn with_stalled_watches(
    server: &Server,
    cache: Cache,
    bound: Duration,
) -> (CachedClient, Arc<Waits>, [Fault; 2]) {
    cache.start();
    let maps = cache.informer::<ConfigMap>();
    maps.wait_for_sync(SOON).await.expect("the server responds");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waits = Arc::new(Waits::default());
    let client = CachedClient::builder(&cache).read_your_writes(Some(bound)).metrics(waits.clone()).build();
    // After failed watches an informer may list the kind again, which would also show new objects. The server
    // therefore rejects lists as well.
    let refused = [FaultMatch::watch("configmaps"), FaultMatch::list("configmaps")]
        .map(|matching| server.api.faults().on(matching).status(503));
    server.api.disconnect_watchers();
    (client, waits, refused)
}

fn blue() -> Patch {
    Patch::merge(json!({"data": {"color": "blue"}}))
}

fn color(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("color")).map_or("", String::as_str)
}

#[tokio::test(start_paused = true)]
async fn read_after_write_shows_it() {
    let server = Server::start();
    let client = server.client();
    for number in 0..20 {
        let key = format!("default/m-{number}");
        let map: ConfigMap = serde_json::from_value(
            json!({"metadata": {"name": format!("m-{number}"), "namespace": "default"}}),
        )
        .unwrap();
        client.create(&map).await.unwrap();
        let mut edited = client.get::<ConfigMap>(&key).await.unwrap().expect("it was created").edit();
        edited.data = Some([("color".to_owned(), "blue".to_owned())].into());
        client.update(&edited).await.unwrap();
        assert_eq!(color(&client.get::<ConfigMap>(&key).await.unwrap().unwrap()), "blue");
        assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
        client.delete::<ConfigMap>(&key).await.unwrap();
        assert!(client.get::<ConfigMap>(&key).await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn read_waits_for_own_write_up_to_its_bound() {
    let server = Server::start();
    let (client, waits, _refused) = stalled(&server, BOUND).await;
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let begin = Instant::now();
    let error = client.get::<ConfigMap>("default/m").await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    assert_eq!(begin.elapsed(), BOUND);
    assert_eq!(*waits.0.lock(), [(BOUND, false)]);
    assert!(
        client.get::<ConfigMap>("default/other").await.unwrap().is_none(),
        "reads of other objects do not wait"
    );
    let error = client.list::<ConfigMap>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    let elsewhere = ListOptions::default().namespace("elsewhere");
    assert!(client.list::<ConfigMap>(&elsewhere).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_read_returns_when_the_cache_shows_the_write() {
    let server = Server::start();
    let (client, waits, refused) = stalled(&server, BOUND).await;
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.get::<ConfigMap>("default/m").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished());
    refused.iter().for_each(Fault::remove);
    let map = reading.await.unwrap().unwrap().unwrap();
    assert_eq!(color(&map), "blue");
    let waits = waits.0.lock();
    assert!(matches!(waits.as_slice(), [(waited, true)] if *waited >= Duration::from_secs(1)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn read_waits_for_own_deletion() {
    let server = Server::start();
    let (client, _, refused) = stalled(&server, BOUND).await;
    client.delete::<ConfigMap>("default/m").await.unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.get::<ConfigMap>("default/m").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished());
    refused.iter().for_each(Fault::remove);
    assert!(reading.await.unwrap().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn reads_do_not_wait_for_failed_writes_and_dry_runs() {
    let server = Server::start();
    let (client, waits, _refused) = stalled(&server, BOUND).await;
    client.patch::<ConfigMap>("default/none", &blue()).await.unwrap_err();
    client.dry_run().patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    assert!(waits.0.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn disabled_read_your_writes_does_not_wait_but_single_write_can_be_awaited() {
    let server = Server::start();
    let (stalled, _, refused) = stalled(&server, BOUND).await;
    let client = CachedClient::builder(stalled.cache()).read_your_writes(None).build();
    let written = client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    let error = client.wait_until_cached(&written, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    refused.iter().for_each(Fault::remove);
    client.wait_until_cached(&written, SOON).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "blue");
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_awaited_per_representation() {
    let server = Server::start();
    let client = server.client();
    server.create("configmaps", "default/m", json!({}));
    let labelled = Patch::merge(json!({"metadata": {"labels": {"a": "1"}}}));
    assert!(client.metadata::<ConfigMap>("default/m").await.unwrap().is_some());
    client.patch::<ConfigMap>("default/m", &labelled).await.unwrap();
    let metadata = client.metadata::<ConfigMap>("default/m").await.unwrap().unwrap();
    assert_eq!(informer_core::Object::labels(&*metadata).get("a"), Some("1"));
    let forms =
        client.cache().existing_informer::<Metadata<ConfigMap>>(ResourceKind::of::<ConfigMap>().gvk());
    assert!(forms.is_some());
}

fn map(key: &str, metadata: serde_json::Value) -> ConfigMap {
    let (namespace, name) = key.split_once('/').expect("a key with a namespace");
    let mut map = json!({"metadata": metadata, "data": {"color": "red"}});
    map["metadata"]["name"] = json!(name);
    map["metadata"]["namespace"] = json!(namespace);
    serde_json::from_value(map).expect("the fields are those of a config map")
}

#[tokio::test(start_paused = true)]
async fn cached_reads_succeed_after_the_server_is_restored_from_a_backup() {
    let server = Server::start();
    let client = server.client();
    client.create(&map("default/m", json!({}))).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    let backup = server.api.version();
    for number in 0..10 {
        let patch = Patch::merge(json!({"data": {"color": format!("blue {number}")}}));
        client.patch::<ConfigMap>("default/m", &patch).await.unwrap();
    }
    client.create(&map("default/lost", json!({}))).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "blue 9");
    client.create(&map("default/never-cached", json!({}))).await.unwrap();
    server.api.rewind(backup).unwrap();
    let maps = client.cache().informer::<ConfigMap>();
    let is_restored =
        |maps: &informer_store::Indexer<_>| maps.resource_version() == backup.to_string().as_str();
    maps.scoped_informers()[0].informer.wait_until_for(Duration::from_secs(3600), is_restored).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    assert!(client.get::<ConfigMap>("default/lost").await.unwrap().is_none());
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    // After the restore, the server assigns versions that it has assigned before. The read must wait for the
    // new write, although the cache has shown an earlier object with the same or a later version.
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "blue");
}

#[tokio::test(start_paused = true)]
async fn waiting_read_ends_when_its_informer_follows_a_restore() {
    let server = Server::start();
    let (client, _, refused) = stalled(&server, Duration::from_secs(3600)).await;
    let backup = server.api.version();
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.get::<ConfigMap>("default/m").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!reading.is_finished());
    server.api.rewind(backup - 1).unwrap();
    refused.iter().for_each(Fault::remove);
    assert!(reading.await.unwrap().unwrap().is_none(), "it was created after the backup");
}

#[tokio::test(start_paused = true)]
async fn read_succeeds_after_a_restore_that_lost_a_write_which_the_informer_never_showed() {
    let server = Server::start();
    let (client, _, refused) = stalled(&server, BOUND).await;
    let backup = server.api.version();
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    server.api.rewind(backup).unwrap();
    refused.iter().for_each(Fault::remove);
    // The cache has shown no version after that of the backup, so its informer cannot detect that the server
    // was restored. The read must succeed nevertheless.
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    let begin = tokio::time::Instant::now();
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    assert!(begin.elapsed() < BOUND, "the read no longer waits for the lost write");
}

#[tokio::test(start_paused = true)]
async fn read_waits_for_a_write_that_a_restore_has_kept_after_one_that_it_has_lost() {
    let server = Server::start();
    let (client, _, refused) = stalled(&server, BOUND).await;
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let backup = server.api.version();
    client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"color": "lost"}}))).await.unwrap();
    server.api.rewind(backup).unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.get::<ConfigMap>("default/m").await }
    });
    // Lists succeed again before watches do. A waiting read can therefore get the current version of the
    // server before the informer shows the write that the restore has kept.
    refused[1].remove();
    tokio::time::sleep(BOUND * 3 / 4).await;
    refused[0].remove();
    let read = reading.await.unwrap();
    assert!(matches!(read, Err(ReadError::Behind { .. })) || color(&read.unwrap().unwrap()) == "blue");
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "blue");
}

#[tokio::test(start_paused = true)]
async fn read_succeeds_after_a_restore_that_lost_a_deletion() {
    let server = Server::start();
    let (client, _, refused) = stalled(&server, BOUND).await;
    let backup = server.api.version();
    client.delete::<ConfigMap>("default/m").await.unwrap();
    server.api.rewind(backup).unwrap();
    refused.iter().for_each(Fault::remove);
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
}

/// The number of objects that a test writes. It is larger than the number of written keys that a cache tracks
/// individually.
const MANY: usize = 4_200;

#[tokio::test(start_paused = true)]
async fn many_writes_in_one_namespace_do_not_delay_reads_of_another() {
    let server = Server::start();
    let cache = server.cache().namespaces(["busy", "quiet"]).build();
    cache.start();
    let waits = Arc::new(Waits::default());
    let client = CachedClient::builder(&cache).read_your_writes(Some(BOUND)).metrics(waits.clone()).build();
    client.create(&map("quiet/m", json!({}))).await.unwrap();
    let quiet = ListOptions::default().namespace("quiet");
    assert_eq!(client.list::<ConfigMap>(&quiet).await.unwrap().len(), 1);
    for number in 0..MANY {
        client.create(&map(&format!("busy/m-{number}"), json!({}))).await.unwrap();
    }
    waits.0.lock().clear();
    assert!(client.get::<ConfigMap>("quiet/m").await.unwrap().is_some());
    assert_eq!(client.list::<ConfigMap>(&quiet).await.unwrap().len(), 1);
    assert!(waits.0.lock().is_empty(), "{:?}", waits.0.lock());
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), MANY + 1);
}

#[tokio::test(start_paused = true)]
async fn object_created_after_many_others_appears_in_label_selected_cache() {
    let server = Server::start();
    let labels = InformerOptions::default().labels("app=web".parse().unwrap());
    let cache = server.cache().kind::<ConfigMap>(labels).build();
    let (client, waits, refused) = with_stalled_watches(&server, cache, BOUND).await;
    let unselected = json!({"labels": {"app": "other"}});
    for number in 0..4_096 {
        client.create(&map(&format!("default/m-{number}"), unselected.clone())).await.unwrap();
    }
    assert!(client.get::<ConfigMap>("default/m-7").await.unwrap().is_none());
    assert!(waits.0.lock().is_empty(), "unselected objects are not waited for: {:?}", waits.0.lock());
    client.create(&map("default/web", json!({"labels": {"app": "web"}}))).await.unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.get::<ConfigMap>("default/web").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    refused.iter().for_each(Fault::remove);
    assert!(reading.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn deletion_does_not_wait_for_writes_in_other_namespaces() {
    let server = Server::start();
    server.create("configmaps", "a/m", json!({}));
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.start();
    let waits = Arc::new(Waits::default());
    let client = CachedClient::builder(&cache).read_your_writes(Some(BOUND)).metrics(waits.clone()).build();
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    client.create(&map("b/m", json!({}))).await.unwrap();
    client.delete::<ConfigMap>("a/m").await.unwrap();
    // After this pause, the informer of namespace `a` has received the deletion, so the read need not wait.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(client.get::<ConfigMap>("a/m").await.unwrap().is_none());
    assert!(waits.0.lock().is_empty(), "{:?}", waits.0.lock());
}

/// Creates an object and reads it immediately from a cache whose watches are stalled. Returns the result of
/// the read, or `None` if the read waits for the object until its timeout.
async fn read_after_create(options: InformerOptions, key: &str) -> Option<Option<String>> {
    let server = Server::start();
    let cache = server.cache().kind::<ConfigMap>(options).build();
    let (client, ..) = with_stalled_watches(&server, cache, BOUND).await;
    client.create(&map(key, json!({}))).await.expect("the object is valid");
    match client.get::<ConfigMap>(key).await {
        Ok(found) => Some(found.map(|map| color(&map).to_owned())),
        Err(ReadError::Behind { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn field_selected_cache_waits_for_selected_objects() {
    let named = |selector: &str| InformerOptions::default().fields(selector.parse().unwrap());
    assert_eq!(read_after_create(named("metadata.name=web"), "default/web").await, None);
    assert_eq!(read_after_create(named("metadata.name!=web"), "default/web").await, Some(None));
    assert_eq!(read_after_create(named("metadata.name=web"), "default/other").await, Some(None));
}

#[tokio::test(start_paused = true)]
async fn hash_share_cache_waits_for_objects_of_its_share() {
    let all = InformerOptions::default().shares(HashShares::new(2, [0, 1]).unwrap());
    assert_eq!(read_after_create(all, "default/web").await, None);
    let by_namespace = |share| {
        let shares = HashShares::new(2, [share]).unwrap().by(informer_client::HashKey::Namespace);
        InformerOptions::default().shares(shares)
    };
    let of_each = [
        read_after_create(by_namespace(0), "default/web").await,
        read_after_create(by_namespace(1), "default/web").await,
    ];
    assert!(of_each.contains(&None) && of_each.contains(&Some(None)), "{of_each:?}");
}

#[tokio::test(start_paused = true)]
async fn write_without_response_does_not_delay_reads() {
    let server = Server::start();
    let (client, waits, refused) = stalled(&server, BOUND).await;
    refused.iter().for_each(Fault::remove);
    let hung = server.api.faults().on(FaultMatch::verb(Verb::Patch)).then(FaultAction::NeverAnswer);
    let writing = tokio::spawn({
        let client = client.clone();
        async move { client.patch::<ConfigMap>("default/m", &blue()).await }
    });
    while hung.fired() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    assert!(waits.0.lock().is_empty(), "{:?}", waits.0.lock());
    assert!(!writing.is_finished());
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn reconcile_reads_its_own_writes_and_get_cached_may_be_older() {
    let server = Server::start();
    server.api.faults().on(FaultMatch::watch("configmaps")).then(FaultAction::Lag { millis: 500 });
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let controller = Controller::new::<ConfigMap>("painter").reconcile(move |request, ctx| {
        let log = Arc::clone(&log);
        async move {
            let map = ctx.get::<ConfigMap>(&request.key).await?.ok_or("it exists")?;
            if color(&map) == "red" {
                ctx.client.patch::<ConfigMap>(&request.key, &blue()).await?;
                let cached = ctx.get_cached::<ConfigMap>(&request.key)?.ok_or("it exists")?;
                let read = ctx.get::<ConfigMap>(&request.key).await?.ok_or("it exists")?;
                log.lock().push([color(&cached), color(&read)].map(str::to_owned));
            }
            Ok(Outcome::Done)
        }
    });
    let stop = CancellationToken::new();
    let manager = Manager::new(server.api_client()).controller(controller);
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*seen.lock(), [["red", "blue"]]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

fn cache_of_blue_maps(server: &Server) -> Cache {
    let blue_only = |map: &Lazy<ConfigMap>| map.get().is_ok_and(|map| color(&map) == "blue");
    server.cache().options(InformerOptions::default().filter::<Lazy<ConfigMap>>(blue_only)).build()
}

#[tokio::test(start_paused = true)]
async fn filtered_cache_shows_own_writes_that_pass_and_hides_those_that_do_not() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let cache = cache_of_blue_maps(&server);
    cache.start();
    let client = CachedClient::new(&cache);
    let read =
        async || client.get::<ConfigMap>("default/m").await.expect("the cache receives its own writes");
    assert!(read().await.is_none(), "the filter rejects the map");
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(read().await.as_deref().map(color), Some("blue"));
    client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"color": "red"}}))).await.unwrap();
    assert!(read().await.is_none(), "the read waits for the write that the filter rejects");
    assert!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn prefiltered_cache_shows_own_writes_that_pass_and_hides_those_that_do_not() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let path: FieldPath = "data.color".parse().unwrap();
    let prefilter = Prefilter::new(move |map| map.field(&path).as_deref() == Some("blue"));
    let read = ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() };
    let cache = server.cache().options(InformerOptions::default().read_options(read)).build();
    cache.start();
    let client = CachedClient::new(&cache);
    let read =
        async || client.get::<ConfigMap>("default/m").await.expect("the cache receives its own writes");
    assert!(read().await.is_none(), "the prefilter rejects the map");
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(read().await.as_deref().map(color), Some("blue"));
    client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"color": "red"}}))).await.unwrap();
    assert!(read().await.is_none(), "the read waits for the write that the prefilter rejects");
}

#[tokio::test(start_paused = true)]
async fn read_of_a_filtered_cache_waits_for_an_own_write_that_the_watch_has_not_delivered() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let (client, waits, refused) = with_stalled_watches(&server, cache_of_blue_maps(&server), BOUND).await;
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let delivers = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        refused.iter().for_each(Fault::remove);
    };
    let (read, ()) = tokio::join!(client.get::<ConfigMap>("default/m"), delivers);
    assert_eq!(read.unwrap().as_deref().map(color), Some("blue"));
    assert!(waits.0.lock().iter().any(|(waited, shown)| *shown && *waited >= Duration::from_secs(5)));
}
