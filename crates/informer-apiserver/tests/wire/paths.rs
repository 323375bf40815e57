//! Empty segments in the paths of requests.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::json;

use crate::support::{call, json as ask};

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    let maps = ["a", "b"].map(|namespace| json!({"metadata": {"name": "m", "namespace": namespace}}));
    server.load(&Gvr::new("", "v1", "configmaps"), maps).unwrap();
    server
}

#[tokio::test]
async fn slashes_at_the_end_of_a_path_are_dropped() {
    let server = server();
    for path in ["/api/v1/configmaps//", "/api/v1/namespaces/a/configmaps/m///", "/api//", "/apis/apps/v1//"]
    {
        assert_eq!(ask(&server, "GET", path, "").await.0, 200, "{path}");
    }
    for path in ["/apis//", "/healthz//", "/openapi/v3//"] {
        let (status, text) = call(&server, "GET", path, "").await;
        assert_eq!((status, text.as_str()), (404, "404 page not found\n"), "{path}");
    }
}

#[tokio::test]
async fn empty_namespace_of_a_collection_selects_all_namespaces() {
    let server = server();
    let (status, list) = ask(&server, "GET", "/api/v1/namespaces//configmaps", "").await;
    assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(2)), "{list}");
}

#[tokio::test]
async fn object_needs_a_name_and_a_namespace() {
    let server = server();
    for (path, message) in [
        ("/api/v1/namespaces//configmaps/m", "Namespace parameter required."),
        ("/api/v1/namespaces/a/pods//status", "name must be provided"),
        ("/api/v1/namespaces//status", "name must be provided"),
        ("/api/v1/nodes//proxy/metrics", "name must be provided"),
    ] {
        let (status, error) = ask(&server, "GET", path, "").await;
        assert_eq!((status, error["message"].as_str()), (400, Some(message)), "{path}");
    }
}

#[tokio::test]
async fn path_with_another_empty_segment_is_not_found() {
    let server = server();
    for path in ["/api/v1//configmaps", "/api//v1/configmaps", "/apis/apps//deployments"] {
        let (status, error) = ask(&server, "GET", path, "").await;
        let message = "the server could not find the requested resource";
        assert_eq!((status, error["message"].as_str()), (404, Some(message)), "{path}");
    }
    for path in [
        "//api/v1/configmaps",
        "/%2Fapi/v1/configmaps",
        "/apis//v1/configmaps",
        "/apis//v1",
        "//healthz",
        "/openapi//v3",
    ] {
        let (status, text) = call(&server, "GET", path, "").await;
        assert_eq!((status, text.as_str()), (404, "404 page not found\n"), "{path}");
    }
}
