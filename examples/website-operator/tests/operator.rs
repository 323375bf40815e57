//! Tests of the operator with the embedded API server.

use informer::k8s_openapi::api::apps::v1::Deployment;
use informer::testing::{TestServer, has_field};
use website_operator::{Website, WebsiteSpec, controller};

#[tokio::test(start_paused = true)]
async fn website_gets_a_deployment_that_follows_its_replicas() {
    let server = TestServer::start().await;
    server.load_yaml("website.crd.yaml").expect("the definition is valid");
    let manager = server.run(controller());

    let spec = WebsiteSpec { image: "registry.example.com/shop:1".to_owned(), replicas: 2 };
    let mut site = Website::new("shop", spec);
    site.metadata.namespace = Some("default".to_owned());
    server.create(&site).await.expect("the Website is valid");
    server.eventually("default/shop", has_field::<Deployment>("spec.replicas", 2)).await;

    let mut site: Website = server.get("default/shop").await.expect("the Website exists");
    site.spec.replicas = 3;
    server.update(&site).await.expect("the Website is valid");
    server.eventually("default/shop", has_field::<Deployment>("spec.replicas", 3)).await;

    manager.stop().await.expect("the manager stopped without an error");
}
