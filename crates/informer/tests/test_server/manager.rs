//! Tests of the managers that a `TestServer` runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informer::CancellationToken;
use informer::prelude::*;
use informer::runtime::{
    ControllerOptions, IntoRunnable, LeaderElection, Leadership, ManagerStatus, RunnableGroup, runnable,
    source,
};
use informer::testing::{ApiServer, TestServer, User, absent, exists, has_field, pod, request};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;

const KEY: &str = "default/web-0";

/// Returns a controller that adds a label with this value to each pod.
fn labels(value: &'static str) -> Controller {
    Controller::new::<Pod>("labels").reconcile(move |request: Request, ctx: Context| async move {
        let Some(pod) = ctx.get::<Pod>(&request.key).await? else { return Ok(Outcome::Done) };
        let mut edited = pod.edit();
        edited.metadata.labels.get_or_insert_default().insert("by".to_owned(), value.to_owned());
        ctx.client.update(&edited).await?;
        Ok(Outcome::Done)
    })
}

/// Returns the message of the panic of a task.
async fn panic_of(task: impl Future<Output: Send + 'static> + Send + 'static) -> String {
    let error = tokio::spawn(task).await.map(drop).expect_err("the wait fails");
    *error.into_panic().downcast::<String>().expect("a panic with a message")
}

/// A runnable that fails after a second.
fn failing() -> impl informer::runtime::IntoRunnable {
    let failing = runnable("importer", |_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err("the disk is full".into())
    });
    failing.group(RunnableGroup::Others)
}

#[tokio::test(start_paused = true)]
async fn controller_runs_until_its_manager_is_stopped() {
    let server = TestServer::start().await;
    let manager = server.run(labels("a"));
    server.create(&pod(KEY)).await.unwrap();
    server.eventually(KEY, has_field::<Pod>("metadata.labels.by", "a")).await;
    manager.stop().await.unwrap();
    server.create(&pod("default/web-1")).await.unwrap();
    let unchanged = |pod: &Pod| pod.metadata.labels.is_none();
    server.consistently("default/web-1", unchanged, Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_manager_stops_in_the_background() {
    let (server, stopped) = (TestServer::start().await, Arc::new(AtomicBool::new(false)));
    let set = Arc::clone(&stopped);
    let slow = runnable("slow", move |stop: CancellationToken| async move {
        stop.cancelled().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        set.store(true, Ordering::Relaxed);
        Ok(())
    });
    let manager = server.run(slow.group(RunnableGroup::Others));
    let mut status = manager.handle().status();
    status.wait_for(|status| *status == ManagerStatus::Running).await.unwrap();
    drop(manager);
    assert!(!stopped.load(Ordering::Relaxed), "the drop does not wait");
    status.wait_for(|status| *status == ManagerStatus::Stopped).await.unwrap();
    assert!(stopped.load(Ordering::Relaxed), "the runnable could end");
}

#[tokio::test(start_paused = true)]
async fn waits_fail_with_the_error_of_a_failed_manager() {
    let server = TestServer::start().await;
    let manager = server.run(failing());
    let (waiting, before) = (server.clone(), tokio::time::Instant::now());
    let message = panic_of(async move { waiting.eventually(KEY, exists::<Pod>()).await }).await;
    assert_eq!(before.elapsed(), Duration::from_secs(1), "the wait does not last until its timeout");
    assert!(
        message.starts_with("wait for Pod default/web-0: a manager of the test failed, at "),
        "{message}"
    );
    let problem = "  problem: the manager ended: importer failed: the disk is full\n";
    assert!(message.contains(problem), "{message}");

    let waiting = server.clone();
    let later = async move { waiting.consistently(KEY, absent::<Pod>(), Duration::from_secs(9)).await };
    assert!(panic_of(later).await.contains(problem), "a later wait fails, too");

    let error = manager.stop().await.unwrap_err();
    assert_eq!(error.to_string(), "the manager ended: importer failed");
    server.eventually(KEY, absent::<Pod>()).await;
}

/// Runs a controller or a runnable that fails, and returns the panic of the wait and the error of `stop`.
async fn failures_of(failing: impl IntoRunnable) -> (String, String) {
    let server = TestServer::of(ApiServer::builder().rbac(true).build());
    let user = server.client_as(User::new("operator"));
    let manager = server.run_manager(|_| Manager::new(user).add(failing));
    let waiting = server.clone();
    let message = panic_of(async move { waiting.eventually(KEY, exists::<Pod>()).await }).await;
    (message, manager.stop().await.expect_err("the manager has failed").to_string())
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_controller_names_the_controller_and_its_part() {
    let controller = || Controller::builder().named("labels").for_::<Pod>();
    let tick = source::function("minutes", |_| async { Err("the clock has stopped".into()) });
    let failing = controller().source(tick).reconcile(|_: Request, _| async { Ok(Outcome::Done) });
    let (message, error) = failures_of(failing).await;
    let problem = "controller labels: the source function minutes failed to start: the clock has stopped\n";
    assert!(message.contains(problem), "{message}");
    assert_eq!(error, "the manager ended: controller labels failed");

    // The user has no permissions, so the cache of the controller does not sync.
    let denied = controller().with_options(ControllerOptions::default().sync_timeout(Duration::from_secs(5)));
    let (message, error) = failures_of(denied.reconcile(|_: Request, _| async { Ok(Outcome::Done) })).await;
    let problem = "controller labels: the source kind Pod.v1 failed to start: not synced after 5s";
    let cause = "403 Forbidden: pods is forbidden: User \"operator\" cannot list";
    assert!(message.contains(problem) && message.contains(cause), "{message}");
    assert_eq!(error, "the manager ended: controller labels failed");
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_runnable_names_the_runnable() {
    let panics = runnable("importer", |_| async { panic!("the index is out of bounds") });
    let (message, error) = failures_of(panics.group(RunnableGroup::Others)).await;
    let problem = "  problem: the manager ended: importer panicked: the index is out of bounds\n";
    assert!(message.contains(problem), "{message}");
    assert_eq!(error, "the manager ended: importer panicked: the index is out of bounds");
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_dropped_or_exempt_manager_does_not_fail_waits() {
    let server = TestServer::start().await;
    drop(server.run(failing()));
    let exempt = server.run(failing()).may_fail();
    server.consistently(KEY, absent::<Pod>(), Duration::from_secs(60)).await;
    exempt.stop().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn invalid_controller_is_reported_by_the_wait() {
    let server = TestServer::start().await;
    let _manager = server.run_manager(|manager| manager.controller(labels("a")).controller(labels("b")));
    let waiting = server.clone();
    let message = panic_of(async move { waiting.eventually(KEY, exists::<Pod>()).await }).await;
    assert!(message.contains("the name labels is taken in this manager"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn leader_election_is_off_unless_it_is_configured() {
    let server = TestServer::start().await;
    let first = server.run(labels("a"));
    server.create(&pod(KEY)).await.unwrap();
    server.eventually(KEY, has_field::<Pod>("metadata.labels.by", "a")).await;
    assert_eq!(server.requests(request::write::<Lease>()).count(), 0);
    first.stop().await.unwrap();

    let replica = |name: &str| LeaderElection::new("labels").namespace("default").identity(name);
    let leader = server.run_manager(|manager| manager.leader_election(replica("a")).add(labels("b")));
    let mut leadership = leader.handle().leadership();
    leadership.wait_for(Leadership::is_leading).await.unwrap();
    let standby = server.run_manager(|manager| manager.leader_election(replica("b")).add(labels("c")));
    server.eventually(KEY, has_field::<Pod>("metadata.labels.by", "b")).await;
    leader.stop().await.unwrap();
    server.eventually(KEY, has_field::<Pod>("metadata.labels.by", "c")).await;
    standby.stop().await.unwrap();
}
