//! The webhooks of Shop, registered by the manifests and called by an API server.

mod cluster;
mod webhook_server;

use complete::api::shop::{Shop, ShopSpec};
use complete::webhooks;
use informer::runtime::CachedClient;
use informer::testing::TestServer;
use webhook_server::Webhooks;

/// Starts an API server on which the webhooks are registered, and a webhook server.
async fn start(test: &str) -> (TestServer, CachedClient) {
    let server = cluster::start(&["shops"], &[]).await;
    let webhooks = Webhooks::start(&server, &format!("shop_{test}")).await;
    webhooks.load(&server, "config/webhook/shops.yaml");
    let client = webhook_server::client(&server);
    (server, client)
}

fn shop(image: &str) -> Shop {
    let spec = ShopSpec {
        image: image.to_owned(),
        replicas: 1,
        namespace: "default".to_owned(),
    };
    Shop::new("shop", spec)
}

#[tokio::test]
async fn shop_with_an_unpinned_image_is_denied() {
    let (_server, client) = start("denied").await;
    for image in [
        "registry.example.com/shop",
        "registry.example.com/shop:latest",
    ] {
        let error = client
            .create(&shop(image))
            .await
            .expect_err("the webhook denies it");
        assert!(error.is_invalid(), "{error}");
        assert!(error.to_string().contains("spec.image"), "{error}");
    }
}

#[tokio::test]
async fn created_shop_names_its_user() {
    let (_server, client) = start("created").await;
    let created = client
        .create(&shop("registry.example.com/shop:1"))
        .await
        .expect("the webhook allows it");
    let annotations = created.metadata.annotations.clone().unwrap_or_default();
    let user = annotations.get(webhooks::shop::CREATED_BY);
    assert_eq!(user.map(String::as_str), Some("jane"));
}
