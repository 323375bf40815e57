//! The objects of a new server.

use informer_apiserver::{ApiServer, ApiServerBuilder, CertificateAuthority};
use informer_core::Gvr;
use serde_json::Value;

use crate::support::json as ask;

async fn count(server: &ApiServer, path: &str) -> usize {
    let (status, list) = ask(server, "GET", path, "").await;
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
    let (_, service) = ask(&full, "GET", "/api/v1/namespaces/default/services/kubernetes", "").await;
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    let available = |service: &Value| service["status"]["conditions"][0]["status"] == "True";
    let (_, services) = ask(&full, "GET", "/apis/apiregistration.k8s.io/v1/apiservices", "").await;
    assert!(services["items"].as_array().unwrap().iter().all(available));
}

#[test]
fn bootstrap_publishes_the_client_ca_for_extension_api_servers() {
    let authority = CertificateAuthority::new("users").unwrap();
    // Only the certificates of the file are published, without a private key and without comments.
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let file = format!("# the users\n{}{key}", authority.certificate());
    let client_ca = || file.parse().unwrap();
    let published = |server: ApiServer| {
        server.get(&Gvr::new("", "v1", "configmaps"), "kube-system", "extension-apiserver-authentication")
    };
    let config = published(server(|builder| builder.bootstrap(true).client_ca(client_ca()))).unwrap();
    let published_ca = config["data"]["client-ca-file"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(published_ca, authority.certificate().replace("\r\n", "\n"));
    for other in [server(|builder| builder.bootstrap(true)), server(|builder| builder.client_ca(client_ca()))]
    {
        assert_eq!(published(other).unwrap_err().code(), 404);
    }
}

#[tokio::test]
async fn an_empty_server_has_no_bootstrap_objects() {
    let empty = server(|builder| builder);
    assert_eq!(count(&empty, "/apis/scheduling.k8s.io/v1/priorityclasses").await, 0);
    assert_eq!(count(&empty, "/api/v1/services").await, 0);
}

async fn root_ca(server: &ApiServer, namespace: &str) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
    ask(server, "GET", &path, "").await.1["data"]["ca.crt"].clone()
}

#[tokio::test]
async fn each_namespace_has_the_default_service_account_and_the_root_ca() {
    let server = server(|builder| builder.namespace_defaults("a CA"));
    let created = ask(&server, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"team"}}"#).await;
    assert_eq!(created.0, 201);
    for namespace in ["default", "kube-system", "team"] {
        assert_eq!(root_ca(&server, namespace).await, "a CA", "{namespace}");
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        assert_eq!(ask(&server, "GET", &account, "").await.0, 200, "{namespace}");
    }
    let config = "/api/v1/namespaces/team/configmaps/kube-root-ca.crt";
    assert_eq!(ask(&server, "DELETE", config, "").await.0, 200);
    assert_eq!(root_ca(&server, "team").await, "a CA", "the object is restored after its deletion");
    let changed =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt"},"data":{}}"#;
    assert_eq!(ask(&server, "PUT", config, changed).await.0, 200);
    assert_eq!(root_ca(&server, "team").await, "a CA", "the data is restored after a change");
}

#[tokio::test]
async fn namespace_with_default_objects_is_deleted() {
    let server = server(|builder| builder.namespace_defaults("a CA"));
    ask(&server, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"team"}}"#).await;
    assert_eq!(ask(&server, "DELETE", "/api/v1/namespaces/team", "").await.0, 200);
    server.controllers_idle().await;
    assert_eq!(ask(&server, "GET", "/api/v1/namespaces/team", "").await.0, 404);
    let (_, left) = ask(&server, "GET", "/api/v1/namespaces/team/configmaps", "").await;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0));
}
