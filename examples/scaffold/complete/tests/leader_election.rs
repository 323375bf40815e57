//! The controllers run only while the operator holds its Lease.

mod cluster;

use complete::controllers;
use informer::k8s_openapi::api::coordination::v1::Lease;
use informer::prelude::*;
use informer::runtime::LeaderElection;
use informer::testing::{FaultMatch, Verb};

const NAMESPACE: &str = "complete-system";

#[tokio::test(start_paused = true)]
async fn operator_acquires_its_lease_before_its_controllers_run() {
    let server = cluster::start(&["shops"], &["shop_role", "leader_election_role"]).await;
    let election = LeaderElection::new("complete").namespace(NAMESPACE);
    let manager = Manager::new(cluster::client(&server)).leader_election(election);
    let manager = controllers::add_to(manager);
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));

    let key = format!("{NAMESPACE}/complete");
    let held = |lease: &Lease| {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_ref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    server.eventually(&key, held).await;

    handle.stop();
    running
        .await
        .expect("the manager does not panic")
        .expect("the manager stops without an error");
    let released = |lease: &Lease| !held(lease);
    server.eventually(&key, released).await;
    assert_eq!(
        server.requests(FaultMatch::verb(Verb::Delete)).count(),
        0,
        "the Lease is released, not deleted"
    );
}
