//! Reads show what was written before through the same client.

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{Fault, FaultMatch};
use informer_client::Metadata;
use informer_core::Gvk;
use informer_runtime::{Client, ClientMetrics, ListOptions, Patch, ReadError, ScopedKind};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{SOON, Server};

/// How long reads wait at most.
const BOUND: Duration = Duration::from_secs(30);

/// What reads waited for.
#[derive(Default)]
struct Waits(Mutex<Vec<(Duration, bool)>>);

impl ClientMetrics for Waits {
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        assert_eq!(kind.kind, "ConfigMap");
        self.0.lock().push((waited, shown));
    }
}

/// A client whose cache is synced, then told nothing.
async fn deaf(server: &Server, bound: Duration) -> (Client, Arc<Waits>, [Fault; 2]) {
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let cache = server.cache().build();
    cache.start();
    let maps = cache.informer::<ConfigMap>();
    maps.wait_for_sync(SOON).await.expect("the server answers");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waits = Arc::new(Waits::default());
    let client = Client::builder(&cache).read_your_writes(Some(bound)).metrics(waits.clone()).build();
    // A watch that fails may be followed by a list.
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
async fn a_read_after_a_write_shows_it() {
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
async fn a_read_waits_for_the_cache_and_no_longer_than_its_bound() {
    let server = Server::start();
    let (client, waits, _refused) = deaf(&server, BOUND).await;
    client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    let begin = Instant::now();
    let error = client.get::<ConfigMap>("default/m").await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    assert_eq!(begin.elapsed(), BOUND);
    assert_eq!(*waits.0.lock(), [(BOUND, false)]);
    assert!(client.get::<ConfigMap>("default/other").await.unwrap().is_none(), "others are not waited for");
    let error = client.list::<ConfigMap>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    let elsewhere = ListOptions::default().namespace("elsewhere");
    assert!(client.list::<ConfigMap>(&elsewhere).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waited_shows_the_write_when_the_cache_does() {
    let server = Server::start();
    let (client, waits, refused) = deaf(&server, BOUND).await;
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
async fn a_deletion_is_waited_for() {
    let server = Server::start();
    let (client, _, refused) = deaf(&server, BOUND).await;
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
async fn a_write_that_fails_or_runs_dry_is_not_waited_for() {
    let server = Server::start();
    let (client, waits, _refused) = deaf(&server, BOUND).await;
    client.patch::<ConfigMap>("default/none", &blue()).await.unwrap_err();
    client.dry_run().patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    assert!(waits.0.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_it_is_turned_off_a_read_waits_for_nothing_and_one_write_can_be_awaited() {
    let server = Server::start();
    let (deaf, _, refused) = deaf(&server, BOUND).await;
    let client = Client::builder(deaf.cache()).read_your_writes(None).build();
    let written = client.patch::<ConfigMap>("default/m", &blue()).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "red");
    let error = client.wait_until_cached(&written, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, ReadError::Behind { .. }), "{error}");
    refused.iter().for_each(Fault::remove);
    client.wait_until_cached(&written, SOON).await.unwrap();
    assert_eq!(color(&client.get::<ConfigMap>("default/m").await.unwrap().unwrap()), "blue");
}

#[tokio::test(start_paused = true)]
async fn each_form_of_a_kind_is_waited_for_by_itself() {
    let server = Server::start();
    let client = server.client();
    server.create("configmaps", "default/m", json!({}));
    let labelled = Patch::merge(json!({"metadata": {"labels": {"a": "1"}}}));
    assert!(client.metadata::<ConfigMap>("default/m").await.unwrap().is_some());
    client.patch::<ConfigMap>("default/m", &labelled).await.unwrap();
    let metadata = client.metadata::<ConfigMap>("default/m").await.unwrap().unwrap();
    assert_eq!(informer_core::Object::labels(&*metadata).get("a"), Some("1"));
    let forms = client.cache().held::<Metadata<ConfigMap>>(ScopedKind::of::<ConfigMap>().gvk());
    assert!(forms.is_some());
}
