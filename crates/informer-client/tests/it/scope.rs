//! Tests of requests for cluster-scoped kinds that set a namespace.

use informer_client::{Call, KubeListWatch, Lazy, Metadata, ResourceKind, SharedInformerFactory};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::ApiResource;

use crate::script::{Reply, Requests, first_list, list, script};

const EMPTY: &str = r#"{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;

async fn request_paths(requests: &Requests, count: usize) -> Vec<String> {
    while requests.uris().len() < count {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    requests.uris().into_iter().map(|uri| uri.split('?').next().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn namespaced_factory_watches_cluster_scoped_kinds_cluster_wide() {
    let (client, requests) = script([]);
    let factory = SharedInformerFactory::new(client).namespace("x");
    factory.informer::<Node>();
    factory.metadata::<Node>();
    factory.dynamic(ApiResource::erase::<Node>(&()));
    factory.dynamic(ResourceKind::new("example.com", "v1", "Realm", "realms").cluster_scoped());
    factory.informer::<Pod>();
    factory.start();
    let mut paths = request_paths(&requests, 5).await;
    paths.sort();
    let nodes = "/api/v1/nodes";
    assert_eq!(paths, ["/api/v1/namespaces/x/pods", nodes, nodes, nodes, "/apis/example.com/v1/realms"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn list_of_a_cluster_scoped_kind_ignores_the_namespace() {
    let (client, requests) = script([Reply::ok(EMPTY), Reply::ok(EMPTY)]);
    list(&KubeListWatch::<Lazy<Node>>::all(client.clone()).namespace("x"), first_list()).await.unwrap();
    list(&KubeListWatch::<Metadata<Node>>::all(client).namespace("x"), first_list()).await.unwrap();
    assert_eq!(request_paths(&requests, 2).await, ["/api/v1/nodes", "/api/v1/nodes"]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_cluster_scoped_kind_ignore_the_namespace() {
    let replies = [Reply::ok("{}"), Reply::ok("{}"), Reply::ok("{}")];
    let (client, requests) = script(replies);
    let (nodes, key) = (ResourceKind::of::<Node>(), "x/n".parse().unwrap());
    client.call(Call::get(&nodes, &key)).await.unwrap();
    client.call(Call::list(&nodes, Some("x"))).await.unwrap();
    client.call(Call::get(&ResourceKind::of::<Pod>(), &key)).await.unwrap();
    let paths = ["/api/v1/nodes/n", "/api/v1/nodes", "/api/v1/namespaces/x/pods/n"];
    assert_eq!(request_paths(&requests, 3).await, paths);
}

#[test]
fn kind_equality_ignores_the_scope() {
    let unknown = ResourceKind::new("", "v1", "Pod", "pods");
    assert_eq!((unknown.scope(), &unknown), (None, &ResourceKind::of::<Pod>()));
    assert!(ResourceKind::new("", "v1", "Node", "nodes").is_cluster_scoped());
    assert!(!ResourceKind::of::<Pod>().is_cluster_scoped());
}

#[tokio::test(start_paused = true)]
async fn unknown_scope_is_discovered_after_404_in_the_namespace() {
    let resources = r#"{"kind":"APIResourceList","resources":[
        {"name":"realms","kind":"Realm","namespaced":false,"verbs":["list","watch"]}]}"#;
    let realms =
        r#"{"kind":"RealmList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
    let replies = [Reply::status(404), Reply::ok(resources), Reply::ok(realms), Reply::ok(realms)];
    let (client, requests) = script(replies);
    let kind = ResourceKind::new("example.com", "v1", "Realm", "realms");
    let source = KubeListWatch::<Lazy<serde_json::Value>>::of(client, kind).namespace("x");
    list(&source, first_list()).await.unwrap();
    list(&source, first_list()).await.unwrap();
    let group = "/apis/example.com/v1";
    let realms = format!("{group}/realms");
    assert_eq!(
        request_paths(&requests, 4).await,
        [&format!("{group}/namespaces/x/realms"), group, &realms, &realms]
    );
}

#[tokio::test(start_paused = true)]
async fn missing_namespaced_kind_is_not_found() {
    let (client, _) = script([Reply::status(404), Reply::status(404)]);
    let kind = ResourceKind::new("example.com", "v1", "Realm", "realms");
    let source = KubeListWatch::<Lazy<serde_json::Value>>::of(client, kind).namespace("x");
    let error = list(&source, first_list()).await.unwrap_err();
    assert_eq!(error.kind(), informer_cache::source::SourceErrorKind::NotFound);
    assert!(error.to_string().starts_with("list realms.example.com in namespace x: "), "{error}");
}
