use informer_cache::source::SourceErrorKind;
use informer_client::MIN_MAPPER_REFRESH;
use informer_core::{Gvk, Gvr};
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

fn api_groups(stale: bool) -> [Reply; 2] {
    let core = json!([{"metadata": {}, "versions": [
        {"version": "v1", "resources": [resource("pods", "Pod", "Namespaced", "po")]}]}]);
    let freshness = if stale { "Stale" } else { "Current" };
    let others = json!([
        {"metadata": {"name": "autoscaling"}, "versions": [
            {"version": "v2", "resources": [resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "Namespaced", "hpa")]},
            {"version": "v1", "resources": [
                resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "Namespaced", "hpa"),
                resource("olds", "Old", "Cluster", "")]}]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": freshness, "resources": []}]}]);
    [aggregated(core), aggregated(others)]
}

#[tokio::test(start_paused = true)]
async fn discovery_has_all_groups_and_the_preferred_version_of_each_resource() {
    let (client, requests) = script(api_groups(true));
    let discovery = client.discover().await.unwrap();
    assert_eq!(requests.uris(), ["/api", "/apis"]);
    let names: Vec<_> = discovery.groups().iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["", "autoscaling", "metrics.k8s.io"]);
    let autoscaling = discovery.group("autoscaling").unwrap();
    assert_eq!(autoscaling.preferred().unwrap().version, "v2");
    assert_eq!(autoscaling.version("v1").unwrap().kinds.len(), 2);
    let preferred: Vec<_> =
        discovery.preferred_kinds().iter().map(|kind| kind.kind.gvr().to_string()).collect();
    assert_eq!(preferred, ["pods.v1", "horizontalpodautoscalers.v2.autoscaling", "olds.v1.autoscaling"]);
    let unavailable: Vec<_> =
        discovery.unavailable().map(|(version, error)| (version, error.is_none())).collect();
    assert_eq!(unavailable, [("metrics.k8s.io/v1beta1", true)]);
    assert_eq!(discovery.resolve("hpa").unwrap().kind.gvk().version, "v2");
}

#[tokio::test(start_paused = true)]
async fn legacy_discovery_reports_unavailable_group_versions() {
    let mut replies = legacy();
    replies.remove(0);
    replies.swap(1, 2);
    replies.insert(0, Reply::ok("{}"));
    let (client, requests) = script(replies);
    let discovery = client.discover().await.unwrap();
    let uris = ["/api", "/api", "/apis", "/api/v1", "/apis/broken/v1", "/apis/apps/v1", "/apis/apps/v1beta1"];
    assert_eq!(requests.uris(), uris);
    let unavailable: Vec<_> =
        discovery.unavailable().map(|(version, error)| (version, error.map(|error| error.kind()))).collect();
    assert_eq!(unavailable, [("broken/v1", Some(SourceErrorKind::Unavailable))]);
    assert_eq!(discovery.group("apps").unwrap().preferred().unwrap().version, "v1");
    let preferred: Vec<_> =
        discovery.preferred_kinds().iter().map(|kind| kind.kind.gvr().to_string()).collect();
    assert_eq!(preferred, ["pods.v1", "deployments.v1.apps"]);
}

#[tokio::test(start_paused = true)]
async fn rest_mapper_discovers_again_for_an_unknown_kind_and_not_more_than_once_per_second() {
    let website = json!([{"metadata": {"name": "example.com"}, "versions": [
        {"version": "v1", "resources": [resource("websites", "Website", "Namespaced", "")]}]}]);
    let [core, _] = api_groups(false);
    let replies = api_groups(false).into_iter().chain(api_groups(false)).chain([core, aggregated(website)]);
    let (client, requests) = script(replies);
    let mapper = client.rest_mapper();
    let pods = mapper.kind(&Gvk::new("", "v1", "Pod")).await.unwrap();
    assert!(pods.namespaced);
    let autoscaler = mapper.preferred("autoscaling", "HorizontalPodAutoscaler").await.unwrap();
    assert_eq!(autoscaler.kind.gvk().version, "v2");
    assert_eq!(requests.uris().len(), 2, "both are answered by one discovery");

    let websites = Gvr::new("example.com", "v1", "websites");
    let missing = mapper.resource(&websites).await.unwrap_err();
    assert_eq!(missing.kind(), SourceErrorKind::NotFound);
    assert_eq!(requests.uris().len(), 2, "the discovery is newer than the minimum interval");
    tokio::time::advance(MIN_MAPPER_REFRESH).await;
    assert!(mapper.resolve("website").await.is_err());
    assert_eq!(requests.uris().len(), 4);
    tokio::time::advance(MIN_MAPPER_REFRESH).await;
    let found = mapper.clone().resource(&websites).await.unwrap();
    assert_eq!((found.kind.kind(), requests.uris().len()), ("Website", 6));
}

#[tokio::test(start_paused = true)]
async fn failed_refresh_of_a_rest_mapper_keeps_the_cached_kinds() {
    let (client, _) = script(api_groups(false).into_iter().chain([Reply::status(503).data("down")]));
    let mapper = client.rest_mapper();
    mapper.resolve("pods").await.unwrap();
    tokio::time::advance(MIN_MAPPER_REFRESH).await;
    assert_eq!(mapper.resolve("website").await.unwrap_err().kind(), SourceErrorKind::Unavailable);
    assert!(mapper.resolve("pods").await.is_ok());
}
