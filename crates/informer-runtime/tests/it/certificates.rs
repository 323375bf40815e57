//! Managed certificates of webhooks on two replicas, and their rotation while webhooks are called.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use informer_apiserver::{ApiServer, User};
use informer_core::Gvr;
use informer_runtime::webhook::{Allowed, WebhookServer};
use informer_runtime::{
    CachedClient, HttpServer, ManagedCertificates, Manager, ManagerError, ManagerHandle, ManagerStatus,
    ServerTls, TlsOptions, TlsVersion,
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::fixture::{Server, gvr};

const HOUR: Duration = Duration::from_secs(3600);

fn webhooks() -> Gvr {
    Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
}

fn register(api: &ApiServer) {
    let webhook = json!({
        "name": "maps.shop.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "shop", "path": "/validate--v1-configmap"}},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        }],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    });
    api.create(&webhooks(), "", json!({"metadata": {"name": "shop"}, "webhooks": [webhook]})).unwrap();
}

struct Replica {
    address: String,
    handle: ManagerHandle,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    async fn start(server: &Server) -> Self {
        let certificates = ManagedCertificates::new(server.api_client(), "shop-certificates", "shop")
            .validating_webhooks("shop")
            .validity(72 * HOUR, 12 * HOUR);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let webhooks = WebhookServer::on(listener, certificates)
            .max_body_bytes(50_000)
            .validate::<ConfigMap>(|_| async { Ok(Allowed::new()) });
        let manager = Manager::new(server.api_client()).add(webhooks);
        let handle = manager.handle();
        let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
        handle.status().wait_for(|status| *status == ManagerStatus::Running).await.unwrap();
        Self { address, handle, task }
    }

    async fn stop(self) {
        self.handle.stop();
        self.task.await.unwrap().unwrap();
    }
}

fn secret(server: &Server) -> Value {
    server.get("secrets", "default/shop-certificates")
}

fn replicas(secret: &Value) -> usize {
    let progress = secret["metadata"]["annotations"]["informer/certificates"].as_str().unwrap();
    let progress: Value = serde_json::from_str(progress).unwrap();
    progress["replicas"].as_object().unwrap().len()
}

/// Sends a request that the webhook at an address reviews.
async fn review(server: &Server, client: &CachedClient, address: &str) -> Result<(), String> {
    server.api.webhooks().route_service("default", "shop", address);
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"generateName": "map-", "namespace": "default"}}))
            .unwrap();
    let created = client.create(&map).await;
    created.map(drop).map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}

#[tokio::test(start_paused = true)]
async fn no_request_is_refused_while_certificates_and_authorities_rotate_on_two_replicas() {
    let server = Server::start();
    register(&server.api);
    let replicas_at = |server: &Server| replicas(&secret(server));
    let client = server.client();
    let (first, second) = (Replica::start(&server).await, Replica::start(&server).await);
    assert_eq!(replicas_at(&server), 2);
    let mut authorities = std::collections::BTreeSet::new();
    let mut certificates = std::collections::BTreeSet::new();
    for _ in 0..104 {
        for replica in [&first, &second] {
            review(&server, &client, &replica.address).await.expect("the API server trusts the certificate");
        }
        let secret = secret(&server);
        certificates.insert(secret["data"]["tls.crt"].as_str().unwrap().to_owned());
        authorities.insert(secret["data"]["ca.key"].as_str().unwrap().to_owned());
        let trusted =
            &server.api.get(&webhooks(), "", "shop").unwrap()["webhooks"][0]["clientConfig"]["caBundle"];
        assert!(trusted.is_string());
        tokio::time::sleep(HOUR).await;
    }
    assert!(authorities.len() >= 3, "{} authorities", authorities.len());
    assert!(certificates.len() >= 12, "{} certificates", certificates.len());

    second.stop().await;
    assert_eq!(replicas_at(&server), 1, "a replica that stops removes its report");
    review(&server, &client, &first.address).await.unwrap();
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn authorities_are_injected_into_crd_conversions_and_api_services() {
    let server = Server::start();
    let create = |resource: &Gvr, object: Value| server.api.create(resource, "", object).unwrap();
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let service = |name: &str| json!({"namespace": "default", "name": name, "path": "/convert"});
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    for (plural, kind, called) in [("websites", "Website", "shop"), ("shops", "Shop", "another")] {
        let webhook =
            json!({"clientConfig": {"service": service(called)}, "conversionReviewVersions": ["v1"]});
        let spec = json!({
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [version("v1", true), version("v1beta1", false)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        });
        create(&crds, json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": spec}));
    }
    let services = Gvr::new("apiregistration.k8s.io", "v1", "apiservices");
    let spec = json!({
        "group": "metrics.example.com", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": "default", "name": "shop"},
    });
    create(&services, json!({"metadata": {"name": "v1beta1.metrics.example.com"}, "spec": spec}));

    let certificates = ManagedCertificates::new(server.api_client(), "shop-certificates", "shop")
        .conversion("websites.example.com")
        .conversion("shops.example.com")
        .api_service("v1beta1.metrics.example.com")
        .validity(72 * HOUR, 12 * HOUR);
    let web = HttpServer::at("127.0.0.1:0").tls(certificates);
    let manager = Manager::new(server.api_client()).add(web);
    let handle = manager.handle();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.unwrap();

    let bundles = || {
        let conversion = |name: &str| {
            server.api.get(&crds, "", name).unwrap()["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
                .clone()
        };
        let service = server.api.get(&services, "", "v1beta1.metrics.example.com").unwrap();
        let service = service["spec"]["caBundle"].clone();
        [conversion("websites.example.com"), service, conversion("shops.example.com")]
    };
    let [conversion, service, other] = bundles();
    let authority = secret(&server)["data"]["ca.crt"].clone();
    assert!(authority.is_string());
    assert_eq!((&conversion, &service), (&authority, &authority));
    assert_eq!(other, Value::Null, "the conversion webhook of another Service is not changed");

    // The next authority is injected into both before it issues a certificate.
    tokio::time::sleep(60 * HOUR).await;
    let [renewed, service, _] = bundles();
    assert_eq!((&renewed, &service), (&secret(&server)["data"]["ca.crt"], &renewed));
    assert_ne!(renewed, conversion);
    handle.stop();
    task.await.unwrap().unwrap();
}

/// Returns the time at which the certificate of a server expires, from the metrics of its manager.
fn expiration(handle: &ManagerHandle, server: &str) -> i64 {
    let text = handle.register_metrics(|registry| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    });
    let series = format!("informer_certificate_expiration_timestamp_seconds{{server=\"{server}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn expiration_of_managed_certificate_is_a_metric_that_moves_with_each_renewal() {
    let server = Server::start();
    register(&server.api);
    let replica = Replica::start(&server).await;
    let first = expiration(&replica.handle, "webhooks");
    // A certificate that is valid for 12 h is renewed after 8 h.
    tokio::time::sleep(7 * HOUR).await;
    assert_eq!(expiration(&replica.handle, "webhooks"), first);
    tokio::time::sleep(2 * HOUR).await;
    let renewed = expiration(&replica.handle, "webhooks") - first;
    assert!((7 * 3600..=9 * 3600).contains(&renewed), "{renewed}");
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn expiration_of_self_signed_certificate_is_a_metric_that_moves_with_each_renewal() {
    let server = Server::start();
    let probes = HttpServer::at("127.0.0.1:0").tls(ServerTls::self_signed());
    let manager = Manager::new(server.api_client()).health(probes);
    let handle = manager.handle();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.unwrap();
    let first = expiration(&handle, "probes");
    // The certificate is valid for 365 days, and is renewed after 180 days.
    tokio::time::sleep(181 * 24 * HOUR).await;
    let renewed = expiration(&handle, "probes") - first;
    assert!((180 * 24 * 3600..181 * 24 * 3600).contains(&renewed), "{renewed}");
    handle.stop();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn deleted_secret_and_removed_bundle_are_restored() {
    let server = Server::start();
    register(&server.api);
    let replica = Replica::start(&server).await;
    let before = secret(&server);
    server.api.delete(&gvr("secrets"), "default", "shop-certificates").unwrap();
    let mut target = server.api.get(&webhooks(), "", "shop").unwrap();
    target["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    server.api.update(&webhooks(), "", target).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(secret(&server)["data"], before["data"]);
    review(&server, &server.client(), &replica.address).await.unwrap();
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_the_reason_why_a_server_is_not_ready() {
    let server = Server::start();
    let api = ApiServer::builder().rbac(true).build();
    let client = informer_client::Client::from_service(api.service_as(User::new("nobody")), "default");
    let certificates = ManagedCertificates::new(&client, "shop-certificates", "shop");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let manager = Manager::new(server.api_client())
        .start_timeout(Duration::from_secs(30))
        .add(HttpServer::on(listener).tls(certificates));
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(
        text.join(": ").contains("the certificate is not ready: read Secret shop-certificates"),
        "{text:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_cipher_suite_stops_the_server() {
    let server = Server::start();
    let certificates = ManagedCertificates::new(server.api_client(), "shop-certificates", "shop");
    let options =
        TlsOptions::new().min_version(TlsVersion::Tls12).cipher_suites(["TLS_RSA_WITH_RC4_128_SHA"]);
    let web = HttpServer::at("127.0.0.1:0").tls(certificates).tls_options(options);
    let manager = Manager::new(server.api_client()).start_timeout(Duration::from_secs(30)).add(web);
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(text.join(": ").contains("TLS_RSA_WITH_RC4_128_SHA"), "{text:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_name_of_a_target_stops_the_server() {
    let server = Server::start();
    let certificates = ManagedCertificates::new(server.api_client(), "shop-certificates", "shop")
        .validating_webhooks("the shop");
    let web = HttpServer::at("127.0.0.1:0").tls(certificates);
    let manager = Manager::new(server.api_client()).start_timeout(Duration::from_secs(30)).add(web);
    let error = manager.run_until(std::future::pending::<()>()).await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(text.join(": ").contains("the name \"the shop\" is invalid"), "{text:?}");
}

#[tokio::test(start_paused = true)]
async fn certificate_with_an_address_in_another_form_is_issued_once() {
    let server = Server::start();
    let certificates =
        ManagedCertificates::new(server.api_client(), "shop-certificates", "shop").name("FD00:0::1");
    let web = HttpServer::at("127.0.0.1:0").tls(certificates);
    let manager = Manager::new(server.api_client()).start_timeout(Duration::from_secs(30)).add(web);
    let handle = manager.handle();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.unwrap();
    handle.stop();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn review_above_the_limit_of_the_webhook_server_is_refused() {
    let server = Server::start();
    register(&server.api);
    let replica = Replica::start(&server).await;
    server.api.webhooks().route_service("default", "shop", &*replica.address);
    let small = json!({"data": {"text": "x".repeat(1000)}});
    let large = json!({"data": {"text": "x".repeat(100_000)}});
    let create = async |name: &str, mut map: Value| {
        map["metadata"] = json!({"name": name, "namespace": "default"});
        server.client().create::<ConfigMap>(&serde_json::from_value(map).unwrap()).await
    };
    create("small", small).await.unwrap();
    let error = create("large", large).await.unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {cause}").contains("413"), "{error}: {cause}");
    replica.stop().await;
}
