//! One controller of objects in many clusters, with leader election on a home cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::FaultMatch;
use informer_client::MemoryBudget;
use informer_runtime::multicluster::{Cluster, ClusterName, Clusters, watch_in};
use informer_runtime::source::watch;
use informer_runtime::{
    Context, Controller, ControllerOptions, LeaderElection, ListOptions, Manager, Outcome, ReconcileError,
    Request,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::controller::{Running, config_map, delete, quiet, touch};
use crate::fixture::{Server, gvr};

type Log = Arc<Mutex<Vec<String>>>;

/// Copies each ConfigMap to a Secret of its cluster, and records the call.
async fn mirror(
    log: Log,
    request: Request,
    cluster: Cluster,
    ctx: Context,
) -> Result<Outcome, ReconcileError> {
    log.lock().push(format!("{}:{request}", cluster.name()));
    let Some(map) = cluster.client().get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": request.name(), "namespace": request.namespace(), "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": request.name(), "controller": true,
            "uid": map.metadata.uid,
        }]},
        "stringData": map.data,
    }))?;
    cluster.client().apply(&secret).await?;
    cluster.recorder().normal(&map, "Mirrored", "Mirror", "created a Secret");
    assert_eq!(ctx.controller(), "mirror");
    Ok(Outcome::Done)
}

fn manager(home: &Server, clusters: &Clusters, log: &Log) -> Manager {
    let log = Arc::clone(log);
    let reconcile =
        clusters.reconcile(move |request, cluster, ctx| mirror(Arc::clone(&log), request, cluster, ctx));
    let controller = Controller::of_requests("mirror")
        .source(watch_in(clusters, watch::<ConfigMap>()))
        .source(watch_in(clusters, watch::<Secret>()).owners::<ConfigMap>(false))
        .with_options(ControllerOptions::new().sync_timeout(Duration::from_secs(60)))
        .reconcile(reconcile);
    Manager::new(home.api_client())
        .leader_election(LeaderElection::new("mirror").namespace("default"))
        .add(clusters.clone())
        .controller(controller)
}

fn take(log: &Log) -> Vec<String> {
    let mut taken = std::mem::take(&mut *log.lock());
    taken.sort();
    taken.dedup();
    taken
}

/// Makes the API server of a cluster unreachable.
fn kill(server: &Server) {
    server.api.faults().on(FaultMatch::path("/")).status(503);
    server.api.faults().on(FaultMatch::watch("configmaps")).cut_after(0);
    server.api.faults().on(FaultMatch::watch("secrets")).cut_after(0);
}

fn secret(server: &Server, key: &str) -> Option<Value> {
    let (namespace, name) = key.split_once('/').unwrap();
    server.api.get(&gvr("secrets"), namespace, name).ok()
}

#[tokio::test(start_paused = true)]
async fn clusters_join_leave_and_die_without_disturbing_the_others() {
    let (home, members) = (Server::start(), [Server::start(), Server::start(), Server::start()]);
    let (clusters, log) = (Clusters::new(), Log::default());
    for (name, server) in ["a", "b", "c"].into_iter().zip(&members) {
        config_map(server, "default/web");
        clusters.engage(name, server.api_client()).unwrap();
    }
    let running = Running::start(manager(&home, &clusters, &log));
    quiet().await;
    assert_eq!(take(&log), ["a:default/web", "b:default/web", "c:default/web"]);
    for server in &members {
        let secret = secret(server, "default/web").expect("it is mirrored into its own cluster");
        let manager = &secret["metadata"]["managedFields"][0]["manager"];
        assert_eq!(manager, "mirror", "writes have the name of the controller");
    }
    assert!(home.api.get(&gvr("secrets"), "default", "web").is_err());
    let lease = informer_core::Gvr::new("coordination.k8s.io", "v1", "leases");
    assert!(home.api.get(&lease, "default", "mirror").is_ok(), "the home cluster has the Lease");
    assert!(members.iter().all(|member| member.api.get(&lease, "default", "mirror").is_err()));

    // A fourth cluster joins.
    let fourth = Server::start();
    config_map(&fourth, "default/late");
    clusters.engage("d", fourth.api_client()).unwrap();
    quiet().await;
    assert_eq!(take(&log), ["d:default/late"]);
    assert!(secret(&fourth, "default/late").is_some());

    // One dies. The others are reconciled as before.
    kill(&members[1]);
    quiet().await;
    take(&log);
    touch(&members[0], "default/web", json!({"data": {"x": "y"}}));
    delete(&members[2], "secrets", "default/web");
    quiet().await;
    let calls = take(&log);
    assert!(
        calls.contains(&"a:default/web".to_owned()) && calls.contains(&"c:default/web".to_owned()),
        "{calls:?}"
    );
    assert!(secret(&members[2], "default/web").is_some(), "the owned Secret is restored");

    // The dead cluster leaves, and its name is free for another one.
    assert!(clusters.engage("b", fourth.api_client()).is_err(), "the name is in use");
    assert!(clusters.disengage("b").await);
    assert!(!clusters.disengage("b").await);
    assert!(clusters.get(&ClusterName::from("b")).is_none());
    let replacement = Server::start();
    config_map(&replacement, "default/new");
    clusters.engage("b", replacement.api_client()).unwrap();
    quiet().await;
    assert_eq!(take(&log), ["b:default/new"]);

    running.stop().await.expect("a clean stop");
    assert!(clusters.names().is_empty(), "the manager disengages all clusters");
    assert!(clusters.engage("e", fourth.api_client()).is_err());
    let events = informer_core::Gvr::new("events.k8s.io", "v1", "events");
    assert!(
        !members[0].api.list(&events, "default").unwrap().is_empty(),
        "events are in the cluster of the object"
    );
}

#[tokio::test(start_paused = true)]
async fn cluster_that_is_unreachable_at_the_start_does_not_keep_the_controller_from_starting() {
    let (home, alive, dead) = (Server::start(), Server::start(), Server::start());
    kill(&dead);
    config_map(&alive, "default/web");
    let (clusters, log) = (Clusters::new(), Log::default());
    clusters.engage("alive", alive.api_client()).unwrap();
    clusters.engage("dead", dead.api_client()).unwrap();
    let running = Running::start(manager(&home, &clusters, &log));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(take(&log), ["alive:default/web"]);

    dead.api.faults().clear();
    config_map(&dead, "default/web");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(take(&log), ["dead:default/web"], "it is reconciled once its API server can be reached");
    running.stop().await.expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn reconcile_is_dropped_when_its_cluster_is_disengaged() {
    let (home, member) = (Server::start(), Server::start());
    config_map(&member, "default/web");
    let (clusters, dropped) = (Clusters::new(), Arc::new(()));
    clusters.engage("a", member.api_client()).unwrap();
    let held = Arc::clone(&dropped);
    let reconcile = clusters.reconcile(move |_, _, _| {
        let held = Arc::clone(&held);
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    let controller = Controller::of_requests("stuck")
        .source(watch_in(&clusters, watch::<ConfigMap>()))
        .reconcile(reconcile);
    let running =
        Running::start(Manager::new(home.api_client()).add(clusters.clone()).controller(controller));
    quiet().await;
    assert_eq!(Arc::strong_count(&dropped), 3, "the reconcile runs");
    clusters.disengage("a").await;
    quiet().await;
    assert_eq!(Arc::strong_count(&dropped), 2, "the reconcile was dropped");
    running.stop().await.expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn clusters_end_with_a_manager_that_is_dropped() {
    let (home, member) = (Server::start(), Server::start());
    let clusters = Clusters::new();
    let cluster = clusters.engage("a", member.api_client()).unwrap();
    let informer = cluster.cache().informer::<ConfigMap>();
    let manager = Manager::new(home.api_client()).add(clusters.clone());
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    quiet().await;
    assert!(informer.has_synced() && !informer.is_stopped());
    task.abort();
    quiet().await;
    assert!(cluster.disengaged().is_cancelled());
    assert!(informer.is_stopped(), "its cache has stopped");
    assert!(clusters.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn caches_of_all_clusters_share_one_memory_budget() {
    let servers = [Server::start(), Server::start()];
    let budget = MemoryBudget::new(1 << 20);
    let clusters = Clusters::new().memory_budget(budget.clone());
    let mut used = Vec::new();
    for (name, server) in ["east", "west"].into_iter().zip(&servers) {
        config_map(server, "default/web");
        let cluster = clusters.engage(name, server.api_client()).unwrap();
        assert_eq!(cluster.cache().list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
        used.push(budget.state().used);
    }
    assert!(0 < used[0] && used[0] < used[1], "{used:?}");
    assert_eq!(budget.state().sources.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn hook_configures_each_cluster_or_rejects_it() {
    let (first, second) = (Server::start(), Server::start());
    let clusters = Clusters::new().on_engage(|cluster| {
        if cluster.name().as_str() == "bad" {
            return Err("not allowed".into());
        }
        Ok(cluster.cache().index_field::<ConfigMap>("data.a", informer_store::field("data.a"))?)
    });
    config_map(&first, "default/web");
    let cluster = clusters.engage("good", first.api_client()).unwrap();
    let by_field = ListOptions::default().fields("data.a=b".parse().unwrap());
    assert_eq!(cluster.cache().list::<ConfigMap>(&by_field).await.unwrap().len(), 1);
    assert_eq!(clusters.engage("bad", second.api_client()).unwrap_err().to_string(), "not allowed");
    assert_eq!(clusters.names(), [ClusterName::from("good")]);
}
