//! Tests of `SharedInformerFactory`, imported from the `informer` crate as programs do it.
#![cfg(feature = "testing")]

use std::sync::Arc;
use std::time::Duration;

use informer::cache::SharedInformerFactory;
use informer::client::{Lazy, StaticKind, StreamingLists};
use informer::testing::{TestServer, list, pod};
use informer::{Gvr, Object};
use k8s_openapi::api::core::v1::Pod;

const SOON: Duration = Duration::from_secs(5);

fn factory(server: &TestServer) -> SharedInformerFactory {
    SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off)
}

#[tokio::test(start_paused = true)]
async fn two_askers_share_one_informer_and_a_shutdown_ends_it_for_good() {
    let server = TestServer::start().await;
    server.create(&pod("a/one")).await.unwrap();
    let factory = factory(&server);
    let (first, second) = (factory.informer::<Pod>(), factory.informer::<Pod>());
    factory.start();
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    assert!(first.indexer().contains("a/one") && second.indexer().contains("a/one"));
    assert_eq!(server.requests(list::<Pod>()).count(), 1);
    assert!(factory.for_resource(&Gvr::new("", "v1", "pods")).is_some_and(|pods| pods.has_synced()));
    factory.shutdown().await;
    factory.start();
    assert!(first.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_clone_with_another_selection_makes_informers_of_its_own() {
    let server = TestServer::start().await;
    for key in ["a/one", "b/two"] {
        server.create(&pod(key)).await.unwrap();
    }
    let all = factory(&server);
    let pods = all.informer::<Pod>();
    let in_a = all.clone().namespace("a").informer::<Pod>();
    let by_name = all.clone().fields("metadata.name=two".parse().unwrap()).informer::<Pod>();
    all.start();
    all.wait_for_cache_sync(SOON).await.unwrap();
    assert_eq!((pods.indexer().len(), in_a.indexer().len(), by_name.indexer().len()), (2, 1, 1));
    assert!(in_a.indexer().contains("a/one") && by_name.indexer().contains("b/two"));
}

#[tokio::test(start_paused = true)]
async fn an_informer_takes_settings_of_its_own() {
    let server = TestServer::start().await;
    for key in ["a/one", "a/two"] {
        server.create(&pod(key)).await.unwrap();
    }
    let factory = factory(&server);
    let only_one = factory.informer_with::<Lazy<Pod>>(Lazy::<Pod>::resource_kind(), |informer| {
        informer.transform(
            |pod: Arc<Lazy<Pod>>| {
                if pod.key().name() == "one" { Ok(pod) } else { Err("not this one".into()) }
            },
        )
    });
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    assert_eq!(only_one.indexer().keys(), ["a/one"]);
    assert_eq!(
        only_one.undecodable().len(),
        1,
        "an object that the transform rejects is quarantined, not lost"
    );
    assert!(factory.release::<Lazy<Pod>>(&Gvr::new("", "v1", "pods")));
}
