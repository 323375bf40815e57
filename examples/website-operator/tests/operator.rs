//! Tests of the operator with the embedded API server.

use informer::cache::Indexer;
use informer::k8s_openapi::api::apps::v1::Deployment;
use informer::prelude::*;
use informer::testing::TestServer;
use website_operator::{Website, WebsiteSpec, controller};

#[tokio::test(start_paused = true)]
async fn website_gets_a_deployment_that_follows_its_replicas() {
    let server = TestServer::start().await;
    server.server().load_yaml("website.crd.yaml").expect("the definition is valid");
    let manager = Manager::new(server.client()).controller(controller());
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(ctrl_c()));
    let deployments = server.informer::<Deployment>().await;

    let spec = WebsiteSpec { image: "registry.example.com/shop:1".to_owned(), replicas: 2 };
    let mut site = Website::new("shop", spec);
    site.metadata.namespace = Some("default".to_owned());
    server.create(&site).await.expect("the Website is valid");

    let replicas = |deployments: &Indexer<Lazy<Deployment>>| {
        deployments.get("default/shop").and_then(|shop| shop.get().ok()?.spec.replicas)
    };
    deployments.wait_until(|cache| replicas(cache) == Some(2)).await.expect("a Deployment");

    let mut site: Website = server.get("default/shop").await.expect("the Website exists");
    site.spec.replicas = 3;
    server.update(&site).await.expect("the Website is valid");
    deployments.wait_until(|cache| replicas(cache) == Some(3)).await.expect("three replicas");

    handle.stop();
    running.await.expect("the manager does not panic").expect("the manager stopped without an error");
}
