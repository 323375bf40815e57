//! The objects of a new server.

use informer_apiserver::{ApiServer, ApiServerBuilder};
use serde_json::Value;

use crate::support::json;

async fn count(server: &ApiServer, path: &str) -> usize {
    let (status, list) = json(server, "GET", path, "").await;
    assert_eq!(status, 200, "{path}");
    list["items"].as_array().unwrap().len()
}

fn server(configure: impl FnOnce(ApiServerBuilder) -> ApiServerBuilder) -> ApiServer {
    configure(ApiServer::builder()).build()
}

#[tokio::test]
async fn bootstrap_creates_the_objects_of_a_new_cluster() {
    let full = server(|builder| builder.bootstrap(true));
    for (path, expected) in [
        ("/apis/scheduling.k8s.io/v1/priorityclasses", 2),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", 11),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", 8),
        ("/apis/apiregistration.k8s.io/v1/apiservices", 21),
        ("/apis/networking.k8s.io/v1/servicecidrs", 1),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", 0),
    ] {
        assert_eq!(count(&full, path).await, expected, "{path}");
    }
    let (_, service) = json(&full, "GET", "/api/v1/namespaces/default/services/kubernetes", "").await;
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    let available = |service: &Value| service["status"]["conditions"][0]["status"] == "True";
    let (_, services) = json(&full, "GET", "/apis/apiregistration.k8s.io/v1/apiservices", "").await;
    assert!(services["items"].as_array().unwrap().iter().all(available));
}

#[tokio::test]
async fn an_empty_server_has_no_bootstrap_objects() {
    let empty = server(|builder| builder);
    assert_eq!(count(&empty, "/apis/scheduling.k8s.io/v1/priorityclasses").await, 0);
    assert_eq!(count(&empty, "/api/v1/services").await, 0);
}
