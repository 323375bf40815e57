//! Unit tests of reconcilers with `TestContext`, imported from the `informer` crate as programs do it.
#![cfg(all(feature = "testing", feature = "runtime"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer::k8s_openapi::jiff::Timestamp;
use informer::prelude::*;
use informer::runtime::{EventSubject, EventType, LookupError, ReconcileCause};
use informer::testing::{FakeClient, RequestRecord, TestContext, TestServer, pod};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "default/settings";

struct State {
    reconciles: AtomicUsize,
}

fn settings() -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "settings", "namespace": "default"}}))
        .expect("it is valid")
}

/// A reconcile function that writes the current time into a ConfigMap without a time, and requeues it after
/// one hour. Until the hour has passed, it records a warning Event and requeues the ConfigMap after one
/// minute.
async fn reconcile(request: Request, ctx: Context, state: Arc<State>) -> Result<Outcome, ReconcileError> {
    state.reconciles.fetch_add(1, Ordering::Relaxed);
    let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    let Some(since) = map.data.as_ref().and_then(|data| data.get("since")) else {
        let mut edited = map.edit();
        edited.data.get_or_insert_default().insert("since".to_owned(), ctx.now().to_string());
        ctx.client.update(&edited).await?;
        ctx.recorder.normal(&map, "Stamped", "Stamp", "wrote the time");
        return Ok(Outcome::requeue_after(Duration::from_secs(3600)));
    };
    let since: Timestamp = since.parse()?;
    if ctx.now().duration_since(since).as_secs() < 3600 {
        ctx.recorder.warning(&map, "Early", "Check", "it is too early");
        return Ok(Outcome::requeue_after(Duration::from_secs(60)));
    }
    Ok(Outcome::Done)
}

#[tokio::test(start_paused = true)]
async fn reconciler_is_called_without_a_manager() {
    let client = FakeClient::builder().object(&settings()).build().await.unwrap();
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = TestContext::builder(&client).controller("stamper").watches::<ConfigMap>().now(start);
    let test = builder.build().await.unwrap();
    let state = Arc::new(State { reconciles: AtomicUsize::new(0) });
    let call = async || reconcile(test.request(KEY), test.context(), Arc::clone(&state)).await;

    assert_eq!(call().await.unwrap(), Outcome::requeue_after(Duration::from_secs(3600)));
    let stamped: ConfigMap = client.server().get(KEY).await.unwrap();
    assert_eq!(stamped.data.as_ref().unwrap()["since"], "2026-01-01T00:00:00Z");
    let is_owner = |request: &RequestRecord| request.query.contains("fieldManager=stamper");
    assert_eq!(client.server().server().requests().iter().filter(|request| is_owner(request)).count(), 1);
    let events = test.take_events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].to_string(), "Normal Stamped ConfigMap default/settings: wrote the time");
    assert_eq!((events[0].action.as_str(), events[0].controller.as_str()), ("Stamp", "stamper"));
    assert_eq!(events[0].regarding, EventSubject::from(&stamped));
    assert_eq!(Some(events[0].regarding.uid()), stamped.metadata.uid.as_deref());

    // The second reconcile must read the time that the first one wrote. The context's time must advance with
    // tokio's clock.
    tokio::time::advance(Duration::from_secs(1800)).await;
    assert_eq!(test.now().as_second(), start.as_second() + 1800);
    assert_eq!(call().await.unwrap(), Outcome::requeue_after(Duration::from_secs(60)));
    assert_eq!(test.take_events()[0].event_type, EventType::Warning);
    test.set_now("2026-01-01T01:00:00Z".parse().unwrap());
    assert_eq!(call().await.unwrap(), Outcome::Done);
    assert_eq!(test.take_events(), []);
    assert_eq!(state.reconciles.load(Ordering::Relaxed), 3);

    let missing = reconcile(test.request("default/other"), test.context(), state).await;
    assert_eq!(missing.unwrap(), Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn context_finds_watched_kinds_only_and_has_a_new_id_for_each_reconcile() {
    let server = TestServer::start().await;
    server.create(&pod("default/web-0")).await.unwrap();
    let client = FakeClient::builder().server(&server).build().await.unwrap();
    let test = TestContext::builder(&client).watches::<Pod>().build().await.unwrap();
    let (first, second) = (test.context(), test.context());
    assert_ne!(first.reconcile_id(), second.reconcile_id());
    assert_eq!((first.controller(), first.owned_key().is_none()), ("test", true));
    assert!(first.get::<Pod>("default/web-0").await.unwrap().is_some());
    assert!(first.get_cached::<Pod>("default/web-0").unwrap().is_some());
    let error = first.get::<Secret>("default/web-0").await.unwrap_err();
    assert!(matches!(error, LookupError::NotWatched { .. }), "{error}");

    assert!(!first.stopping().is_cancelled());
    test.stop();
    assert!(first.stopping().is_cancelled() && test.context().stopping().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn clock_of_a_context_follows_paused_time_by_default() {
    let client = FakeClient::builder().build().await.unwrap();
    let test = TestContext::builder(&client).build().await.unwrap();
    let (context, before) = (test.context(), test.now());
    tokio::time::advance(Duration::from_secs(7200)).await;
    let passed = context.now().duration_since(before).as_secs_f64();
    assert!((7199.0..7201.0).contains(&passed), "{passed}");
}

#[tokio::test(start_paused = true)]
async fn context_of_a_kind_that_the_server_does_not_serve_is_not_built() {
    let client = FakeClient::builder().build().await.unwrap();
    let error = TestContext::builder(&client).watches::<Shop>().build().await.unwrap_err().to_string();
    assert!(error.contains("informer shops.v1.example.com"), "{error}");
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, schema = "disabled")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
struct ShopSpec {
    image: String,
}

#[tokio::test(start_paused = true)]
async fn reconciler_sees_the_causes_that_a_test_sets() {
    let client = FakeClient::builder().build().await.unwrap();
    let causes = [ReconcileCause::Enqueued, ReconcileCause::Retried { failures: 2 }];
    let test = TestContext::builder(&client).causes(causes.clone()).build().await.unwrap();
    assert_eq!(&test.context().causes()[..], causes);
    let test = TestContext::builder(&client).build().await.unwrap();
    assert!(test.context().causes().is_empty());
}
