//! The cache, as its users see it.

use informer_apiserver::Verb;
use informer_client::StreamingLists;
use informer_runtime::{InformerOptions, ListOptions, MissingInformer, ReadError};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::fixture::{SOON, Server};

#[tokio::test(start_paused = true)]
async fn the_first_read_of_a_kind_makes_its_informer_and_waits_for_it() {
    let server = Server::start();
    server.pod("default/web-0");
    let whole_lists = InformerOptions::default().streaming_lists(StreamingLists::Off);
    let cache = server.cache().options(whole_lists).build();
    cache.start();
    let pod = cache.get::<Pod>("default/web-0").await.unwrap().expect("the pod exists");
    assert_eq!(pod.get().unwrap().metadata.name.as_deref(), Some("web-0"));
    assert_eq!(cache.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 1);
    assert!(cache.get::<Pod>("default/none").await.unwrap().is_none(), "not found is an answer");
    assert_eq!(server.api.count_requests(Verb::List, "pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_kind_without_an_informer_is_refused_where_reads_make_none() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().missing_informer(MissingInformer::Refuse).build();
    cache.start();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err();
    assert!(matches!(error, ReadError::NotCached { .. }), "{error}");
    let error = cache.list::<Pod>(&ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::NotCached { .. }), "{error}");
    let pods = cache.informer::<Pod>();
    pods.wait_for_sync(SOON).await.unwrap();
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some(), "its informer was asked for");
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_have_one_face() {
    let server = Server::start();
    for key in ["a/one", "b/two", "c/three"] {
        server.pod(key);
    }
    server.create("nodes", "worker-1", serde_json::json!({}));
    let cache = server.cache().namespaces(["a", "b"]).build();
    cache.start();
    assert_eq!(cache.list::<Pod>(&ListOptions::default()).await.unwrap().len(), 2);
    assert_eq!(cache.list::<Pod>(&ListOptions::default().namespace("a")).await.unwrap().len(), 1);
    let error = cache.get::<Pod>("c/three").await.unwrap_err().to_string();
    assert_eq!(error, "read Pod.v1: namespace \"c\" is not in the cache, which has namespace a, namespace b");
    assert!(
        cache.get::<Node>("worker-1").await.unwrap().is_some(),
        "kinds without namespaces are cached whole"
    );
}
