//! Tests of cluster-scoped kinds in a cache that is restricted to namespaces.

use informer_apiserver::KindDefinition;
use informer_client::ResourceKind;
use serde_json::json;

use crate::fixture::{SOON, Server};

#[tokio::test(start_paused = true)]
async fn cluster_scoped_resource_kind_has_one_informer_in_namespaced_cache() {
    let server = Server::start();
    server.create("nodes", "n1", json!({}));
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.start();
    let nodes = cache.dynamic(ResourceKind::new("", "v1", "Node", "nodes"));
    nodes.wait_for_sync(SOON).await.unwrap();
    assert_eq!((nodes.scoped_informers().len(), nodes.len()), (1, 1));
}

/// Returns a server with an object of the cluster-scoped custom kind Realm, and this kind without its scope.
fn start_with_a_realm() -> (Server, ResourceKind) {
    let server = Server::start();
    let realm = KindDefinition::custom("example.com", "v1", "Realm").cluster_scoped();
    server.api.register(realm);
    let realms = ResourceKind::new("example.com", "v1", "Realm", "realms");
    let east = json!({"apiVersion": "example.com/v1", "kind": "Realm", "metadata": {"name": "east"}});
    server.api.create(&realms.gvr(), "", east).expect("the object is valid");
    (server, realms)
}

/// Adds the namespaced custom kind Widget to a server. Returns this kind without its scope.
fn register_widgets(server: &Server) -> ResourceKind {
    server.api.register(KindDefinition::custom("example.com", "v1", "Widget"));
    ResourceKind::new("example.com", "v1", "Widget", "widgets")
}

#[tokio::test(start_paused = true)]
async fn kind_of_unknown_scope_is_read_by_name_in_a_cache_of_one_namespace() {
    let (server, realms) = start_with_a_realm();
    let cache = server.cache().namespaces(["a"]).build();
    cache.start();
    let informer = cache.dynamic(&realms);
    informer.wait_for_sync(SOON).await.unwrap();
    assert!(informer.get("east").unwrap().is_some());
    assert_eq!(informer.len(), 1);
    let widgets = cache.dynamic(register_widgets(&server));
    widgets.wait_for_sync(SOON).await.unwrap();
    let error = widgets.get("one").unwrap_err().to_string();
    assert!(error.contains("namespace"), "a namespaced kind of unknown scope: {error}");
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_kind_of_unknown_scope_is_an_error_in_a_cache_of_several_namespaces() {
    let (server, realms) = start_with_a_realm();
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.start();
    let informer = cache.dynamic(&realms);
    let error = informer.wait_for_sync(SOON).await.unwrap_err().to_string();
    assert!(error.contains("Realm.v1.example.com is cluster-scoped"), "{error}");
    assert!(error.contains("ResourceKind::cluster_scoped"), "{error}");
    assert_eq!(informer.len(), 0, "each informer would hold the objects of the whole cluster");
}
