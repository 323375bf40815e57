//! A controller that watches kinds of a cache other than that of its manager.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use informer_client::Lazy;
use informer_core::Object as _;
use informer_runtime::handler::{enqueue_object, enqueue_owner, map};
use informer_runtime::source::{kind_in, watch, watch_metadata};
use informer_runtime::{Cache, Controller, ControllerBuilder, ControllerOptions, Manager, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::json;

use crate::controller::{ReconciledRequests, Running, config_map, delete, quiet, touch, with_causes};
use crate::fixture::Server;

const IDLE: Duration = Duration::from_secs(60);
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

fn maps() -> ControllerBuilder {
    let options = ControllerOptions::new().sync_timeout(SYNC_TIMEOUT).record_causes(true);
    Controller::new::<ConfigMap>("maps").with_options(options)
}

#[tokio::test(start_paused = true)]
async fn kinds_of_two_caches_enqueue_objects_owners_and_mapped_requests() {
    let (home, other, seen) = (Server::start(), Server::start(), ReconciledRequests::default());
    config_map(&home, "a/home");
    config_map(&other, "a/other");
    config_map(&other, "a/ignored");
    let cache = other.cache().build();
    let objects = watch::<ConfigMap>().filter_object(|map| map.key().name() != "ignored");
    let to_home = map(|_: &Lazy<Pod>| "a/home".parse::<Request>().ok());
    let controller = maps()
        .source(kind_in(&cache, objects, enqueue_object()))
        .source(kind_in(&cache, watch_metadata::<Secret>(), enqueue_owner::<ConfigMap>()))
        .source(kind_in(&cache, watch::<Pod>(), to_home));
    let manager = Manager::new(home.api_client()).add(cache.clone()).controller(seen.by(controller));
    let running = Running::start(manager);
    quiet().await;
    assert_eq!(seen.sorted(), ["a/home", "a/other"], "the initial objects of both caches");

    touch(&other, "a/other", json!({"data": {"a": "c"}}));
    touch(&other, "a/ignored", json!({"data": {"a": "c"}}));
    quiet().await;
    assert_eq!(seen.take(), ["a/other"]);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true});
    other.create("secrets", "a/child", json!({"metadata": {"ownerReferences": [owner]}}));
    quiet().await;
    assert_eq!(seen.take(), ["a/x"]);
    other.pod("a/web");
    quiet().await;
    assert_eq!(seen.take(), ["a/home"]);
    delete(&other, "configmaps", "a/other");
    config_map(&home, "a/late");
    quiet().await;
    assert_eq!(seen.sorted(), ["a/late", "a/other"]);

    running.stop().await.unwrap();
    delete(&other, "configmaps", "a/ignored");
    quiet().await;
    assert!(seen.take().is_empty());
    assert!(cache.informer::<ConfigMap>().is_stopped(), "the manager stops the cache that was added to it");
}

#[tokio::test(start_paused = true)]
async fn controller_waits_for_the_start_and_the_sync_of_another_cache() {
    let (home, other, seen) = (Server::start(), Server::start(), ReconciledRequests::default());
    config_map(&home, "a/home");
    config_map(&other, "a/other");
    let cache = other.cache().build();
    let source = kind_in(&cache, watch::<ConfigMap>(), enqueue_object());
    let controller = seen.by(maps().source(source));
    let running = Running::start(Manager::new(home.api_client()).controller(controller));
    tokio::time::sleep(SYNC_TIMEOUT / 2).await;
    assert!(seen.take().is_empty(), "the cache is not started");
    cache.start();
    quiet().await;
    assert_eq!(seen.sorted(), ["a/home", "a/other"]);
    running.stop().await.unwrap();
    assert!(cache.informer::<ConfigMap>().has_synced() && !cache.informer::<ConfigMap>().is_stopped());
}

#[tokio::test(start_paused = true)]
async fn informer_of_another_cache_ends_when_its_controller_has_stopped() {
    let (home, other, seen) = (Server::start(), Server::start(), ReconciledRequests::default());
    let cache = other.cache().idle_timeout(IDLE).build();
    cache.start();
    let source = kind_in(&cache, watch::<Secret>(), enqueue_object());
    let controller = seen.by(maps().source(source));
    let running = Running::start(Manager::new(home.api_client()).controller(controller));
    tokio::time::sleep(10 * IDLE).await;
    assert_eq!(cache.states().len(), 1, "the controller uses the informer");
    running.stop().await.unwrap();
    tokio::time::sleep(2 * IDLE).await;
    assert!(cache.states().is_empty());
}

/// Runs a controller that watches a kind of this cache, and returns the error of its manager.
async fn error_of(cache: &Cache) -> String {
    let home = Server::start();
    let source = kind_in(cache, watch::<Secret>(), enqueue_object());
    let controller = ReconciledRequests::default().by(maps().source(source));
    let manager = Manager::new(home.api_client()).controller(controller);
    with_causes(&manager.run_until(std::future::pending::<()>()).await.unwrap_err())
}

#[tokio::test(start_paused = true)]
async fn cache_that_is_not_started_or_was_stopped_fails_its_controller_with_the_remedy() {
    let other = Server::start();
    let cache = other.cache().build();
    let error = error_of(&cache).await;
    let source = "controller maps: the source kind Secret.v1 in another cache failed to start";
    assert!(error.contains(source) && error.contains("the cache was not started in time"), "{error}");
    cache.start();
    cache.stop().await;
    let begin = tokio::time::Instant::now();
    let error = error_of(&cache).await;
    assert!(error.contains(source) && error.contains("the cache was stopped"), "{error}");
    assert!(begin.elapsed() < SYNC_TIMEOUT, "the controller does not wait for it");
}
