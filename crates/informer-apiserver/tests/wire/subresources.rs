//! Subresources: scale, binding and eviction.

use informer_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{json as ask, read, send_with};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/n/deployments";
const PODS: &str = "/api/v1/namespaces/n/pods";

async fn deployed() -> ApiServer {
    let server = ApiServer::builder().build();
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let object = json!({"metadata": {"name": "web"}, "spec": spec});
    assert_eq!(ask(&server, "POST", DEPLOYMENT, &object.to_string()).await.0, 201);
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": containers}});
    assert_eq!(ask(&server, "POST", PODS, &pod.to_string()).await.0, 201);
    server
}

#[tokio::test]
async fn a_scale_with_invalid_replicas_changes_nothing() {
    let server = deployed().await;
    let scale = format!("{DEPLOYMENT}/web/scale");
    for (replicas, found) in
        [(json!("5"), "string"), (json!(1.5), "number 1.5"), (json!(1_i64 << 32), "number 4294967296")]
    {
        let told = format!(
            "json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"
        );
        let spec = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}});
        let (status, error) = ask(&server, "PUT", &scale, &spec.to_string()).await;
        assert_eq!((status, &error["reason"]), (400, &json!("BadRequest")), "{error}");
        let whole = format!("Scale in version \"v1\" cannot be handled as a Scale: {told}");
        assert_eq!(error["message"], whole);
        let headers = [("content-type", "application/merge-patch+json")];
        let patch = json!({"spec": {"replicas": replicas}}).to_string();
        let (status, error) = read(send_with(&server, "PATCH", &scale, &headers, &patch).await).await;
        assert_eq!(status, 422, "{error}");
        assert!(error.contains(&found.replace('"', "\\\"")), "{error}");
    }
    assert_eq!(ask(&server, "GET", &scale, "").await.1["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_scale_can_be_read_as_metadata_only() {
    let server = deployed().await;
    let headers = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let (status, text) =
        read(send_with(&server, "GET", &format!("{DEPLOYMENT}/web/scale"), &headers, "").await).await;
    let scale: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &scale["kind"], &scale["metadata"]["name"]),
        (200, &json!("PartialObjectMetadata"), &json!("web"))
    );
    assert!(scale["spec"].is_null(), "{text}");
}

#[tokio::test]
async fn an_eviction_is_forbidden_by_a_pdb_with_an_impossible_status() {
    let server = deployed().await;
    let selector = json!({"matchLabels": {"app": "web"}});
    let pod = json!({"metadata": {"name": "labeled", "namespace": "n", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}});
    let pods = "pods.v1".parse().unwrap();
    server.raw().load(&pods, [pod]).unwrap();
    let many = (0..2_001).map(|n| (format!("pod-{n}"), json!("2026-01-01T00:00:00Z")));
    let many = Value::Object(many.collect());
    let negative = json!({"observedGeneration": 9, "disruptionsAllowed": -1});
    let full = json!({"observedGeneration": 9, "disruptionsAllowed": 1, "disruptedPods": many});
    for (status, why) in
        [(negative, "pdb disruptions allowed is negative"), (full, "DisruptedPods map too big")]
    {
        // The API server validates the status of a PDB, so only an object that is stored as it is can have
        // it.
        let budget = json!({"metadata": {"name": "budget", "namespace": "n"}, "spec": {"selector": selector}, "status": status});
        server.raw().load(&"poddisruptionbudgets.v1.policy".parse().unwrap(), [budget]).unwrap();
        let eviction = json!({"metadata": {"name": "labeled"}}).to_string();
        let (code, error) = ask(&server, "POST", &format!("{PODS}/labeled/eviction"), &eviction).await;
        assert_eq!((code, &error["reason"]), (403, &json!("Forbidden")), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("poddisruptionbudget.policy \"budget\" is forbidden")
                && message.contains(why),
            "{error}"
        );
        assert_eq!(
            ask(&server, "DELETE", "/apis/policy/v1/namespaces/n/poddisruptionbudgets/budget", "").await.0,
            200
        );
    }
}

#[tokio::test]
async fn a_binding_with_a_non_string_annotation_is_rejected() {
    let server = deployed().await;
    let target = json!({"kind": "Node", "name": "node"});
    let binding = |annotation: Value| {
        json!({"metadata": {"name": "web", "annotations": {"a": annotation}}, "target": target}).to_string()
    };
    let (status, error) = ask(&server, "POST", &format!("{PODS}/web/binding"), &binding(json!(5))).await;
    assert_eq!((status, &error["reason"]), (400, &json!("BadRequest")), "{error}");
    assert!(ask(&server, "GET", &format!("{PODS}/web"), "").await.1["spec"]["nodeName"].is_null());
    let (status, _) = ask(&server, "POST", &format!("{PODS}/web/binding"), &binding(json!("5"))).await;
    assert_eq!(status, 201);
}

#[tokio::test]
async fn an_eviction_checks_its_preconditions() {
    let server = deployed().await;
    let path = format!("{PODS}/web");
    let (_, pod) = ask(&server, "GET", &path, "").await;
    let evict = |preconditions: Value| {
        let options = json!({"preconditions": preconditions});
        json!({"metadata": {"name": "web"}, "deleteOptions": options}).to_string()
    };
    for other in [json!({"resourceVersion": "1"}), json!({"uid": "another"})] {
        let (status, error) = ask(&server, "POST", &format!("{path}/eviction"), &evict(other)).await;
        assert_eq!((status, &error["reason"]), (409, &json!("Conflict")), "{error}");
    }
    assert_eq!(ask(&server, "GET", &path, "").await.1, pod, "the pod is not marked for deletion");
    let seen = json!({"resourceVersion": pod["metadata"]["resourceVersion"], "uid": pod["metadata"]["uid"]});
    let (status, response) = ask(&server, "POST", &format!("{path}/eviction"), &evict(seen)).await;
    assert_eq!(status, 201, "{response}");
    assert_eq!(ask(&server, "GET", &path, "").await.0, 404);
}

/// Returns a server with the running pod `web`, which is not ready, and a PDB that protects ready pods only.
async fn with_unhealthy_pod() -> ApiServer {
    let server = deployed().await;
    let status =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}});
    let headers = [("content-type", "application/merge-patch+json")];
    let (path, status) = (format!("{PODS}/web/status"), status.to_string());
    assert_eq!(send_with(&server, "PATCH", &path, &headers, &status).await.status(), 200);
    let budget = json!({"metadata": {"name": "budget", "namespace": "n"},
        "spec": {"selector": {}, "minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    server.load(&"poddisruptionbudgets.v1.policy".parse().unwrap(), [budget]).unwrap();
    server
}

#[tokio::test]
async fn eviction_of_an_unhealthy_pod_with_a_failed_precondition_must_be_repeated() {
    let server = with_unhealthy_pod().await;
    let eviction = |preconditions: Value| {
        json!({"metadata": {"name": "web"}, "deleteOptions": {"preconditions": preconditions}}).to_string()
    };
    let path = format!("{PODS}/web/eviction");
    let (status, error) = ask(&server, "POST", &path, &eviction(json!({"uid": "another"}))).await;
    assert_eq!((status, &error["reason"]), (429, &json!("TooManyRequests")), "{error}");
    assert_eq!(error["details"]["retryAfterSeconds"], 10);
    let cause = "The disruption budget budget is still being processed by the server.";
    assert_eq!(error["details"]["causes"][0]["message"], cause);
    let both = json!({"uid": "another", "resourceVersion": "1"});
    let (status, error) = ask(&server, "POST", &path, &eviction(both)).await;
    assert_eq!((status, &error["reason"]), (409, &json!("Conflict")), "{error}");
    // The resourceVersion of the checked pod replaces that of the client.
    let (status, error) = ask(&server, "POST", &path, &eviction(json!({"resourceVersion": "1"}))).await;
    assert_eq!(status, 201, "{error}");
    assert_eq!(ask(&server, "GET", &format!("{PODS}/web"), "").await.0, 404);
}

#[tokio::test]
async fn eviction_of_a_terminating_pod_adds_the_condition_once() {
    let server = deployed().await;
    let pod = json!({"metadata": {"name": "bound"},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(ask(&server, "POST", PODS, &pod.to_string()).await.0, 201);
    let path = format!("{PODS}/bound");
    assert_eq!(ask(&server, "DELETE", &path, "").await.1["metadata"]["deletionGracePeriodSeconds"], 30);
    let eviction = json!({"metadata": {"name": "bound"}}).to_string();
    assert_eq!(ask(&server, "POST", &format!("{path}/eviction"), &eviction).await.0, 201);
    let pod = ask(&server, "GET", &path, "").await.1;
    assert_eq!(pod["status"]["conditions"][0]["type"], "DisruptionTarget");
    assert_eq!(ask(&server, "POST", &format!("{path}/eviction"), &eviction).await.0, 201);
    assert_eq!(ask(&server, "GET", &path, "").await.1, pod, "the second eviction changes nothing");
}
