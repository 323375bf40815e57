use informer_cache::source::SourceErrorKind;
use serde_json::{Value, json};

use crate::script::{Reply, Requests, script};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn aggregated(groups: Value) -> Reply {
    Reply::status(200).header("content-type", AGGREGATED).data(json!({ "items": groups }).to_string())
}

fn resource(plural: &str, kind: &str, scope: &str, short: &str) -> Value {
    json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope,
        "singularResource": kind.to_lowercase(), "verbs": ["get", "list", "watch"], "shortNames": [short]})
}

fn cluster() -> [Reply; 2] {
    let core = json!([{"metadata": {}, "versions": [{"version": "v1", "resources": [
        resource("pods", "Pod", "Namespaced", "po"), resource("nodes", "Node", "Cluster", "no")]}]}]);
    let apps = json!([
        {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource("deployments", "Deployment", "Namespaced", "deploy")]}]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "resources": [resource("pods", "PodMetrics", "Namespaced", "")]}]}]);
    [aggregated(core), aggregated(apps)]
}

async fn resolve(name: &str) -> Result<(String, bool), String> {
    let (client, _) = script(cluster());
    let found = client.resolve(name).await.map_err(|error| error.to_string())?;
    assert!(found.is_watchable());
    Ok((found.kind.gvr().to_string(), found.namespaced))
}

#[tokio::test(start_paused = true)]
async fn resolve_accepts_kind_plural_singular_and_short_names() {
    for name in ["pods", "pod", "Pod", "po", "POD", "pods.v1"] {
        assert_eq!(resolve(name).await, Ok(("pods.v1".to_owned(), true)), "{name}");
    }
    for name in ["deploy", "Deployment", "deployments.apps", "deployment.v1.apps"] {
        assert_eq!(resolve(name).await, Ok(("deployments.v1.apps".to_owned(), true)), "{name}");
    }
    assert_eq!(resolve("no").await, Ok(("nodes.v1".to_owned(), false)));
    assert_eq!(resolve("pods.metrics.k8s.io").await, Ok(("pods.v1beta1.metrics.k8s.io".to_owned(), true)));
    let error = "find the kind \"website\": the server has no such kind; check the spelling and that its \
                 CustomResourceDefinition is established";
    assert_eq!(resolve("website").await, Err(error.to_owned()));
}

fn legacy() -> Vec<Reply> {
    let text = |value: Value| Reply::ok(value.to_string());
    vec![
        text(json!({"kind": "APIVersions", "versions": ["v1"]})),
        text(json!({"kind": "APIVersions", "versions": ["v1"]})),
        text(
            json!({"resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": []}, {"name": "pods/status", "kind": "Pod"}]}),
        ),
        text(json!({"groups": [
            {"name": "broken", "versions": [{"version": "v1"}]},
            {"name": "apps", "versions": [{"version": "v1beta1"}, {"version": "v1"}], "preferredVersion": {"version": "v1"}}]})),
        Reply::status(503).data("down"),
        text(
            json!({"resources": [{"name": "deployments", "kind": "Deployment", "singularName": "deployment", "namespaced": true}]}),
        ),
        text(json!({"resources": []})),
    ]
}

async fn resolve_legacy(name: &str) -> (Result<String, SourceErrorKind>, Requests) {
    let (client, requests) = script(legacy());
    let found = client.resolve(name).await.map(|found| found.kind.gvr().to_string());
    (found.map_err(|error| error.kind()), requests)
}

#[tokio::test(start_paused = true)]
async fn resolve_falls_back_to_legacy_discovery() {
    let (found, requests) = resolve_legacy("deployment").await;
    assert_eq!(found.as_deref(), Ok("deployments.v1.apps"), "an unavailable group hides no other group");
    assert_eq!(requests.uris(), ["/api", "/api", "/api/v1", "/apis", "/apis/broken/v1", "/apis/apps/v1"]);
    assert_eq!(
        resolve_legacy("website").await.0,
        Err(SourceErrorKind::Unavailable),
        "it may be in the unavailable group"
    );
    assert_eq!(resolve_legacy("pods").await.0.as_deref(), Ok("pods.v1"));
}

#[tokio::test(start_paused = true)]
async fn discovery_errors_keep_retryable_kinds() {
    let (client, _) = script([Reply::status(503).data("starting")]);
    assert_eq!(client.resolve("pods").await.unwrap_err().kind(), SourceErrorKind::Unavailable);
    let (client, _) = script([]);
    assert_eq!(client.resolve("pods").await.unwrap_err().kind(), SourceErrorKind::Timeout);
}
