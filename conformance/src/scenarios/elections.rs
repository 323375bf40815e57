use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer::Gvr;
use informer_runtime::{CancellationToken, Coordination, LeaderElection, Manager, runnable};
use serde_json::{Value, json};

use super::managers::Running;
use crate::poll;
use crate::scenario::scenario;
use crate::{Bench, Failure, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(one_of_two_managers_leads_and_the_other_takes_over_when_it_stops),
        scenario!(another_manager_leads_after_the_leader_is_killed).slow(),
        scenario!(the_coordinator_chooses_the_candidate_with_the_oldest_version).slow().coordinated(),
    ]
}

fn leases() -> Gvr {
    Gvr::new("coordination.k8s.io", "v1", "leases")
}

/// A guard that counts an active worker until it is dropped. It is also dropped if the task of the worker is
/// aborted, which simulates a killed process.
struct Working(Arc<AtomicUsize>);

impl Working {
    /// Counts an active worker. Fails if another worker is already active.
    fn begin(count: Arc<AtomicUsize>) -> Result<Self, Failure> {
        let others = count.fetch_add(1, Ordering::SeqCst);
        let working = Self(count);
        if others == 0 { Ok(working) } else { Err("two workers are active at the same time".into()) }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns a manager whose runnable only the leader runs. The runnable fails if that of another manager is
/// active.
fn leader_only(bench: &Bench, working: &Arc<AtomicUsize>) -> Manager {
    let working = Arc::clone(working);
    let work = runnable("work", |stop: CancellationToken| async move {
        let _working = Working::begin(working)?;
        stop.cancelled().await;
        poll::pause().await;
        Ok(())
    });
    Manager::new(bench.client()).add(work)
}

fn election(bench: &Bench, identity: &str) -> LeaderElection {
    LeaderElection::new("operator").namespace(&*bench.namespace).identity(identity)
}

fn candidate(bench: &Bench, identity: &str, working: &Arc<AtomicUsize>) -> Manager {
    leader_only(bench, working).leader_election(election(bench, identity))
}

async fn one_of_two_managers_leads_and_the_other_takes_over_when_it_stops(
    bench: Bench,
) -> Result<(), Failure> {
    let working = Arc::default();
    let first = Running::start(candidate(&bench, "first", &working)).await?;
    first.handle.leadership().wait_for(|leadership| leadership.is_leading()).await?;
    let second = Running::start(candidate(&bench, "second", &working)).await?;
    for _ in 0..2 {
        until_renewed(&bench).await?;
        assert!(first.handle.is_leader() && !second.handle.is_leader());
    }
    first.stop().await?;
    // The stopped manager has released the lease, so the other manager need not wait until the lease expires.
    let holder = lease(&bench).await?["spec"]["holderIdentity"].clone();
    assert_ne!(holder, "first");
    second.handle.leadership().wait_for(|leadership| leadership.is_leading()).await?;
    let lease = lease(&bench).await?;
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseTransitions"]),
        (&json!("second"), &json!(1))
    );
    second.stop().await
}

async fn lease(bench: &Bench) -> Result<Value, Failure> {
    Ok(bench.api.read(&format!("{}/operator", leases().path(Some(&bench.namespace)))).await?)
}

async fn until_renewed(bench: &Bench) -> Result<(), Failure> {
    let before = lease(bench).await?["spec"]["renewTime"].clone();
    while lease(bench).await?["spec"]["renewTime"] == before {
        poll::pause().await;
    }
    Ok(())
}

/// Waits until one of the managers is the leader, then removes that manager from the list and returns it.
async fn leader(replicas: &mut Vec<Running>) -> Running {
    loop {
        match replicas.iter().position(|replica| replica.handle.is_leader()) {
            Some(leader) => return replicas.swap_remove(leader),
            None => poll::pause().await,
        }
    }
}

async fn another_manager_leads_after_the_leader_is_killed(bench: Bench) -> Result<(), Failure> {
    let (working, mut replicas) = (Arc::default(), Vec::new());
    for identity in ["a", "b", "c"] {
        replicas.push(Running::start(candidate(&bench, identity, &working)).await?);
    }
    let killed = leader(&mut replicas).await;
    until_renewed(&bench).await?;
    killed.task.abort();
    let next = leader(&mut replicas).await;
    assert_eq!(lease(&bench).await?["spec"]["leaseTransitions"], 1);
    for replica in replicas.into_iter().chain([next]) {
        replica.stop().await?;
    }
    Ok(())
}

/// Returns a manager that takes part in a coordinated election with this version, and whose runnable works
/// while the manager leads.
fn coordinated(bench: &Bench, version: &str, working: &Arc<AtomicUsize>) -> Manager {
    let identity = format!("v{}", version.replace('.', "-"));
    let election =
        election(bench, &identity).coordinated(Coordination::new("1.9.0").emulation_version(version));
    leader_only(bench, working).leader_election(election)
}

/// The coordinator is a controller of kube-apiserver, which the suite starts with its feature gate.
async fn the_coordinator_chooses_the_candidate_with_the_oldest_version(bench: Bench) -> Result<(), Failure> {
    // Without this API no candidate could be created, and the scenario would wait until its deadline.
    bench.api.read("/apis/coordination.k8s.io/v1beta1").await?;
    let working = Arc::default();
    let old = Running::start(coordinated(&bench, "1.7.0", &working)).await?;
    old.handle.leadership().wait_for(|leadership| leadership.is_leading()).await?;
    let new = Running::start(coordinated(&bench, "1.8.0", &working)).await?;
    for _ in 0..4 {
        until_renewed(&bench).await?;
        assert!(old.handle.is_leader() && !new.handle.is_leader());
    }
    let spec = lease(&bench).await?["spec"].clone();
    assert_eq!(
        (&spec["holderIdentity"], &spec["strategy"]),
        (&json!("v1-7-0"), &json!("OldestEmulationVersion"))
    );

    // The old leader stops and releases the lease, and the coordinator chooses the other candidate.
    old.stop().await?;
    new.handle.leadership().wait_for(|leadership| leadership.is_leading()).await?;
    assert_eq!(lease(&bench).await?["spec"]["holderIdentity"], "v1-8-0");

    // The coordinator prefers a candidate with an older version, and the leader gives up.
    let oldest = Running::start(coordinated(&bench, "1.6.0", &working)).await?;
    let ended = new.task.await?.expect_err("the coordinator prefers another candidate").to_string();
    oldest.handle.leadership().wait_for(|leadership| leadership.is_leading()).await?;
    assert!(ended.contains("lease"), "{ended}");
    let spec = lease(&bench).await?["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["preferredHolder"]), (&json!("v1-6-0"), &Value::Null));
    oldest.stop().await
}
