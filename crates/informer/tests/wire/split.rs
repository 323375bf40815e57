//! Tests of split lists: instead of one list of all namespaces, the client lists each namespace with a
//! request of its own, several in parallel.

use std::time::Duration;

use informer::cache::{InformerRun, SharedInformer};
use informer::client::{KubeListWatch, Lazy, SplitLists, StreamingLists};
use informer::testing::{TestServer, list, pod};
use informer_apiserver::FaultMatch;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a server with three Pods in each namespace of `pods_in`, and with a Namespace object for each name
/// in `namespaces`. The two can differ, because the client finds the namespaces to list by the Namespace
/// objects.
async fn server(pods_in: &[&str], namespaces: &[&str]) -> TestServer {
    let server = TestServer::start().await;
    for name in namespaces {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        server.create(&namespace).await.unwrap();
    }
    for namespace in pods_in {
        for name in ["x", "y", "z"] {
            server.create(&pod(&format!("{namespace}/{name}"))).await.unwrap();
        }
    }
    server
}

async fn split(server: &TestServer, objects_min: u64) -> (SharedInformer<Lazy<Pod>>, InformerRun) {
    let split = SplitLists { requests: 2, objects_min };
    let source = KubeListWatch::<Lazy<Pod>>::all(server.client()).split_lists(split);
    let pods = SharedInformer::new(source.streaming_lists(StreamingLists::Off));
    let run = pods.start();
    pods.wait_for_sync(MINUTE).await.unwrap();
    (pods, run)
}

/// Returns the namespace of each list request for Pods that the server has received, in the order of the
/// requests. A list of all namespaces is `None`.
fn lists(server: &TestServer) -> Vec<Option<String>> {
    server.requests(list::<Pod>()).map(|request| request.namespace.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_listed_in_parallel_and_the_watch_starts_from_their_version() {
    let server = server(&["a", "b", "c"], &["a", "b", "c"]).await;
    let (pods, _run) = split(&server, 9).await;
    assert_eq!(pods.indexer().len(), 9);
    let mut asked = lists(&server);
    assert_eq!(asked.remove(0), None, "the request for the number of objects");
    asked.retain(|namespace| ["a", "b", "c"].contains(&namespace.as_deref().unwrap()));
    asked.sort();
    assert_eq!(asked, ["a", "b", "c"].map(|name| Some(name.to_owned())));
    server.create(&pod("b/later")).await.unwrap();
    let later = async {
        while !pods.indexer().contains("b/later") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(MINUTE, later).await.unwrap();
    assert_eq!(pods.state().reflector.relists.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_short_list_is_asked_for_whole() {
    let server = server(&["a", "b"], &["a", "b"]).await;
    let (pods, _run) = split(&server, 7).await;
    assert_eq!((pods.indexer().len(), lists(&server)), (6, vec![None, None]));
}

#[tokio::test(start_paused = true)]
async fn client_that_may_not_list_namespaces_lists_all_objects() {
    let server = server(&["a", "b"], &["a", "b"]).await;
    server.faults().on(list::<Namespace>()).status(403);
    let (pods, _run) = split(&server, 2).await;
    assert_eq!((pods.indexer().len(), lists(&server)), (6, vec![None, None]));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_fails_makes_the_next_list_whole() {
    let server = server(&["a", "b"], &["a", "b"]).await;
    server.faults().on(FaultMatch { namespace: Some("b".to_owned()), ..list::<Pod>() }).status(500);
    let (pods, _run) = split(&server, 2).await;
    assert_eq!(pods.indexer().len(), 6);
    assert_eq!(lists(&server).last(), Some(&None));
    assert!(pods.state().reflector.last_error.unwrap().to_string().contains("pods in namespace b"));
}

#[tokio::test(start_paused = true)]
async fn objects_that_no_namespace_shows_are_missed_and_listed_whole() {
    let server = server(&["a", "hidden"], &["a", "b"]).await;
    let (pods, _run) = split(&server, 2).await;
    assert_eq!((pods.indexer().len(), lists(&server).last()), (6, Some(&None)));
    let error = pods.state().reflector.last_error.unwrap().to_string();
    assert!(error.contains("fewer objects in its namespaces than the server counted"), "{error}");
}
