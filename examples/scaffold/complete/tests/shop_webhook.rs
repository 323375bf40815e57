//! The webhooks of Shop, registered by the manifests and called by an API server. The API
//! server connects to the webhook server through a socket, so time is not paused.

mod cluster;

use std::path::PathBuf;

use complete::api::shop::{Shop, ShopSpec};
use complete::webhooks;
use informer::k8s_openapi::ByteString;
use informer::prelude::*;
use informer::runtime::{Cache, CachedClient, ManagerStatus, Tls};
use informer::testing::{CertificateAuthority, TestServer, User};
use informer::webhook::WebhookServer;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;

const NAMESPACE: &str = "complete-system";
const SERVICE: &str = "complete-webhook";

/// Starts an API server on which the webhooks are registered, and a webhook server. Tests run
/// at the same time, so each has a folder of its own.
async fn start(test: &str) -> (TestServer, CachedClient) {
    let server = cluster::start("shops", &[]).await;
    let name = format!("{}_shop_{test}", env!("CARGO_PKG_NAME"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the folder can be created");
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let authority = CertificateAuthority::new("test").expect("a key");
    let issued = authority.issue_for([format!("{SERVICE}.{NAMESPACE}.svc").as_str()]);
    let issued = issued.expect("a valid host name");
    std::fs::write(&certificate, issued.chain()).expect("the certificate can be written");
    std::fs::write(&key, issued.key()).expect("the key can be written");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener is bound");
    let webhooks = webhooks::register(WebhookServer::on(
        listener,
        Tls::pem_files(certificate, key),
    ));
    let manager = Manager::new(cluster::client(&server)).add(webhooks);
    let mut status = manager.handle().status();
    tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let running = status.wait_for(|status| *status == ManagerStatus::Running);
    running.await.expect("the manager runs");

    let routes = server.server().webhooks();
    routes.route_service(NAMESPACE, SERVICE, address.to_string());
    load_configurations(&server, &folder, authority.certificate());
    let user = server.client_as(User::new("jane").groups(["system:masters"]));
    let client = CachedClient::new(&Cache::new(user));
    (server, client)
}

/// Loads the webhook configurations of the manifests with the CA of this test, as
/// cert-manager adds its CA.
fn load_configurations(server: &TestServer, folder: &std::path::Path, authority: &str) {
    let text = std::fs::read_to_string("config/webhook/shop.yaml").expect("the manifest exists");
    let authority =
        serde_json::to_value(ByteString(authority.as_bytes().to_vec())).expect("a string");
    for (index, document) in serde_norway::Deserializer::from_str(&text).enumerate() {
        let mut configuration = Value::deserialize(document).expect("the manifest is YAML");
        for webhook in configuration["webhooks"]
            .as_array_mut()
            .expect("a list of webhooks")
        {
            webhook["clientConfig"]["caBundle"] = authority.clone();
        }
        let path = folder.join(format!("{index}.yaml"));
        std::fs::write(&path, configuration.to_string()).expect("the file can be written");
        server
            .server()
            .load_yaml(path)
            .expect("the manifest is valid");
    }
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
