//! Tests of `informer doctor` with servers that run in the test process.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use hyper_util::rt::TokioIo;
use informer::Gvr;
use informer_apiserver::{
    ApiServer, ApiServerBuilder, Certificate, CertificateAuthority, FaultAction, FaultMatch, Listening,
    ReservedPort, Tls,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::command::{Ended, run, start_with};

/// A server that `informer doctor` checks, and a folder for kubeconfigs and manifests.
struct Cluster {
    server: ApiServer,
    listening: Listening,
    folder: TempDir,
}

impl Cluster {
    async fn new(configure: impl FnOnce(ApiServerBuilder) -> ApiServerBuilder) -> Self {
        let server = configure(ApiServer::builder()).build();
        let listening = server.listen("127.0.0.1:0").await.unwrap();
        Self { server, listening, folder: TempDir::new().unwrap() }
    }

    /// Runs `informer doctor` with these arguments and the kubeconfig of the server.
    async fn doctor(&self, args: &[&str]) -> Ended {
        self.doctor_with(&self.listening.kubeconfig(), args).await
    }

    async fn doctor_with(&self, kubeconfig: &str, args: &[&str]) -> Ended {
        let path = self.write("kubeconfig", kubeconfig);
        start_with(["doctor"].into_iter().chain(args.iter().copied()), Some(&path)).ended().await
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn respond(&self, path: &str, body: &Value) {
        let body = Some(body.to_string());
        let action = FaultAction::Status { code: 200, reason: None, message: None, retry_after: None, body };
        let _fault = self.server.faults().on(FaultMatch::path(path)).then(action);
    }
}

#[track_caller]
fn check(ended: &Ended, code: i32, lines: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.out, ended.err);
    for line in lines {
        assert!(ended.out.contains(line), "no {line:?} in:\n{}{}", ended.out, ended.err);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn healthy_cluster_has_no_problem() {
    let cluster = Cluster::new(|builder| builder).await;
    let ended = cluster.doctor(&[]).await;
    let lines = [
        "ok      kubeconfig: server http://127.0.0.1:",
        "ok      server: Kubernetes v1.36.3+embedded; the types are those of 1.37\n",
        "ok      tls: not used, on a loopback address",
        "ok      credentials: the server knows this user as",
        "ok      permissions: all 5 are granted",
        "ok      crds: all 0 are established",
        "ok      webhooks: all 0 have endpoints",
        "ok      streaming-lists: supported",
        "ok      clock: ",
        "ok      fairness: no request was rejected",
        "10 ok, 0 warnings, 0 problems",
    ];
    check(&ended, 0, &lines);
    let ended = cluster.doctor(&["-o", "json"]).await;
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((result["ok"].as_u64(), result["problems"].as_u64()), (Some(10), Some(0)), "{result}");
    let server = &result["checks"][2];
    assert_eq!((&server["check"], &server["level"]), (&json!("server"), &json!("ok")));
    assert_eq!(server["remedy"], Value::Null);
}

#[tokio::test]
async fn missing_kubeconfig_and_unreachable_server_are_problems() {
    check(&run(["doctor"]).await, 1, &["problem kubeconfig: ", "KUBECONFIG", "--server"]);
    let port = ReservedPort::new().unwrap();
    let url = format!("http://{}", port.address());
    check(&run(["doctor", "--server", &url]).await, 1, &["problem server: ", "refused", "check the URL"]);
    let ended = run(["doctor", "--server", &url, "--role", "absent.yaml"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("absent.yaml"), "{}", ended.err);
}

#[tokio::test]
async fn version_skew_is_a_warning() {
    let cluster = Cluster::new(|builder| builder).await;
    cluster.respond("/version", &json!({"major": "1", "minor": "99", "gitVersion": "v1.99.0"}));
    let newer = ["warning server: Kubernetes v1.99.0; the types are those of 1.37; update the library"];
    check(&cluster.doctor(&[]).await, 0, &newer);
    cluster.server.faults().clear();
    cluster.respond("/version", &json!({"major": "1", "minor": "28+", "gitVersion": "v1.28.1"}));
    check(&cluster.doctor(&[]).await, 0, &["warning server: Kubernetes v1.28.1", "it drops the others"]);
}

/// Returns the PEM of a self-signed certificate that expired in 2001, and the PEM of its private key.
fn expired() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["old".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn rejected_and_expired_credentials_are_problems() {
    let tokens = |builder: ApiServerBuilder| builder.tokens("good,alice,alice\n".parse().unwrap());
    let cluster = Cluster::new(tokens).await;
    let ended = cluster.doctor_with(&cluster.listening.kubeconfig_with("bad"), &[]).await;
    check(&ended, 1, &["problem credentials: ", "401", "renew the token"]);
    let claims = URL_SAFE_NO_PAD.encode(r#"{"exp":1000000000}"#);
    let token = format!("e30.{claims}.c2ln");
    let ended = cluster.doctor_with(&cluster.listening.kubeconfig_with(&token), &[]).await;
    check(
        &ended,
        1,
        &["problem credentials: the token expired at 2001-09-09T01:46:40Z", "create a new token"],
    );
    let ended = cluster.doctor_with(&cluster.listening.kubeconfig_with("good"), &[]).await;
    check(&ended, 0, &["knows this user as \"alice\""]);

    let authority = CertificateAuthority::new("users").unwrap();
    let server = ApiServer::builder().client_ca(authority.certificate().parse().unwrap()).build();
    let listening = server.listen_tls("127.0.0.1:0", Tls::self_signed().unwrap()).await.unwrap();
    let (chain, key) = expired();
    let kubeconfig = listening.kubeconfig_of(&Certificate::from_pem(chain, key));
    let ended = cluster.doctor_with(&kubeconfig, &[]).await;
    let expired = "problem credentials: the client certificate expired at 2001-01-01T00:00:00Z";
    check(&ended, 1, &["ok      tls: the CA certificate of the kubeconfig expires at 2100", expired]);
}

#[tokio::test]
async fn denied_impersonation_is_a_problem() {
    let configure =
        |builder: ApiServerBuilder| builder.tokens("good,alice,alice\n".parse().unwrap()).rbac(true);
    let cluster = Cluster::new(configure).await;
    let kubeconfig = cluster.listening.kubeconfig_with("good");
    let ended = cluster.doctor_with(&kubeconfig, &["--as", "bob"]).await;
    check(&ended, 1, &["problem credentials: ", "403", "leave out --as"]);
}

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get, delete]}
---
apiVersion: v1
kind: Service
metadata: {name: other}
";

#[tokio::test]
async fn missing_permissions_are_problems() {
    let configure =
        |builder: ApiServerBuilder| builder.tokens("good,alice,alice\n".parse().unwrap()).rbac(true);
    let cluster = Cluster::new(configure).await;
    let role = cluster.write("role.yaml", ROLE);
    let crd = cluster.write("crd.json", &crd("shops", &["v1"]).to_string());
    let rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    ]);
    let rbac = |plural| Gvr::new("rbac.authorization.k8s.io", "v1", plural);
    let granted = json!({"metadata": {"name": "some"}, "rules": rules});
    cluster.server.create(&rbac("clusterroles"), "", granted).unwrap();
    let binding = json!({
        "metadata": {"name": "some"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    cluster.server.create(&rbac("clusterrolebindings"), "", binding).unwrap();
    let kubeconfig = cluster.listening.kubeconfig_with("good");
    let ended = cluster.doctor_with(&kubeconfig, &["--role", text(&role), "--crd", text(&crd)]).await;
    let lines = [
        "problem permissions: denied: delete deployments.apps",
        "problem permissions: denied: watch shops.example.com",
        "problem permissions: denied: patch shops/status.example.com",
        "grant it with a Role or ClusterRole",
        "warning crds: shops.example.com cannot be checked",
        "warning streaming-lists: cannot be checked",
    ];
    check(&ended, 1, &lines);
    for granted in ["denied: get deployments", "leases", "events"] {
        assert!(!ended.out.contains(granted), "{granted}: {}", ended.out);
    }
    check(&cluster.doctor_with(&kubeconfig, &[]).await, 0, &["ok      permissions: all 5 are granted"]);
}

/// Creates a Role or ClusterRole with these rules, and binds it to the user alice.
fn grant(cluster: &Cluster, namespace: &str, rules: &Value) {
    let (role, binding, kind) = match namespace {
        "" => ("clusterroles", "clusterrolebindings", "ClusterRole"),
        _ => ("roles", "rolebindings", "Role"),
    };
    let create = |plural, object| {
        let gvr = Gvr::new("rbac.authorization.k8s.io", "v1", plural);
        cluster.server.create(&gvr, namespace, object).unwrap();
    };
    create(role, json!({"metadata": {"name": "some"}, "rules": rules}));
    let group = "rbac.authorization.k8s.io";
    create(
        binding,
        json!({
            "metadata": {"name": "some"},
            "roleRef": {"apiGroup": group, "kind": kind, "name": "some"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
        }),
    );
}

#[tokio::test]
async fn permissions_in_the_namespace_of_the_controller_are_a_warning() {
    let configure =
        |builder: ApiServerBuilder| builder.tokens("good,alice,alice\n".parse().unwrap()).rbac(true);
    let cluster = Cluster::new(configure).await;
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    cluster.server.create(&crds, "", crd("shops", &["v1"])).unwrap();
    let file = cluster.write("crd.json", &crd("shops", &["v1"]).to_string());
    grant(
        &cluster,
        "default",
        &json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
            {"apiGroups": ["example.com"], "resources": ["shops"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["example.com"], "resources": ["shops/status"], "verbs": ["patch"]},
        ]),
    );
    let kubeconfig = cluster.listening.kubeconfig_with("good");
    let ended = cluster.doctor_with(&kubeconfig, &["--crd", text(&file), "-n", "default"]).await;
    let lines = [
        "warning permissions: watch shops.example.com is granted in namespace default only; restrict",
        "warning permissions: patch shops/status.example.com is granted in namespace default only",
        "ok      streaming-lists: supported",
    ];
    check(&ended, 0, &lines);
    let denied = ["problem permissions: denied: watch shops.example.com"];
    check(&cluster.doctor_with(&kubeconfig, &["--crd", text(&file)]).await, 1, &denied);
    check(&cluster.doctor_with(&kubeconfig, &["--crd", text(&file), "-n", "other"]).await, 1, &denied);
    // Cluster-scoped objects are in no namespace.
    let mut clustered = crd("shops", &["v1"]);
    clustered["spec"]["scope"] = json!("Cluster");
    let file = cluster.write("crd.json", &clustered.to_string());
    check(&cluster.doctor_with(&kubeconfig, &["--crd", text(&file), "-n", "default"]).await, 1, &denied);
}

#[tokio::test]
async fn leader_election_needs_the_permission_to_watch_leases() {
    let configure =
        |builder: ApiServerBuilder| builder.tokens("good,alice,alice\n".parse().unwrap()).rbac(true);
    let cluster = Cluster::new(configure).await;
    grant(
        &cluster,
        "",
        &json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ]),
    );
    let kubeconfig = cluster.listening.kubeconfig_with("good");
    check(&cluster.doctor_with(&kubeconfig, &[]).await, 0, &["ok      permissions: all 5 are granted"]);
    let denied = ["problem permissions: denied: watch leases.coordination.k8s.io in namespace default"];
    check(&cluster.doctor_with(&kubeconfig, &["--leader-election"]).await, 1, &denied);
}

#[tokio::test]
async fn crd_without_a_name_is_an_error_with_the_expected_name() {
    let cluster = Cluster::new(|builder| builder).await;
    for (path, message) in [
        ("/metadata/name", "CustomResourceDefinition has no metadata.name; set it to shops.example.com"),
        ("/spec/group", "CustomResourceDefinition shops.example.com has no spec.group; set it"),
        ("/spec/names/plural", "CustomResourceDefinition shops.example.com has no spec.names.plural"),
    ] {
        let mut broken = crd("shops", &["v1"]);
        *broken.pointer_mut(path).unwrap() = Value::Null;
        let file = cluster.write("crd.json", &broken.to_string());
        let ended = cluster.doctor(&["--crd", text(&file)]).await;
        assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
        assert!(ended.err.contains(message) && ended.err.contains("crd.json"), "{}", ended.err);
        assert_eq!(ended.out, "", "an error about the arguments comes before the checks");
    }
}

fn crd(plural: &str, versions: &[&str]) -> Value {
    let version = |(index, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    };
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": "Shop"},
            "versions": versions,
        },
    })
}

#[tokio::test]
async fn crds_that_are_not_served_are_problems() {
    let cluster = Cluster::new(|builder| builder).await;
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let file = cluster.write("crd.json", &crd("shops", &["v1"]).to_string());
    let args = ["--crd", text(&file)];
    let ended = cluster.doctor(&args).await;
    let lines = [
        "problem crds: shops.example.com does not exist; install it",
        "warning streaming-lists: cannot be checked: /apis/example.com/v1/shops does not exist; apply the CRD",
    ];
    check(&ended, 1, &lines);
    cluster.server.create(&crds, "", crd("shops", &["v1"])).unwrap();
    check(&cluster.doctor(&args).await, 0, &["ok      crds: shops.example.com is established and serves v1"]);
    cluster.write("crd.json", &crd("shops", &["v1", "v2"]).to_string());
    let ended = cluster.doctor(&args).await;
    check(&ended, 1, &["problem crds: shops.example.com does not serve v2; apply the newer CRD"]);
    // The second CRD, `stores`, has the same kind as the first one. The server therefore does not accept its
    // names.
    cluster.server.create(&crds, "", crd("stores", &["v1"])).unwrap();
    check(&cluster.doctor(&[]).await, 1, &["problem crds: stores.example.com is not NamesAccepted: "]);
}

/// Returns a webhook configuration with one webhook, which calls a Service.
fn webhook(name: &str, service: &str, bundle: &str, policy: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "shops.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": policy,
            "clientConfig": {"caBundle": bundle, "service": {"namespace": "shop", "name": service}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["shops"], "operations": ["CREATE"]}],
        }],
    })
}

#[tokio::test]
async fn webhooks_that_cannot_be_called_are_problems() {
    let cluster = Cluster::new(|builder| builder.require_namespaces(false)).await;
    let authority = CertificateAuthority::new("webhooks").unwrap();
    let (good, old) = (STANDARD.encode(authority.certificate()), STANDARD.encode(expired().0));
    let service =
        |name: &str, port: u32| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": port}]}});
    let services = Gvr::new("", "v1", "services");
    for (name, port) in [("ready", 443), ("idle", 443), ("other-port", 80)] {
        cluster.server.create(&services, "shop", service(name, port)).unwrap();
    }
    let slice = |service: &str, ready: bool| {
        json!({
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": ready}}],
            "ports": [{"name": "https", "port": 9443, "protocol": "TCP"}],
        })
    };
    let slices = Gvr::new("discovery.k8s.io", "v1", "endpointslices");
    for (name, ready) in [("ready", true), ("idle", false)] {
        cluster.server.create(&slices, "shop", slice(name, ready)).unwrap();
    }
    let validating = Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    let create = |configuration| cluster.server.raw().create(&validating, "", configuration).unwrap();
    create(webhook("good", "ready", &good, "Fail"));
    check(&cluster.doctor(&[]).await, 0, &["ok      webhooks: all 1 have endpoints and valid CA bundles"]);
    create(webhook("no-service", "absent", &good, "Fail"));
    create(webhook("ignored", "absent", &good, "Ignore"));
    create(webhook("no-endpoints", "idle", &good, "Fail"));
    create(webhook("no-port", "other-port", &good, "Fail"));
    create(webhook("garbage", "ready", &STANDARD.encode("garbage"), "Fail"));
    create(webhook("expired", "ready", &old, "Fail"));
    create(webhook("empty", "ready", "", "Fail"));
    let ended = cluster.doctor(&[]).await;
    let line = |level: &str, name: &str, problem: &str| {
        format!(
            "{level:7} webhooks: ValidatingWebhookConfiguration {name}, webhook shops.example.com: {problem}"
        )
    };
    let lines = [
        line("problem", "no-service", "service shop/absent does not exist; "),
        line("warning", "ignored", "service shop/absent does not exist; "),
        line("problem", "no-endpoints", "service shop/idle has no ready endpoints; "),
        line("problem", "no-port", "service shop/other-port has no port 443; "),
        line("problem", "garbage", "the CA bundle cannot be read: "),
        line("problem", "expired", "the CA bundle expired at 2001-01-01T00:00:00Z; "),
        line("problem", "empty", "the CA bundle is empty; "),
    ];
    check(&ended, 1, &lines.each_ref().map(String::as_str));
    assert!(!ended.out.contains("Configuration good"), "{}", ended.out);
}

#[tokio::test]
async fn webhook_whose_service_may_not_be_read_is_a_warning() {
    let cluster = Cluster::new(|builder| builder).await;
    let bundle = STANDARD.encode(CertificateAuthority::new("webhooks").unwrap().certificate());
    let validating = Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    cluster.server.raw().create(&validating, "", webhook("denied", "hidden", &bundle, "Fail")).unwrap();
    let service = FaultMatch::path("/api/v1/namespaces/shop/services/hidden");
    let _fault = cluster.server.faults().on(service).status(403);
    let lines = [
        "warning webhooks: ValidatingWebhookConfiguration denied",
        "cannot be checked: ",
        "grant get on services",
    ];
    check(&cluster.doctor(&[]).await, 0, &lines);
}

#[tokio::test]
async fn webhook_of_a_conversion_is_checked() {
    let cluster = Cluster::new(|builder| builder).await;
    let mut crd = crd("shops", &["v1"]);
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "shop", "name": "absent"}},
    }});
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    cluster.server.create(&crds, "", crd).unwrap();
    let line = "problem webhooks: conversion of shops.example.com: service shop/absent does not exist; ";
    check(&cluster.doctor(&[]).await, 1, &[line]);
}

#[tokio::test]
async fn missing_streaming_lists_are_a_warning() {
    let cluster = Cluster::new(|builder| builder).await;
    for (action, message) in [
        (FaultAction::RejectInitialEvents, "not supported: 422"),
        (FaultAction::IgnoreInitialEvents, "the server ignores the request"),
    ] {
        let _fault = cluster.server.faults().on(FaultMatch::watch("leases")).then(action);
        let warning = format!("warning streaming-lists: {message}");
        check(&cluster.doctor(&[]).await, 0, &[&warning, "informers use ordinary lists"]);
        cluster.server.faults().clear();
    }
}

#[tokio::test]
async fn rejected_requests_are_a_warning() {
    let cluster = Cluster::new(|builder| builder).await;
    let crds = "customresourcedefinitions";
    let _fault = cluster.server.faults().on(FaultMatch::list(crds)).nth(1).status(429);
    let lines = ["warning crds: cannot be checked: ", "warning fairness: 1 requests were rejected with 429"];
    check(&cluster.doctor(&[]).await, 0, &lines);
}

/// Serves the API of a server on another port, where each response has these additional or replaced headers.
/// Returns the URL.
async fn with_headers(server: &ApiServer, headers: &[(&'static str, &str)]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (server, headers) =
        (server.clone(), headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let headers: Vec<(&'static str, String)> = headers.collect();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, headers) = (server.clone(), headers.clone());
            let service = hyper::service::service_fn(move |request| {
                let (service, headers) = (server.service(), headers.clone());
                async move {
                    let mut response = service.oneshot(request).await.unwrap();
                    for (name, value) in headers {
                        response.headers_mut().insert(name, HeaderValue::try_from(value).unwrap());
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

#[tokio::test]
async fn clock_skew_is_reported_with_its_direction() {
    let server = ApiServer::builder().build();
    let url = with_headers(&server, &[("date", "Sat, 01 Jan 2000 00:00:00 GMT")]).await;
    let ended = run(["doctor", "--server", &url]).await;
    check(&ended, 1, &["problem clock: the clock of the server is at least ", " s behind; synchronize"]);
    let url = with_headers(&server, &[("date", "Sat, 01 Jan 2180 00:00:00 GMT")]).await;
    check(&run(["doctor", "--server", &url]).await, 1, &["problem clock: ", " s ahead; synchronize"]);
}

#[tokio::test]
async fn flow_schema_is_named() {
    let server = ApiServer::builder().build();
    let flows = |plural| Gvr::new("flowcontrol.apiserver.k8s.io", "v1", plural);
    let schema = json!({"metadata": {"name": "catch-all"}, "spec": {}});
    let schema = server.raw().create(&flows("flowschemas"), "", schema).unwrap();
    let uid = schema["metadata"]["uid"].as_str().unwrap();
    let headers = [("x-kubernetes-pf-flowschema-uid", uid), ("x-kubernetes-pf-prioritylevel-uid", "uid-b")];
    let url = with_headers(&server, &headers).await;
    let line = "warning fairness: flow schema catch-all, priority level uid-b; add a FlowSchema";
    check(&run(["doctor", "--server", &url]).await, 0, &[line]);
}
