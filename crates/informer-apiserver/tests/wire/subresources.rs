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
