//! Validation of pods, compared with that of kube-apiserver: resources, hosts, operating systems, annotations
//! and label keys. `validation.rs` has the rules of volumes and updates.

use informer_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::json;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn container(field: &str, value: Value) -> Value {
    json!({"containers": [{"name": "a", "image": "a:1", field: value}]})
}

#[tokio::test]
async fn fields_whose_feature_gates_are_off_are_dropped() {
    let server = ApiServer::builder().build();
    let bundle = json!({"clusterTrustBundle": {"path": ""}});
    let certificate = json!({"podCertificate": {"signerName": "", "keyType": "none"}});
    let mut spec = container("lifecycle", json!({"stopSignal": "SIGNAL"}));
    spec["volumes"] = json!([{"name": "v", "projected": {"sources": [bundle, certificate]}}]);
    let (status, created) = json(&server, "POST", PODS, &pod(spec).to_string()).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(created["spec"]["containers"][0]["lifecycle"], Value::Null);
    assert_eq!(created["spec"]["volumes"][0]["projected"]["sources"], json!([{}, {}]));
}
