use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{ApiServer, FaultAction, FaultMatch, KindDefinition, Verb};
use informer_client::Client;
use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{LeaderElection, LeaderLost, Leadership};
use crate::{Manager, ManagerError, RunnableGroup, runnable};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn server() -> ApiServer {
    ApiServer::builder().build()
}

fn client(server: &ApiServer) -> Client {
    Client::from_service(server.service(), "default")
}

fn leases() -> Gvr {
    Gvr::new("coordination.k8s.io", "v1", "leases")
}

fn lease(server: &ApiServer) -> Value {
    server.get(&leases(), "default", "operator").expect("the Lease exists")
}

struct Replica {
    leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), LeaderLost>>,
}

impl Replica {
    fn start(server: &ApiServer, identity: &str) -> Self {
        Self::of(server, LeaderElection::new("operator").identity(identity))
    }

    fn of(server: &ApiServer, election: LeaderElection) -> Self {
        let elector = election.elector(client(server)).expect("a valid election");
        let (leadership, stop) = (elector.leadership(), CancellationToken::new());
        Self { leadership, task: tokio::spawn(elector.run(stop.clone())), stop }
    }

    async fn leads(&mut self) {
        let led = self.leadership.wait_for(Leadership::is_leading);
        timeout(seconds(60), led).await.expect("it leads in time").expect("it keeps running");
    }

    fn is_leading(&self) -> bool {
        self.leadership.borrow().is_leading()
    }
}

#[tokio::test(start_paused = true)]
async fn first_replica_creates_the_lease_and_second_stands_by() {
    let server = server();
    let mut first = Replica::start(&server, "first");
    first.leads().await;
    let second = Replica::start(&server, "second");
    sleep(seconds(120)).await;
    assert!(first.is_leading() && !second.is_leading());
    let spec = lease(&server)["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("first"), &json!(15)));
    assert_eq!(spec["leaseTransitions"], 0);
    assert!(spec["renewTime"].as_str() > spec["acquireTime"].as_str());
}

#[tokio::test(start_paused = true)]
async fn standby_takes_over_at_once_from_stopped_leader() {
    let server = server();
    let (mut first, mut second) = (Replica::start(&server, "first"), Replica::start(&server, "second"));
    first.leads().await;
    sleep(seconds(30)).await;
    first.stop.cancel();
    let stopped = Instant::now();
    second.leads().await;
    assert!(stopped.elapsed() <= seconds(1), "after {:?}", stopped.elapsed());
    first.task.await.expect("no panic").expect("the lease is not lost");
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 1);
    assert_eq!(*first.leadership.borrow(), Leadership::Ended);
}

#[tokio::test(start_paused = true)]
async fn unreleased_lease_excludes_others_until_it_expires() {
    let server = server();
    let kept = LeaderElection::new("operator").identity("first").release_on_stop(false);
    let (mut first, mut second) = (Replica::of(&server, kept), Replica::start(&server, "second"));
    first.leads().await;
    sleep(seconds(31)).await;
    first.stop.cancel();
    first.task.await.expect("no panic").expect("the lease is not lost");
    let stopped = Instant::now();
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "first");
    second.leads().await;
    let took = stopped.elapsed();
    assert!(took > seconds(12) && took <= seconds(18), "after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn standby_takes_over_from_killed_leader_after_lease_expires() {
    let server = server();
    let (mut first, mut second) = (Replica::start(&server, "first"), Replica::start(&server, "second"));
    first.leads().await;
    sleep(seconds(31)).await;
    first.task.abort();
    let killed = Instant::now();
    second.leads().await;
    let took = killed.elapsed();
    assert!(took > seconds(12) && took <= seconds(18), "after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn standby_without_watch_permission_polls_the_lease() {
    let server = server();
    server.faults().on(FaultMatch::watch("leases")).status(403);
    let (mut first, mut second) = (Replica::start(&server, "first"), Replica::start(&server, "second"));
    first.leads().await;
    let before = server.count_requests(Verb::Get, "leases");
    sleep(seconds(300)).await;
    let looks = server.count_requests(Verb::Get, "leases") - before;
    assert!((60..=155).contains(&looks), "{looks} reads in five minutes");
    first.stop.cancel();
    let stopped = Instant::now();
    second.leads().await;
    assert!(stopped.elapsed() <= Duration::from_millis(4_500), "after {:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leader_without_server_gives_up_before_its_lease_expires() {
    let server = server();
    let mut first = Replica::start(&server, "first");
    first.leads().await;
    sleep(seconds(20)).await;
    let begun = Instant::now();
    server.faults().on(FaultMatch::verb(Verb::Update)).then(FaultAction::NeverAnswer);
    server.faults().on(FaultMatch::verb(Verb::Get)).status(500);
    let lost = first.task.await.expect("no panic").expect_err("the lease is lost");
    assert!(begun.elapsed() <= seconds(12), "after {:?}", begun.elapsed());
    assert!(lost.time_left() >= Duration::from_millis(1_400), "{lost:?}");
    assert_eq!(*first.leadership.borrow(), Leadership::Ended);
}

#[tokio::test(start_paused = true)]
async fn temporarily_slow_server_does_not_cost_leadership() {
    let server = server();
    let mut first = Replica::start(&server, "first");
    first.leads().await;
    server.faults().on(FaultMatch::verb(Verb::Update)).times(2).status(429);
    sleep(seconds(20)).await;
    server.faults().on(FaultMatch::verb(Verb::Update)).times(20).then(FaultAction::Delay { millis: 4_000 });
    sleep(seconds(200)).await;
    assert!(first.is_leading(), "{:?}", first.task.await);
}

#[tokio::test(start_paused = true)]
async fn stalled_leader_fails_health_check_after_lease_expires() {
    let server = server();
    let elector = LeaderElection::new("operator").elector(client(&server)).expect("a valid election");
    let (check, mut leadership) = (elector.check(), elector.leadership());
    check().await.expect("a standby is healthy");
    // The elector's loop runs only while this test polls its future, so the test can block the loop.
    let mut running = std::pin::pin!(elector.run(CancellationToken::new()));
    tokio::select! {
        _ = &mut running => panic!("the election ended"),
        led = leadership.wait_for(Leadership::is_leading) => drop(led),
    }
    tokio::select! {
        _ = &mut running => panic!("the election ended"),
        () = sleep(seconds(60)) => {}
    }
    check().await.expect("a renewed lease");
    sleep(seconds(14)).await;
    check().await.expect_err("nothing was renewed");
}

#[tokio::test(start_paused = true)]
async fn leader_keeps_foreign_fields_of_the_lease() {
    let server = server();
    let mut first = Replica::start(&server, "first");
    first.leads().await;
    let mut changed = lease(&server);
    changed["metadata"]["labels"] = json!({"team": "blue"});
    server.update(&leases(), "default", changed).expect("a valid object");
    sleep(seconds(10)).await;
    assert!(first.is_leading());
    let seen = lease(&server);
    assert_eq!(seen["metadata"]["labels"]["team"], "blue");
    assert_eq!(seen["spec"]["holderIdentity"], "first");
}

#[tokio::test(start_paused = true)]
async fn holder_changes_are_observed() {
    let server = server();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = Arc::clone(&seen);
    let election = LeaderElection::new("operator").identity("bystander");
    let election = election.on_holder(move |holder| note.lock().push(holder.to_owned()));
    let mut first = Replica::start(&server, "first");
    first.leads().await;
    let elector = election.elector(client(&server)).expect("a valid election");
    let stop = CancellationToken::new();
    let bystander = tokio::spawn(elector.run(stop.clone()));
    sleep(seconds(5)).await;
    first.stop.cancel();
    sleep(seconds(5)).await;
    stop.cancel();
    bystander.await.expect("no panic").expect("the lease is not lost");
    assert_eq!(*seen.lock(), ["first", "", "bystander", ""]);
}

#[tokio::test(start_paused = true)]
async fn panicking_observer_does_not_cost_the_lease() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = Arc::clone(&seen);
    let election = LeaderElection::new("operator").identity("one").on_holder(|_| panic!("on purpose"));
    let election = election.on_holder(move |holder| note.lock().push(holder.to_owned()));
    let elector = election.elector(client(&server())).expect("a valid election");
    let stop = CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    sleep(seconds(30)).await;
    assert_eq!(*seen.lock(), ["one"]);
    stop.cancel();
    running.await.expect("no panic").expect("the lease is not lost");
}

#[test]
fn invalid_election_config_is_rejected() {
    let rejected = |election: LeaderElection| {
        let error = election.elector(client(&server())).expect_err("an invalid configuration");
        error.to_string().split_once(": ").map(|(_, problem)| problem.to_owned()).unwrap_or_default()
    };
    let election = || LeaderElection::new("operator");
    assert_eq!(rejected(LeaderElection::new("")), "the name is missing; set it");
    assert_eq!(rejected(election().identity("")), "the identity is empty; set it, or leave the default");
    assert!(rejected(LeaderElection::new("../secrets")).starts_with("the name or namespace is invalid"));
    let coordinated = election().identity("not a name").coordinated(super::Coordination::new("1.0.0"));
    assert!(rejected(coordinated).starts_with("the identity is no name of a LeaseCandidate"));
    assert!(
        rejected(election().lease_duration(seconds(10)))
            .starts_with("the lease duration (10s) must be greater")
    );
    assert!(rejected(election().renew_deadline(seconds(2))).starts_with("the renew deadline (2s) must be"));
    assert!(rejected(election().retry_period(Duration::ZERO)).starts_with("the retry period"));
    assert!(
        rejected(election().lease_duration(Duration::ZERO))
            .starts_with("the lease duration is less than a second")
    );
    assert!(rejected(election().retry_period(Duration::MAX)).starts_with("the renew deadline (10s) must be"));
    assert!(
        rejected(election().lease_duration(Duration::MAX)).starts_with("the lease duration is greater than")
    );
}

#[test]
fn lease_duration_is_truncated_to_whole_seconds() {
    let lease = Duration::from_millis(1_900);
    let times = LeaderElection::new("operator").lease_duration(lease).retry_period(seconds(1) / 10);
    let rejected = times
        .clone()
        .renew_deadline(seconds(1))
        .elector(client(&server()))
        .expect_err("an invalid configuration");
    assert!(
        rejected.to_string().contains("the lease duration (1s) must be greater than the renew deadline (1s)")
    );
    let _elector = times.renew_deadline(seconds(1) / 2).elector(client(&server())).expect("a valid election");
}

/// Returns the manager of one replica. The replica's leader-only runnable writes to the shared log when it
/// starts and stops.
fn replica(server: &ApiServer, identity: &'static str, work: &Arc<Mutex<Vec<String>>>) -> Manager {
    let work = Arc::clone(work);
    let part = runnable("work", move |stop: CancellationToken| async move {
        work.lock().push(format!("+{identity}"));
        stop.cancelled().await;
        sleep(seconds(1)).await;
        work.lock().push(format!("-{identity}"));
        Ok(())
    });
    Manager::new(client(server)).add(part).leader_election(LeaderElection::new("operator").identity(identity))
}

fn run(manager: Manager) -> JoinHandle<Result<(), ManagerError>> {
    tokio::spawn(manager.run_until(std::future::pending::<()>()))
}

#[tokio::test(start_paused = true)]
async fn leader_only_runnables_run_in_one_manager_and_lease_is_released_after_they_ended() {
    let (server, work) = (server(), Arc::default());
    let (first, second) = (replica(&server, "first", &work), replica(&server, "second", &work));
    let (handle, other) = (first.handle(), second.handle());
    let first = run(first);
    sleep(seconds(1)).await;
    let second = run(second);
    sleep(seconds(60)).await;
    assert_eq!(*work.lock(), ["+first"]);
    assert!(handle.is_leader() && !other.is_leader());
    handle.stop();
    first.await.expect("no panic").expect("a clean stop");
    sleep(seconds(5)).await;
    assert_eq!(*work.lock(), ["+first", "-first", "+second"], "never concurrently");
    other.stop();
    second.await.expect("no panic").expect("a clean stop");
}

#[cfg(feature = "prometheus")]
#[tokio::test(start_paused = true)]
async fn leadership_is_a_metric_and_its_changes_are_events_of_the_lease() {
    let (server, work) = (server(), Arc::default());
    let manager = replica(&server, "first", &work);
    let handle = manager.handle();
    let leads = |expected: u8| {
        let mut text = String::new();
        let page = &mut text;
        handle
            .register_metrics(|registry| prometheus_client::encoding::text::encode(page, registry))
            .expect("text");
        let line = format!("leader_election_master_status{{name=\"operator\"}} {expected}\n");
        assert!(text.contains(&line), "{line}{text}");
    };
    leads(0);
    let manager = run(manager);
    sleep(seconds(5)).await;
    leads(1);
    handle.stop();
    manager.await.expect("no panic").expect("a clean stop");
    leads(0);
    let events =
        server.list(&Gvr::new("events.k8s.io", "v1", "events"), "default").expect("the kind is served");
    let mut told: Vec<_> = events.iter().map(|event| [&event["regarding"]["kind"], &event["note"]]).collect();
    told.sort_by_key(|told| told[1].to_string());
    assert_eq!(told, [["Lease", "first became leader"], ["Lease", "first stopped leading"]]);
    assert!(events.iter().all(|event| event["series"].is_null()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn stopped_standby_never_started_its_leader_only_runnables() {
    let (server, work) = (server(), Arc::default());
    let mut leader = Replica::start(&server, "leader");
    leader.leads().await;
    let standby = replica(&server, "standby", &work);
    let handle = standby.handle();
    let standby = run(standby);
    sleep(seconds(30)).await;
    assert_eq!(*handle.status().borrow(), crate::ManagerStatus::Running, "a standby is ready");
    handle.stop();
    standby.await.expect("no panic").expect("a clean stop");
    assert!(work.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn manager_that_loses_its_lease_ends_with_leader_lost() {
    let (server, work) = (server(), Arc::default());
    let mut manager = replica(&server, "first", &work);
    // This runnable ignores the request to stop. The manager must drop it before its lease expires, because
    // another process may be the leader after that.
    manager = manager.add(runnable("stubborn", |_| std::future::pending()));
    let manager = run(manager);
    sleep(seconds(10)).await;
    let mut taken = lease(&server);
    taken["spec"]["holderIdentity"] = json!("intruder");
    server.update(&leases(), "default", taken).expect("a valid object");
    let begun = Instant::now();
    let error = manager.await.expect("no panic").expect_err("the lease is lost");
    assert!(error.is_leader_lost(), "{error}");
    assert_eq!(error.unstopped(), ["stubborn"]);
    assert!(begun.elapsed() <= Duration::from_millis(13_600), "after {:?}", begun.elapsed());
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "intruder");
}

#[tokio::test(start_paused = true)]
async fn lease_expires_if_leader_only_runnables_do_not_stop() {
    let (server, work) = (server(), Arc::default());
    let manager = replica(&server, "first", &work).add(runnable("stubborn", |_| std::future::pending()));
    let handle = manager.handle();
    let manager = run(manager);
    sleep(seconds(10)).await;
    handle.stop();
    let error = manager.await.expect("no panic").expect_err("a runnable did not stop");
    assert_eq!(error.unstopped(), ["stubborn"]);
    assert_eq!(lease(&server)["spec"]["holderIdentity"], "first");
}

#[tokio::test(start_paused = true)]
async fn without_election_leader_only_runnables_run_and_no_lease_is_requested() {
    let server = server();
    let done = runnable("work", |_| async { Ok(()) }).group(RunnableGroup::LeaderOnly);
    let manager = Manager::new(client(&server)).add(done);
    let handle = manager.handle();
    let running = run(manager);
    sleep(seconds(1)).await;
    assert!(handle.is_leader());
    handle.stop();
    running.await.expect("no panic").expect("a clean stop");
    assert_eq!(server.requests().len(), 0);
}

fn two_controllers(
    server: &ApiServer,
    identity: &'static str,
    seen: &Arc<Mutex<Vec<String>>>,
) -> (CancellationToken, JoinHandle<Result<(), ManagerError>>) {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    let told = |controller: &'static str| {
        let seen = Arc::clone(seen);
        move |request: crate::Request, _: crate::Context| {
            seen.lock().push(format!("{identity}: {controller} {request}"));
            async { Ok(crate::Outcome::Done) }
        }
    };
    let election = LeaderElection::new("operator").identity(identity);
    let manager = Manager::new(client(server))
        .leader_election(election)
        .controller(crate::Controller::new::<ConfigMap>("maps").reconcile(told("maps")))
        .controller(crate::Controller::new::<Secret>("secrets").reconcile(told("secrets")));
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(manager.run_until(stop.cancelled_owned())))
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_manager_lead_and_stop_together() {
    let (server, seen): (_, Arc<Mutex<Vec<String>>>) = (server(), Arc::default());
    for resource in ["configmaps", "secrets"] {
        let object = json!({"metadata": {"name": "x", "namespace": "a"}});
        server.create(&Gvr::new("", "v1", resource), "a", object).expect("a valid object");
    }
    let take = || {
        let mut seen = std::mem::take(&mut *seen.lock());
        seen.sort();
        seen
    };
    let (stop, first) = two_controllers(&server, "one", &seen);
    sleep(seconds(5)).await;
    let (_second_stop, _second) = two_controllers(&server, "two", &seen);
    sleep(seconds(60)).await;
    assert_eq!(take(), ["one: maps a/x", "one: secrets a/x"], "the standby does not reconcile");
    stop.cancel();
    first.await.expect("no panic").expect("no error");
    sleep(seconds(3)).await;
    assert_eq!(take(), ["two: maps a/x", "two: secrets a/x"], "both controllers move together");
}

#[tokio::test(start_paused = true)]
async fn lease_gets_labels_and_may_be_in_another_cluster_than_that_of_the_manager() {
    let (own, other) = (server(), server());
    let election = || {
        LeaderElection::new("operator").label("app", "shop").label("tier", "control").client(client(&other))
    };
    let mut first = Replica::of(&own, election());
    first.leads().await;
    assert!(own.get(&leases(), "default", "operator").is_err());
    assert_eq!(lease(&other)["metadata"]["labels"], json!({"app": "shop", "tier": "control"}));

    let mut changed = lease(&other);
    changed["metadata"]["labels"] = json!({"theirs": "kept"});
    other.update(&leases(), "default", changed).expect("a change of labels");
    sleep(seconds(10)).await;
    let labels = lease(&other)["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"app": "shop", "tier": "control", "theirs": "kept"}));
}

#[tokio::test(start_paused = true)]
async fn coordinated_candidate_responds_to_pings_and_leads_when_it_is_chosen() {
    // Servers do not serve this beta version by default.
    let kind = KindDefinition::custom("coordination.k8s.io", "v1beta1", "LeaseCandidate").without_status();
    let server = ApiServer::builder().kind(kind).build();
    let candidates = Gvr::new("coordination.k8s.io", "v1beta1", "leasecandidates");
    let election = |identity: &str| {
        let coordination = super::Coordination::new("1.4.0").emulation_version("1.3.0");
        LeaderElection::new("operator").identity(identity).coordinated(coordination)
    };
    let (mut first, second) =
        (Replica::of(&server, election("first")), Replica::of(&server, election("second")));
    sleep(seconds(60)).await;
    assert!(!first.is_leading() && !second.is_leading(), "nobody was chosen");
    assert!(server.get(&leases(), "default", "operator").is_err());
    let mut candidate = server.get(&candidates, "default", "first").expect("it exists");
    let spec = &candidate["spec"];
    assert_eq!((&spec["leaseName"], &spec["binaryVersion"]), (&json!("operator"), &json!("1.4.0")));
    assert_eq!(
        (&spec["emulationVersion"], &spec["strategy"]),
        (&json!("1.3.0"), &json!("OldestEmulationVersion"))
    );

    candidate["spec"]["pingTime"] = json!("2020-01-01T00:00:00.000000Z");
    candidate["spec"]["renewTime"] = json!("2019-01-01T00:00:00.000000Z");
    server.update(&candidates, "default", candidate).expect("a ping");
    sleep(seconds(5)).await;
    let pinged = server.get(&candidates, "default", "first").expect("it exists");
    assert!(pinged["spec"]["renewTime"].as_str() > Some("2020-01-01"), "{}", pinged["spec"]);

    let chosen = json!({
        "metadata": {"name": "operator", "namespace": "default"},
        "spec": {
            "holderIdentity": "first", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion",
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    server.create(&leases(), "default", chosen).expect("the coordinator writes the Lease");
    first.leads().await;
    sleep(seconds(60)).await;
    assert!(first.is_leading() && !second.is_leading());

    let mut preferred = lease(&server);
    preferred["spec"]["preferredHolder"] = json!("second");
    server.update(&leases(), "default", preferred).expect("the coordinator prefers another one");
    let lost = first.task.await.expect("no panic").expect_err("its term has ended");
    assert!(lost.to_string().contains("the coordinator prefers second"), "{lost}");

    second.stop.cancel();
    second.task.await.expect("no panic").expect("it did not lead");
    assert!(server.get(&candidates, "default", "second").is_err(), "a candidate that stops is deleted");
}
