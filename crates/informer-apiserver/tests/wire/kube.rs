//! Tests of the server through the client of kube-rs, without a socket.

use informer_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube_client::core::WatchEvent;
use kube_client::{Api, Client, Error};
use serde_json::json;

#[tokio::test]
async fn a_kube_client_works_in_process() {
    use futures_util::StreamExt;
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(made.metadata.uid.is_some());

    let version = made.metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Modified(_)));
    assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)));

    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.metadata.resource_version.unwrap(), server.version().to_string());
    let pods: Api<Pod> = Api::all(client.clone());
    assert!(pods.list_metadata(&ListParams::default()).await.unwrap().items.is_empty());
    match maps.get("a").await.unwrap_err() {
        Error::Api(status) => assert_eq!((status.code, status.reason.as_str()), (404, "NotFound")),
        other => panic!("{other}"),
    }
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}
