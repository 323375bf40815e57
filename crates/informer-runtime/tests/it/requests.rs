//! Tests of the client's requests without a type and without a cache: dynamic objects, metadata, lists page
//! by page, waits, retries, and applies that are not sent.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use informer_apiserver::{FaultAction, FaultMatch, Verb};
use informer_client::{Pruning, ReadOptions};
use informer_runtime::wait::{has_condition, is_deleted};
use informer_runtime::{
    CachedClient, Controller, DeleteOptions, InformerOptions, ListOptions, Manager, Outcome, Owner, Patch,
    ReconcileError, ResourceKind, WaitError, WriteError, add_finalizer, contains_finalizer,
    has_controller_reference, set_controller_reference,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_core::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::client::{config_map, deployable};
use crate::controller::Running;
use crate::fixture::{SOON, Server, gvr};

fn busy(code: u16, seconds: u32) -> FaultAction {
    FaultAction::Status { code, reason: None, message: None, retry_after: Some(seconds), body: None }
}

fn deployments(client: &CachedClient) -> informer_runtime::DynamicClient {
    client.dynamic(ResourceKind::of::<Deployment>())
}

#[tokio::test(start_paused = true)]
async fn update_of_a_dynamic_object_sends_the_difference_with_preconditions() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    let web = deployments(&server.client());
    let original = web.get("default/web").await.unwrap().unwrap();
    let mut edited = original.clone();
    edited.data["spec"]["replicas"] = json!(3);
    let updated = web.update(&original, &edited).await.unwrap();
    assert_eq!(updated.data["spec"]["replicas"], json!(3));
    edited.data["spec"]["replicas"] = json!(4);
    assert!(web.update(&original, &edited).await.unwrap_err().is_conflict(), "the original is stale");
    let requests = server.api.requests().len();
    assert_eq!(web.update(&updated, &updated.clone()).await.unwrap().metadata, updated.metadata);
    assert_eq!(server.api.requests().len(), requests, "without a difference no request is sent");
    edited.metadata.name = Some("other".to_owned());
    assert!(matches!(web.update(&original, &edited).await, Err(WriteError::OtherObject { .. })));
}

#[tokio::test(start_paused = true)]
async fn edit_of_a_dynamic_object_is_repeated_after_a_conflict() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let maps = server.client().dynamic(ResourceKind::of::<ConfigMap>());
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).nth(1).status(409);
    let mut calls = 0;
    let edited = maps.edit("default/m", |map| {
        calls += 1;
        map.data["data"]["color"] = json!("blue");
    });
    assert_eq!(edited.await.unwrap().unwrap().data["data"], json!({"color": "blue"}));
    assert_eq!(calls, 2);
    assert!(maps.edit("default/none", |_| {}).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn status_and_scale_of_a_dynamic_object_are_written_through_subresources() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    let web = deployments(&server.client());
    let edited = web.edit_status("default/web", |object| {
        object.data["spec"]["replicas"] = json!(9);
        object.data["status"] = json!({"observedGeneration": 1, "replicas": 2});
    });
    let stored = edited.await.unwrap().unwrap();
    assert_eq!(
        (&stored.data["spec"]["replicas"], &stored.data["status"]["replicas"]),
        (&json!(1), &json!(2))
    );
    let scale = web.subresource("scale");
    let mut held = scale.read("default/web").await.unwrap();
    assert_eq!(held["spec"]["replicas"], json!(1));
    held["spec"]["replicas"] = json!(5);
    assert_eq!(scale.replace("default/web", held).await.unwrap()["spec"]["replicas"], json!(5));
    let patch = Patch::merge(json!({"status": {"replicas": 4}}));
    let patched = web.status().patch("default/web", &patch).await.unwrap();
    assert_eq!(patched.data["status"]["replicas"], json!(4));
    let original = web.get("default/web").await.unwrap().unwrap();
    let mut edited = original.clone();
    edited.data["status"]["replicas"] = json!(5);
    assert_eq!(web.status().update(&original, &edited).await.unwrap().data["status"]["replicas"], json!(5));
    let mut applied =
        DynamicObject { types: original.types.clone(), metadata: Default::default(), data: json!({}) };
    (applied.metadata.name, applied.metadata.namespace) =
        (Some("web".to_owned()), Some("default".to_owned()));
    applied.data["status"] = json!({"readyReplicas": 1});
    assert_eq!(web.status().apply(&applied).await.unwrap().data["status"]["readyReplicas"], json!(1));
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_have_owners_and_finalizers() {
    let server = Server::start();
    server.create("deployments", "default/web", deployable());
    server.create("configmaps", "default/m", json!({}));
    let client = server.client();
    let owner = deployments(&client).get("default/web").await.unwrap().unwrap();
    let maps = client.dynamic(ResourceKind::of::<ConfigMap>());
    let edited = maps.edit("default/m", |map| {
        set_controller_reference(Owner::of_dynamic(&owner), map).unwrap();
        add_finalizer(map, "example.com/bucket");
    });
    let stored = edited.await.unwrap().unwrap();
    assert!(has_controller_reference(&stored) && contains_finalizer(&stored, "example.com/bucket"));
    let reference = &stored.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (&*reference.api_version, &*reference.kind, &*reference.name),
        ("apps/v1", "Deployment", "web")
    );
    let untyped = DynamicObject { types: None, ..owner };
    let mut map = ConfigMap::default();
    assert!(set_controller_reference(Owner::of_dynamic(&untyped), &mut map).is_err());
}

#[tokio::test(start_paused = true)]
async fn metadata_client_reads_patches_and_deletes_without_bodies() {
    let server = Server::start();
    for name in ["a", "b"] {
        server.create("secrets", &format!("default/{name}"), json!({"stringData": {"key": "hidden"}}));
    }
    let secrets = server.client().live_metadata(ResourceKind::of::<Secret>());
    let one = secrets.get("default/a").await.unwrap().unwrap();
    assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    assert!(secrets.get("default/none").await.unwrap().is_none());
    let patch = Patch::merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let patched = secrets.patch("default/a", &patch).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["app"], "web");
    let labelled = ListOptions::default().namespace("default").labels("app=web".parse().unwrap());
    assert_eq!(secrets.list(&labelled).await.unwrap().len(), 1);
    let page = secrets.page(&ListOptions::default().limit(1), None).await.unwrap();
    assert_eq!((page.items.len(), page.continue_token.is_some()), (1, true));
    let names: Vec<_> =
        secrets.stream(&ListOptions::default().limit(1)).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(names.len(), 2);
    secrets.delete("default/b", &DeleteOptions::default()).await.unwrap();
    secrets.delete_all(&labelled, &DeleteOptions::default()).await.unwrap();
    assert!(secrets.list(&ListOptions::default()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn list_options_are_sent_as_query_parameters() {
    let server = Server::start();
    server.pod("default/a");
    let live = server.client();
    let live = live.live();
    let query = async |options: ListOptions| {
        live.list::<Pod>(&options).await.unwrap();
        let requests = server.api.requests();
        requests.last().unwrap().query.clone()
    };
    let any = query(ListOptions::default().not_older_than(informer_core::ResourceVersion::any())).await;
    assert_eq!(any, "limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan");
    let version = live.page::<Pod>(&ListOptions::default(), None).await.unwrap().resource_version;
    let exact = query(ListOptions::default().exactly(&*version).timeout(Duration::from_millis(7500))).await;
    assert_eq!(
        exact,
        format!("timeoutSeconds=7&limit=500&resourceVersion={version}&resourceVersionMatch=Exact")
    );
    let options = informer_runtime::GetOptions::default().not_older_than("0");
    assert!(live.get_with::<Pod>("default/a", &options).await.unwrap().is_some());
    assert_eq!(server.api.requests().last().unwrap().query, "resourceVersion=0");
}

fn names(pods: &[informer_runtime::Fetched<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn stream_of_a_list_continues_after_an_expired_token_without_duplicates() {
    let server = Server::start();
    for name in ["b", "d", "f", "h"] {
        server.pod(&format!("default/{name}"));
    }
    let client = server.client();
    let mut pods = client.live().stream::<Pod>(&ListOptions::default().limit(2));
    assert_eq!(pods.try_next().await.unwrap().unwrap().metadata.name.as_deref(), Some("b"));
    // These are created and deleted while the stream is read.
    server.pod("default/a");
    server.pod("default/e");
    server.api.delete(&gvr("pods"), "default", "h").unwrap();
    server.api.faults().on(FaultMatch::list("pods")).nth(1).expire();
    let rest: Vec<_> = pods.try_collect().await.unwrap();
    assert_eq!(names(&rest), ["d", "e", "f"]);
}

#[tokio::test(start_paused = true)]
async fn list_in_pages_is_read_in_one_piece_after_an_expired_token() {
    let server = Server::start();
    for number in 0..501 {
        server.create("configmaps", &format!("default/{number:03}"), json!({}));
    }
    let client = server.client();
    server.api.faults().on(FaultMatch::list("configmaps")).nth(2).expire();
    let maps = client.live().list::<ConfigMap>(&ListOptions::default()).await.unwrap();
    assert_eq!(maps.len(), 501);
    assert_eq!(server.api.count_requests(Verb::List, "configmaps"), 3);
    server.api.faults().on(FaultMatch::list("configmaps")).nth(2).expire();
    let version =
        informer_core::ResourceVersion::from(maps[500].metadata.resource_version.as_deref().unwrap());
    let exact = client.live().list::<ConfigMap>(&ListOptions::default().exactly(version)).await;
    assert!(exact.is_err(), "an exact version is not replaced by the newest state");
}

#[tokio::test(start_paused = true)]
async fn rejected_write_is_sent_again_after_retry_after_unless_it_is_a_creation() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    let client = server.client();
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).nth(1).then(busy(429, 3));
    let begin = Instant::now();
    let patch = Patch::merge(json!({"data": {"color": "blue"}}));
    client.patch::<ConfigMap>("default/m", &patch).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
    server.api.faults().on(FaultMatch::verb(Verb::Create)).nth(1).then(busy(429, 3));
    let error = client.create(&config_map("default/other", "red")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn retry_of_a_rejected_write_is_not_sent_after_the_fence_has_closed() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    let checks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&checks);
    let fenced = server.client().fenced(move || match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err("the lease was lost".into()),
    });
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).then(busy(503, 1));
    let patch = Patch::merge(json!({"data": {"color": "blue"}}));
    assert!(fenced.patch::<ConfigMap>("default/m", &patch).await.unwrap_err().is_fenced());
    assert_eq!(server.api.count_requests(Verb::Patch, "configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_reconcile_is_not_retried_before_retry_after() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    server.api.faults().on(FaultMatch::verb(Verb::Create)).nth(1).then(busy(429, 40));
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let controller = Controller::new::<ConfigMap>("maps").reconcile(move |_, ctx| {
        seen.lock().push(Instant::now());
        async move {
            let pod: Pod = serde_json::from_value(crate::fixture::pod_spec()).unwrap();
            let mut pod = pod;
            (pod.metadata.name, pod.metadata.namespace) = (Some("p".to_owned()), Some("default".to_owned()));
            match ctx.client.create(&pod).await {
                Err(error) if !error.is_already_exists() => Err(ReconcileError::from(error)),
                _ => Ok(Outcome::Done),
            }
        }
    });
    let running = Running::start(Manager::new(server.api_client()).controller(controller));
    while times.lock().len() < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.stop().await.unwrap();
    let times = times.lock();
    let delay = times[1] - times[0];
    assert!((Duration::from_secs(40)..Duration::from_secs(42)).contains(&delay), "{delay:?}");
}

#[tokio::test(start_paused = true)]
async fn live_wait_ends_when_the_object_meets_the_condition() {
    let server = Server::start();
    let client = server.client();
    let live = client.live();
    let waiting = live.wait_until::<ConfigMap>("default/m", |map: &ConfigMap| map.data.is_some(), SOON);
    let writing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.create("configmaps", "default/m", json!({}));
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"a": "1"}}))).await.unwrap();
    };
    let (found, ()) = tokio::join!(waiting, writing);
    let found = found.unwrap().unwrap();
    assert_eq!(found.data.as_ref().unwrap()["a"], "1");

    let uid = found.metadata.uid.clone().unwrap();
    let deleting = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.delete::<ConfigMap>("default/m").await.unwrap();
    };
    let (gone, ()) = tokio::join!(live.wait_until::<ConfigMap>("default/m", is_deleted(uid), SOON), deleting);
    assert!(gone.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn live_wait_times_out_with_the_state_of_the_object() {
    let server = Server::start();
    server.pod("default/web");
    let client = server.client();
    let ready = || has_condition::<Pod>("Ready", "True");
    let error = client.live().wait_until("default/web", ready(), SOON).await.unwrap_err();
    let text = "wait for Pod default/web: the condition was not met within 10s; the object exists";
    assert_eq!(error.to_string(), text);
    let error = client.live().wait_until("default/none", ready(), SOON).await.unwrap_err();
    assert!(error.to_string().ends_with("; the object does not exist"), "{error}");
    server.api.faults().on(FaultMatch::path("/pods")).status(403);
    let error = client.live().wait_until("default/web", ready(), SOON).await.unwrap_err();
    assert!(matches!(&error, WaitError::TimedOut { state, .. } if state.contains("403")), "{error}");
    let error = client.live().wait_until("default/", ready(), SOON).await.unwrap_err();
    assert!(matches!(error, WaitError::Read(_)), "{error}");
}

fn applies(server: &Server) -> usize {
    server.api.count_requests(Verb::Patch, "configmaps")
}

fn desired(color: &str) -> ConfigMap {
    config_map("default/m", color)
}

#[tokio::test(start_paused = true)]
async fn apply_that_changes_nothing_is_not_sent() {
    let server = Server::start();
    let client = server.client().field_owner("ours").skip_unchanged_applies();
    let first = client.apply(&desired("red")).await.unwrap();
    let again = client.apply(&desired("red")).await.unwrap();
    assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(applies(&server), 1);
    client.apply(&desired("blue")).await.unwrap();
    client.field_owner("theirs").force().apply(&desired("blue")).await.unwrap();
    assert_eq!(applies(&server), 3, "another body and another field owner are sent");
    // Another program changes the object, so the cached version is another one.
    let mut changed = server.get("configmaps", "default/m");
    changed["data"]["color"] = json!("green");
    server.api.update(&gvr("configmaps"), "default", changed).unwrap();
    let cached = || async { client.get::<ConfigMap>("default/m").await.unwrap().unwrap() };
    while cached().await.data.as_ref().unwrap()["color"] != "green" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let restored = client.force().apply(&desired("blue")).await.unwrap();
    assert_eq!((restored.data.as_ref().unwrap()["color"].as_str(), applies(&server)), ("blue", 4));
    client.dry_run().apply(&desired("blue")).await.unwrap();
    assert_eq!(applies(&server), 5, "dry runs are sent");
}

#[tokio::test(start_paused = true)]
async fn change_of_other_fields_sends_an_apply_only_without_cached_managed_fields() {
    for (pruning, sent) in [(Pruning::default(), 2), (Pruning::nothing(), 1)] {
        let server = Server::start();
        let read = ReadOptions { pruning, ..ReadOptions::default() };
        let cache = server.cache().options(InformerOptions::default().read_options(read)).build();
        cache.start();
        let client = CachedClient::new(&cache).field_owner("ours").skip_unchanged_applies();
        client.apply(&desired("red")).await.unwrap();
        let label = Patch::merge(json!({"metadata": {"labels": {"seen": "true"}}}));
        client.field_owner("theirs").patch::<ConfigMap>("default/m", &label).await.unwrap();
        let before = applies(&server);
        client.apply(&desired("red")).await.unwrap();
        client.apply(&desired("red")).await.unwrap();
        assert_eq!(1 + applies(&server) - before, sent);
    }
}
