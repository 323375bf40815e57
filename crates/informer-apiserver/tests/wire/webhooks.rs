//! Webhooks, called without a socket.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use informer_apiserver::ApiServer;
use informer_core::Gvr;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_rustls::TlsAcceptor;

use super::support::{json, send};

/// A simulated webhook that returns the same response to every review.
struct Webhook {
    acceptor: TlsAcceptor,
    ca: String,
    response: Value,
}

impl Webhook {
    fn new(host: &str, response: Value) -> Self {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let ca = STANDARD.encode(made.cert.pem());
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca, response }
    }

    /// Routes webhook calls for a host and port, on which no socket listens, to this webhook.
    fn serve(&self, server: &ApiServer, authority: &str) {
        let (acceptor, response) = (self.acceptor.clone(), self.response.clone());
        server.webhooks().connect_with(authority, move || {
            let (client, own) = tokio::io::duplex(1 << 16);
            drop(tokio::spawn(talk(own, acceptor.clone(), response.clone())));
            client
        });
    }
}

async fn talk(own: DuplexStream, acceptor: TlsAcceptor, response: Value) {
    let Ok(socket) = acceptor.accept(own).await else { return };
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut response = response.clone();
        async move {
            let asked = request.into_body().collect().await.unwrap().to_bytes();
            let asked: Value = serde_json::from_slice(&asked).unwrap();
            response["uid"] = asked["request"]["uid"].clone();
            let review =
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
}

fn configure(server: &ApiServer, resource: &str, client_config: &Value, more: &Value) {
    let mut webhook = json!({
        "name": "hook.example.com", "clientConfig": client_config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps"]}],
    });
    for (name, value) in more.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    let gvr = Gvr::new("admissionregistration.k8s.io", "v1", resource);
    server.create(&gvr, "", json!({"metadata": {"name": "hooks"}, "webhooks": [webhook]})).unwrap();
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_service_webhook_is_called_at_its_routed_address() {
    let server = ApiServer::builder().build();
    let patch = STANDARD.encode(r#"[{"op": "add", "path": "/data", "value": {"by": "hook"}}]"#);
    let response = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch});
    let webhook = Webhook::new("hooks.system.svc", response);
    webhook.serve(&server, "127.0.0.1:9443");
    let service =
        json!({"service": {"namespace": "system", "name": "hooks", "path": "/m"}, "caBundle": webhook.ca});
    configure(&server, "mutatingwebhookconfigurations", &service, &json!({}));

    let (status, refused) = json(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(status, 500);
    assert!(
        message.ends_with(r#"Post "https://hooks.system.svc:443/m?timeout=10s": service "hooks" not found"#)
    );

    server.webhooks().route_service("system", "hooks", "127.0.0.1:9443");
    let (status, created) = json(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await;
    assert_eq!((status, &created["data"]), (201, &json!({"by": "hook"})));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_with_a_certificate_for_another_name_is_not_trusted() {
    let server = ApiServer::builder().build();
    let webhook = Webhook::new("elsewhere", json!({"allowed": true}));
    webhook.serve(&server, "127.0.0.1:9443");
    let url = json!({"url": "https://127.0.0.1:9443/v", "caBundle": webhook.ca});
    configure(&server, "validatingwebhookconfigurations", &url, &json!({}));

    let (status, refused) = json(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await;
    assert_eq!(status, 500);
    assert!(refused["message"].as_str().unwrap().contains("x509: certificate is not valid for 127.0.0.1"));
    let (status, _) = json(&server, "GET", &format!("{MAPS}/a"), "").await;
    assert_eq!(status, 404, "a rejected object is not stored");
}

#[tokio::test(start_paused = true)]
async fn service_webhook_can_be_a_function_in_the_process() {
    let server = ApiServer::builder().build();
    let service = json!({"service": {"namespace": "system", "name": "hooks", "path": "/v"}});
    configure(&server, "validatingwebhookconfigurations", &service, &json!({"timeoutSeconds": 3}));
    server.webhooks().handle_service("system", "hooks", |request: Request<Bytes>| async move {
        assert_eq!(request.uri().to_string(), "/v?timeout=3s");
        assert_eq!(request.headers()["host"], "hooks.system.svc:443");
        assert_eq!(request.headers()["content-type"], "application/json");
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let name = review["request"]["name"].as_str().unwrap();
        if name == "slow" {
            tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        }
        let response = json!({"uid": review["request"]["uid"], "allowed": name != "denied"});
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let body = if name == "large" { vec![b' '; 17 << 20] } else { review.to_string().into_bytes() };
        let status = if name == "failing" { 503 } else { 200 };
        Response::builder().status(status).body(Bytes::from(body)).unwrap()
    });
    let create = async |name: &str| {
        let (status, body) =
            json(&server, "POST", MAPS, &format!(r#"{{"metadata": {{"name": "{name}"}}}}"#)).await;
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(create("allowed").await, (201, String::new()));
    for (name, status, message) in [
        ("denied", 400, "admission webhook \"hook.example.com\" denied the request without explanation"),
        ("failing", 500, "the server is currently unable to handle the request"),
        ("slow", 500, "Post \"https://hooks.system.svc:443/v?timeout=3s\": context deadline exceeded"),
        ("large", 500, "length limit exceeded"),
    ] {
        let (code, text) = create(name).await;
        assert!(code == status && text.ends_with(message), "{name}: {code} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_embedding_program_bypass_webhooks() {
    let server = ApiServer::builder().build();
    let nowhere = json!({"url": "https://127.0.0.1:1/v"});
    configure(&server, "validatingwebhookconfigurations", &nowhere, &json!({}));
    let maps = Gvr::new("", "v1", "configmaps");
    server.create(&maps, "default", json!({"metadata": {"name": "a"}})).unwrap();
    server.delete(&maps, "default", "a").unwrap();
}

#[tokio::test(start_paused = true)]
async fn webhook_configurations_are_reloaded_after_a_restore() {
    let server = ApiServer::builder().build();
    let (before, nobody) = (server.version(), json!({"service": {"namespace": "system", "name": "nobody"}}));
    configure(&server, "validatingwebhookconfigurations", &nobody, &json!({}));
    assert_eq!(json(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await.0, 500);

    server.rewind(before).unwrap();
    // After the restore this configuration has the same resourceVersion as the earlier one, but other rules.
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["secrets"]}]);
    configure(&server, "validatingwebhookconfigurations", &nobody, &json!({"rules": rules}));
    assert_eq!(json(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn connections_are_reviewed_with_their_options_before_the_pod_is_read() {
    let server = ApiServer::builder().build();
    let service = json!({"service": {"namespace": "system", "name": "hooks", "path": "/v"}});
    let resources = json!(["pods/exec", "pods/portforward", "services/proxy"]);
    let rules = json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources}]);
    configure(&server, "validatingwebhookconfigurations", &service, &json!({"rules": rules}));
    let (reviewed, mut reviews) = tokio::sync::mpsc::unbounded_channel();
    server.webhooks().handle_service("system", "hooks", move |request: Request<Bytes>| {
        let reviewed = reviewed.clone();
        async move {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let mut request = review["request"].clone();
            let is_allowed = request["object"]["container"] == "allowed";
            let response = json!({
                "uid": request["uid"].take(), "allowed": is_allowed, "warnings": ["reviewed"],
                "status": {"code": 403, "message": "no connections"},
            });
            reviewed.send(request).unwrap();
            let review =
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
            Response::new(Bytes::from(review.to_string()))
        }
    });
    let denied = "admission webhook \"hook.example.com\" denied the request: no connections";
    let proxied = |method, path, proxied: &str| {
        let options = json!({"kind": "ServiceProxyOptions", "apiVersion": "v1", "path": proxied});
        (method, path, ("proxy", "ServiceProxyOptions"), options)
    };
    let cases = [
        (
            "POST",
            "pods/p/exec?command=sh&command=-c&stdin=true&tty=false&stdout",
            ("exec", "PodExecOptions"),
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "command": ["sh", "-c"]}),
        ),
        (
            "GET",
            "pods/p/exec",
            ("exec", "PodExecOptions"),
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": null}),
        ),
        (
            "GET",
            "pods/p/portforward?ports=80,8080",
            ("portforward", "PodPortForwardOptions"),
            json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 8080]}),
        ),
        proxied("DELETE", "services/p/proxy/", "/"),
        proxied("POST", "services/p/proxy/a/b", "/a/b"),
        proxied("GET", "services/p/proxy//a//b/", "/a//b/"),
        proxied("GET", "services/p/proxy///a//", "//a/"),
    ];
    for (method, path, (subresource, kind), options) in cases {
        let (status, refused) =
            json(&server, method, &format!("/api/v1/namespaces/default/{path}"), "").await;
        assert_eq!((status, &refused["message"]), (403, &denied.into()), "{path}");
        let review = reviews.recv().await.unwrap();
        assert_eq!((&review["operation"], &review["options"]), (&json!("CONNECT"), &Value::Null));
        assert_eq!((&review["subResource"], &review["name"]), (&json!(subresource), &json!("p")));
        assert_eq!(review["kind"], json!({"group": "", "version": "v1", "kind": kind}));
        assert_eq!(review["object"], options, "{path}");
    }
    assert_allowed_exec_needs_a_pod_on_a_node(&server).await;
}

async fn assert_allowed_exec_needs_a_pod_on_a_node(server: &ApiServer) {
    let exec = "/api/v1/namespaces/default/pods/p/exec?container=allowed";
    assert_eq!(json(server, "POST", exec, "").await.0, 404, "the pod does not exist");
    let containers = json!([{"name": "allowed", "image": "i"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}});
    server.create(&Gvr::new("", "v1", "pods"), "default", pod).unwrap();
    assert_eq!(json(server, "POST", exec, "").await.0, 404, "the node does not exist");
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
    let node = json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}});
    server.create(&Gvr::new("", "v1", "nodes"), "", node).unwrap();
    let response = send(server, "POST", exec, "").await;
    assert_eq!(response.status(), 501, "no kubelet runs");
    assert_eq!(response.headers()["warning"], "299 - \"reviewed\"");
}

#[tokio::test(start_paused = true)]
async fn invalid_options_of_a_connection_are_rejected_with_400() {
    let server = ApiServer::builder().build();
    for (query, message) in [
        ("exec?dryRun=All", "dryRun is not supported"),
        (
            "portforward?ports=80,x",
            "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ] {
        let path = format!("/api/v1/namespaces/default/pods/p/{query}");
        let (status, refused) = json(&server, "GET", &path, "").await;
        assert_eq!((status, refused["message"].as_str()), (400, Some(message)), "{query}");
    }
}
