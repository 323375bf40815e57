//! The Shop controller on an API server in this process, with the permissions of its
//! role. Time is paused: delays, retries and resyncs take no real time.

mod cluster;

use std::time::Duration;

use complete::api::shop::{Shop, ShopSpec};
use complete::controllers;
use informer::k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use informer::prelude::*;
use informer::testing::{FaultMatch, TestServer, Verb, absent, has_field};

const KEY: &str = "shop";
const DEPLOYMENT: &str = "default/shop-shop";
const ROLE: &str = "shop_role";

/// Starts a server, and the controller with the permissions of its role.
async fn start() -> TestServer {
    let server = cluster::start(&["shops"], &[ROLE]).await;
    let controller = controllers::shop::controller();
    let manager = Manager::new(cluster::client(&server)).controller(controller);
    tokio::spawn(manager.run_until(std::future::pending::<()>()));
    server
}

fn shop(replicas: i32) -> Shop {
    let spec = ShopSpec {
        image: "registry.example.com/shop:1".to_owned(),
        replicas,
        namespace: "default".to_owned(),
    };
    Shop::new("shop", spec)
}

async fn wait_for_replicas(server: &TestServer, replicas: i32) -> Deployment {
    let wanted = |deployment: &Deployment| deployment.spec.replicas == Some(replicas);
    server.eventually(DEPLOYMENT, wanted).await
}

/// Reports replicas in the status of the Deployment, as the controllers of a cluster do.
async fn become_available(server: &TestServer, mut deployment: Deployment, replicas: i32) {
    deployment.status = Some(DeploymentStatus {
        replicas: Some(replicas),
        ready_replicas: Some(replicas),
        available_replicas: Some(replicas),
        ..DeploymentStatus::default()
    });
    server.update(&deployment).await.expect("a valid status");
}

async fn wait_for_status(server: &TestServer, replicas: i32) {
    let wanted = has_field::<Shop>("status.availableReplicas", replicas);
    server.eventually(KEY, wanted).await;
}

#[tokio::test(start_paused = true)]
async fn deployment_follows_the_shop() {
    let server = start().await;
    server.create(&shop(2)).await.expect("a valid Shop");
    wait_for_replicas(&server, 2).await;

    let mut object: Shop = server.get(KEY).await.expect("the Shop exists");
    object.spec.replicas = 3;
    server.update(&object).await.expect("a valid Shop");
    wait_for_replicas(&server, 3).await;
}

#[tokio::test(start_paused = true)]
async fn status_shows_the_available_replicas() {
    let server = start().await;
    server.create(&shop(2)).await.expect("a valid Shop");
    wait_for_status(&server, 0).await;

    let deployment = wait_for_replicas(&server, 2).await;
    become_available(&server, deployment, 2).await;
    wait_for_status(&server, 2).await;
}

#[tokio::test(start_paused = true)]
async fn deployment_is_deleted_with_the_shop() {
    let server = start().await;
    server.create(&shop(2)).await.expect("a valid Shop");
    wait_for_status(&server, 0).await;

    server.delete::<Shop>(KEY).await.expect("it exists");
    server.eventually(DEPLOYMENT, absent::<Deployment>()).await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let server = start().await;
    let patches = FaultMatch::verb(Verb::Patch);
    let fault = server.faults().on(patches).times(3).status(500);
    server.create(&shop(2)).await.expect("a valid Shop");
    wait_for_status(&server, 0).await;
    assert_eq!(fault.fired(), 3);
}

#[tokio::test(start_paused = true)]
async fn role_grants_exactly_the_permissions_that_the_controller_uses() {
    let server = start().await;
    server.create(&shop(2)).await.expect("a valid Shop");
    let deployment = wait_for_replicas(&server, 2).await;
    become_available(&server, deployment, 2).await;
    wait_for_status(&server, 2).await;
    // Events are sent in the background. Paused time passes when no task has anything to do.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let used = server
        .permissions_used()
        .expect("the request log is complete");
    let compared = used.compare_manifest(cluster::role_manifest(ROLE));
    let compared = compared.expect("the manifest contains a role");
    assert!(compared.is_exact(), "\n{compared}");
}
