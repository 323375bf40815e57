//! Tests of `informer serve` with other programs as its clients.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::command::{DEADLINE, Running, start, start_with};

const MANIFESTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1'}
---
apiVersion: example.com/v1
kind: Website
metadata: {name: shop, namespace: web}
spec: {host: shop.example.com}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: web-0}, spec: {containers: [{name: main, image: web}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-1}, spec: {containers: [{name: main, image: web}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-2}, spec: {containers: [{name: main, image: web}]}}
";

/// The CRD of `Website`. The server loads the files of a directory in the order of their names, so it reads
/// this CRD after the manifest that uses the kind.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: websites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: websites, kind: Website, shortNames: [site]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const FAULTS: &str = "
faults:
- match: {verb: watch, resource: pods, client: curl}
  when: {nth: 1}
  action: {cut: {afterEvents: 2}}
- match: {verb: watch, resource: pods, client: curl}
  when: {nth: 2}
  action: {expire: {}}
";

async fn serve(directory: &Path) -> (Running, Value) {
    let manifests = directory.join("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("a.yaml"), MANIFESTS).unwrap();
    fs::write(manifests.join("z.yaml"), DEFINITION).unwrap();
    fs::write(directory.join("faults.yaml"), FAULTS).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (load, faults, kubeconfig) = (path("manifests"), path("faults.yaml"), path("kubeconfig"));
    let mut serve = start([
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--load",
        &load,
        "--faults",
        &faults,
        "--kubeconfig",
        &kubeconfig,
    ]);
    let said = serve.json().await;
    (serve, said)
}

/// Watches pods with a raw HTTP request until the server ends the watch, and returns the events. `said` is
/// the JSON line in which the server printed its URL.
async fn raw_watch(said: &Value) -> Vec<Value> {
    let address: SocketAddr = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Without a resourceVersion, the watch begins with one event for each existing object.
    let request = "GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let reading = stream.read_to_string(&mut text);
    tokio::time::timeout(DEADLINE, reading).await.expect("the server ends the watch").unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    // Skip the lines with the sizes of HTTP chunks, which contain no brace.
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn loaded_manifests_are_served_to_clients_of_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let (_serve, said) = serve(directory.path()).await;
    assert_eq!((&said["objects"], &said["faults"]), (&6.into(), &2.into()));
    assert_eq!(said["kinds"], json!(["websites.v1.example.com"]));
    let kubeconfig = directory.path().join("kubeconfig");
    let mut watch = start_with(["watch", "site", "cm", "po", "-A", "-o", "name"], Some(&kubeconfig));
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(watch.line().await);
    }
    lines.sort();
    let pods = ["pod/default/web-0", "pod/default/web-1", "pod/default/web-2"];
    assert_eq!(lines[0], "configmap/default/settings");
    assert_eq!(lines[1..4], pods);
    assert_eq!(lines[4], "website.example.com/web/shop");
}

#[tokio::test]
async fn a_cut_and_a_410_of_the_faults_file_are_seen_on_the_wire() {
    let directory = tempfile::tempdir().unwrap();
    let (_serve, said) = serve(directory.path()).await;
    let cut = raw_watch(&said).await;
    let names: Vec<&Value> = cut.iter().map(|event| &event["object"]["metadata"]["name"]).collect();
    assert_eq!(names, ["web-0", "web-1"], "cut after two of three");
    let expired = raw_watch(&said).await;
    assert_eq!(expired.len(), 1);
    assert_eq!((&expired[0]["type"], &expired[0]["object"]["code"]), (&"ERROR".into(), &410.into()));
}

/// Returns the response to a GET request without TLS.
async fn get(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8 (test)\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("GET /{path} {head}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// Sends a PATCH request without TLS, and returns the changed object.
async fn patch(url: &str, path: &str, content_type: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{path}: {response}");
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    // A long body is sent in chunks, each behind a line with its size.
    serde_json::from_str(&body[body.find('{').unwrap()..=body.rfind('}').unwrap()]).unwrap()
}

/// A program that loads a manifest expects that `kubectl label` and `kubectl apply` of the same manifest then
/// succeed, although the server has added defaults to the object.
#[tokio::test]
async fn loaded_manifests_can_be_patched_and_applied() {
    let directory = tempfile::tempdir().unwrap();
    let (_serve, said) = serve(directory.path()).await;
    let url = said["url"].as_str().unwrap();
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"},
    });
    let website = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"host": "shop.example.com"},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    });
    for (path, manifest) in [
        ("/api/v1/namespaces/default/configmaps/settings", settings),
        ("/apis/example.com/v1/namespaces/web/websites/shop", website),
        ("/api/v1/namespaces/default/pods/web-0", pod),
    ] {
        let label = json!({"metadata": {"labels": {"tier": "front"}}});
        let labeled = patch(url, path, "application/merge-patch+json", &label).await;
        assert_eq!(labeled["metadata"]["labels"]["tier"], "front", "{path}");
        let apply = format!("{path}?fieldManager=kubectl");
        let applied = patch(url, &apply, "application/apply-patch+yaml", &manifest).await;
        assert_eq!(applied["metadata"]["uid"], labeled["metadata"]["uid"], "{path}");
        assert_eq!(applied["metadata"]["labels"]["tier"], "front", "{path}");
        let mut changed = manifest;
        changed["metadata"]["annotations"] = json!({"note": "applied"});
        let applied = patch(url, &apply, "application/apply-patch+yaml", &changed).await;
        assert_eq!(applied["metadata"]["annotations"]["note"], "applied", "{path}");
        assert_eq!(applied["spec"], labeled["spec"], "{path}");
    }
}

#[tokio::test]
async fn web_ui_is_served_at_the_printed_url_if_enabled() {
    let mut serve = start(["serve", "--json", "--web-ui", "--listen", "127.0.0.1:0"]);
    let page = get(serve.json().await["webUi"].as_str().unwrap()).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("informer API server"), "{page}");
    let mut serve = start(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let said = serve.json().await;
    assert!(said["webUi"].is_null(), "{said}");
    let page = get(&format!("{}/debug/apiserver/", said["url"].as_str().unwrap())).await;
    assert!(page.starts_with("HTTP/1.1 404"), "{page}");
}

#[tokio::test]
async fn log_shows_each_request_with_its_client_and_status() {
    let mut serve = start(["serve", "--json", "--log", "--listen", "127.0.0.1:0"]);
    let url = serve.json().await["url"].as_str().unwrap().to_owned();
    for path in ["/api/v1/namespaces/default/pods/web-0", "/version"] {
        get(&format!("{url}{path}")).await;
    }
    let missing = serve.err.line().await;
    assert!(missing.ends_with("get pods default/web-0 -> 404") && missing.contains("  curl/8"), "{missing}");
    let version = serve.err.line().await;
    assert!(version.ends_with("/version -> 200"), "{version}");
}

#[tokio::test]
async fn over_tls_a_certificate_is_made_and_its_kubeconfig_trusts_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (certificates, config) = (path("certs"), path("kubeconfig"));
    let args =
        ["serve", "--json", "--listen", "127.0.0.1:0", "--cert-dir", &certificates, "--kubeconfig", &config];
    for _ in 0..2 {
        let mut serve = start(args);
        assert!(serve.json().await["url"].as_str().unwrap().starts_with("https://127.0.0.1:"));
        let mut watch = start_with(["watch", "ns", "-o", "name"], Some(Path::new(&config)));
        assert_eq!(watch.line().await, "namespace/default");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_it_and_its_watches_properly() {
    let directory = tempfile::tempdir().unwrap();
    let (serve, said) = serve(directory.path()).await;
    let url = said["url"].as_str().unwrap();
    let mut watch = start(["watch", "cm", "--server", url, "-o", "name"]);
    assert_eq!(watch.line().await, "configmap/default/settings");
    serve.interrupt().await;
    let ended = serve.ended().await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    // The server has ended. The informer of `informer watch` retries, and the command reports the failure on
    // stderr.
    let told = watch.err.up_to("trying again").await;
    assert!(told.last().is_some_and(|line| line.starts_with("configmaps: ")), "{told:?}");
}

#[tokio::test]
async fn bootstrap_creates_the_default_objects_of_namespaces() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let path = kubeconfig.to_str().unwrap();
    let mut serve =
        start(["serve", "--json", "--listen", "127.0.0.1:0", "--bootstrap", "--kubeconfig", path]);
    serve.json().await;
    let mut watch = start_with(["watch", "sa", "-n", "default", "-o", "name"], Some(&kubeconfig));
    assert_eq!(watch.line().await, "serviceaccount/default/default");
    let mut watch = start_with(["watch", "cm", "-n", "default", "-o", "name"], Some(&kubeconfig));
    assert_eq!(watch.line().await, "configmap/default/kube-root-ca.crt");
}
