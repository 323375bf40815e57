//! Tests that failed Lease requests of elections and shard groups appear in the metrics, health checks and
//! debug pages of a manager.

use std::sync::atomic::{AtomicU64, Ordering};

use informer_apiserver::{FaultAction, FaultMatch, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::*;
use crate::{Controller, LeaderElection, ManagerHandle, Outcome, Probe, Request, ShardGroup};

fn elects(server: &ApiServer, election: LeaderElection) -> ManagerHandle {
    let manager = Manager::new(Client::from_service(server.service(), "default")).leader_election(election);
    start(manager)
}

fn start(manager: Manager) -> ManagerHandle {
    let handle = manager.handle();
    tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle
}

async fn ready(handle: &ManagerHandle, check: &str) -> (u16, String) {
    let uri = format!("/readyz/{check}").parse().expect("a path");
    let response = handle.health().respond(Probe::Ready, &uri).await;
    (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
}

fn shown(handle: &ManagerHandle) -> Value {
    let page = handle.shared.instrumentation.leases_page(Instant::now().into_std());
    assert_eq!(page["leases"].as_array().map(Vec::len), Some(1), "{page}");
    page["leases"][0].clone()
}

fn counted(handle: &ManagerHandle, reason: &str) -> u64 {
    let text = handle.shared.instrumentation.metrics().expect("valid text");
    let labels = format!("reason=\"{reason}\"}} ");
    let mut lines = text.lines().filter(|line| line.starts_with("informer_lease_request_failures_total"));
    let line = lines.find_map(|line| line.split_once(&labels)).expect("the metric exists from the beginning");
    line.1.parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn rejected_lease_requests_are_counted_and_shown_and_make_the_manager_unready() {
    let create = FaultMatch::verb(Verb::Create);
    for (on, status, reason) in [
        (FaultMatch::path("/leases"), 403, "forbidden"),
        // The server rejects only the request that creates the Lease; reads of the Lease succeed.
        (create.clone(), 403, "forbidden"),
        (create, 404, "not_found"),
    ] {
        let server = ApiServer::builder().build();
        server.faults().on(on).status(status);
        let handle = elects(&server, LeaderElection::new("operator").identity("first"));
        sleep(seconds(1)).await;
        let (code, why) = ready(&handle, "leader-election").await;
        assert_eq!(code, 500, "{reason}: {why}");
        assert!(why.contains(&format!("the server responded with {status}")), "{why}");
        sleep(seconds(60)).await;
        let lease = shown(&handle);
        assert_eq!((&lease["namespace"], &lease["name"]), (&"default".into(), &"operator".into()));
        assert_eq!(lease["active"], false);
        assert!(lease["failures"].as_u64().is_some_and(|failures| failures >= 13), "{lease}");
        assert!(lease["failingSeconds"].as_f64().is_some_and(|failing| failing >= 60.0), "{lease}");
        assert!(
            lease["lastError"].as_str().is_some_and(|error| error.contains(&status.to_string())),
            "{lease}"
        );
        assert!(counted(&handle, reason) >= 13, "{}", counted(&handle, reason));

        server.faults().clear();
        sleep(seconds(10)).await;
        assert_eq!(ready(&handle, "leader-election").await.0, 200);
        let lease = shown(&handle);
        assert_eq!((&lease["active"], &lease["holder"]), (&true.into(), &"first".into()));
        assert_eq!((&lease["lastError"], &lease["failingSeconds"]), (&Value::Null, &Value::Null));
        handle.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn election_in_a_namespace_that_does_not_exist_is_not_ready() {
    let server = ApiServer::builder().require_namespaces(true).build();
    let handle = elects(&server, LeaderElection::new("operator").namespace("missing"));
    sleep(seconds(1)).await;
    let (code, why) = ready(&handle, "leader-election").await;
    assert_eq!(code, 500, "{why}");
    assert!(why.contains("check that the namespace exists"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_makes_an_election_unready_after_the_renew_deadline() {
    let server = ApiServer::builder().build();
    let handle = elects(&server, LeaderElection::new("operator").identity("first"));
    sleep(seconds(5)).await;
    assert_eq!(shown(&handle)["active"], true);
    // The test checks the readiness of a standby, because a leader that cannot renew its Lease stops with its
    // manager.
    let standby = elects(&server, LeaderElection::new("operator").identity("second"));
    sleep(seconds(5)).await;
    server.faults().on(FaultMatch::path("/leases")).then(FaultAction::NeverAnswer);
    sleep(seconds(11)).await;
    assert_eq!(ready(&standby, "leader-election").await.0, 200, "one request has failed");
    sleep(seconds(20)).await;
    let (code, why) = ready(&standby, "leader-election").await;
    assert_eq!(code, 500, "{why}");
    assert!(why.contains("no response within 5s"), "{why}");
    assert!(counted(&standby, "unreachable") > 0);
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_of_a_shard_group_are_shown_and_make_the_manager_unready() {
    let server = ApiServer::builder().build();
    let controller = Controller::new::<ConfigMap>("maps").sharded(ShardGroup::new("maps"));
    let controller = controller.reconcile(|_: Request, _| async { Ok(Outcome::Done) });
    let manager = Manager::new(Client::from_service(server.service(), "default")).controller(controller);
    let handle = start(manager);
    sleep(seconds(10)).await;
    assert_eq!(shown(&handle)["active"], true);
    assert_eq!(ready(&handle, "shard-group-maps").await.0, 200);
    // The server rejects only the writes of the member's Lease; lists of the group's Leases still succeed.
    server.faults().on(FaultMatch::verb(Verb::Patch)).status(403);
    sleep(seconds(60)).await;
    let (code, why) = ready(&handle, "shard-group-maps").await;
    assert_eq!(code, 500, "{why}");
    assert!(why.contains("the server responded with 403"), "{why}");
    let lease = shown(&handle);
    assert_eq!((&lease["kind"], &lease["active"]), (&"shard-group".into(), &false.into()));
    assert!(counted(&handle, "forbidden") > 1);
    server.faults().clear();
    sleep(seconds(30)).await;
    assert_eq!(ready(&handle, "shard-group-maps").await.0, 200);
}

#[derive(Clone, Default)]
struct Warnings(Arc<AtomicU64>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().contains("leader::health")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn failed_lease_requests_are_logged_at_once_and_then_at_growing_intervals() {
    let warnings = Warnings::default();
    let _subscribed = tracing::subscriber::set_default(warnings.clone());
    // This second dispatcher only exists so that the process has more than one. With a single log subscriber,
    // the thread that first reaches a log statement decides for all threads whether the statement is enabled.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let server = ApiServer::builder().build();
    server.faults().on(FaultMatch::path("/leases")).status(403);
    let handle = elects(&server, LeaderElection::new("operator"));
    sleep(seconds(1)).await;
    assert_eq!(warnings.0.load(Ordering::SeqCst), 1, "logged immediately");
    sleep(seconds(600)).await;
    let logged = warnings.0.load(Ordering::SeqCst);
    assert!((5..=7).contains(&logged), "{logged} warnings of {} failures", shown(&handle)["failures"]);
}
