//! Tests of `SharedInformerFactory`, imported from the `informer` crate as programs do it.
#![cfg(feature = "testing")]

use std::sync::Arc;
use std::time::Duration;

use informer::cache::{GenericInformer, SharedInformerFactory, on_event};
use informer::client::{Dynamic, Lazy, Metadata, ResourceKind, StaticKind, StreamingLists, Typed};
use informer::testing::{TestServer, list, pod};
use informer::{Gvr, LabelSelector, Object};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

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
    let pods = factory.existing(&Gvr::new("", "v1", "pods")).unwrap();
    assert!(pods.is_some_and(|pods| pods.has_synced()));
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
async fn a_clone_with_another_transform_or_resync_period_makes_informers_with_other_names() {
    let server = TestServer::start().await;
    server.create(&pod("a/one")).await.unwrap();
    let plain = factory(&server);
    let resynced = plain.clone().resync(Duration::from_secs(90));
    let rejecting = plain.clone().transform(|_| Err("rejected".into()));
    let other = resynced.clone().transform(Ok);
    let informers = [&plain, &resynced, &rejecting, &other].map(|factory| factory.informer::<Pod>());
    plain.start();
    plain.wait_for_cache_sync(SOON).await.unwrap();
    let names: Vec<_> = plain.states().into_iter().map(|state| state.name.to_string()).collect();
    let all = ["pods.v1", "pods.v1 resync=90s", "pods.v1 resync=90s transform=2", "pods.v1 transform=1"];
    assert_eq!(names, all);
    assert_eq!(informers.map(|informer| informer.indexer().len()), [1, 1, 0, 1]);
    let gvr = Gvr::new("", "v1", "pods");
    assert!(rejecting.existing(&gvr).unwrap().is_some() && rejecting.release::<Lazy<Pod>>(&gvr));
    assert_eq!(plain.states().len(), 3);
    assert_eq!(rejecting.clone().informer::<Pod>().indexer().len(), 0);
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

fn names(informer: &GenericInformer) -> Vec<String> {
    let mut names: Vec<_> =
        informer.lister().list(&LabelSelector::everything()).iter().map(|o| o.key().to_string()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn for_resource_creates_a_dynamic_informer_and_names_ambiguous_representations() {
    let server = TestServer::start().await;
    server.create(&pod("a/one")).await.unwrap();
    let factory = factory(&server);
    let pods = factory.for_resource(ResourceKind::of::<Pod>()).unwrap();
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    assert_eq!(names(&pods), ["a/one"]);
    let object = pods.lister().get("a/one").unwrap();
    assert!(object.downcast_ref::<Dynamic>().is_some());

    let config_maps = factory.metadata::<ConfigMap>();
    let generic = factory.for_resource(ResourceKind::of::<ConfigMap>()).unwrap();
    assert_eq!(generic.state().name, config_maps.name(), "the informer of any representation is returned");
    assert_eq!(factory.states().len(), 2);

    factory.metadata::<Pod>();
    let error = factory.for_resource(ResourceKind::of::<Pod>()).unwrap_err();
    let mut candidates = error.candidates.clone();
    candidates.sort_unstable();
    assert_eq!(candidates, ["Dynamic", "Metadata"], "{error}");
    assert!(error.to_string().starts_with("get the informer of pods.v1: "), "{error}");
    assert!(factory.existing(&Gvr::new("", "v1", "secrets")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn objects_of_generic_informers_give_fields_and_json_in_each_representation() {
    let server = TestServer::start().await;
    server.create(&pod("a/one")).await.unwrap();
    let factory = factory(&server);
    let kind = ResourceKind::of::<Pod>;
    let informers = [
        GenericInformer::from(factory.informer::<Pod>()),
        GenericInformer::from(factory.informer_with::<Typed<Pod>>(kind(), |informer| informer)),
        GenericInformer::from(factory.informer_with::<Dynamic>(kind(), |informer| informer)),
        GenericInformer::from(factory.metadata::<Pod>()),
    ];
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    let mut texts = Vec::new();
    for informer in informers {
        let object = informer.lister().get("a/one").unwrap();
        assert_eq!(object.field(&"metadata.name".parse().unwrap()).as_deref(), Some("one"));
        texts.extend(object.json().map(|json| serde_json::from_str::<serde_json::Value>(&json).unwrap()));
    }
    assert_eq!(texts.len(), 3, "objects with only metadata have no body");
    for text in texts {
        assert_eq!((&text["metadata"]["name"], &text["metadata"]["namespace"]), (&"one".into(), &"a".into()));
        assert!(text["spec"]["containers"].is_array(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn default_transform_applies_to_each_kind_and_must_keep_the_type() {
    let server = TestServer::start().await;
    for key in ["a/one", "a/two"] {
        server.create(&pod(key)).await.unwrap();
    }
    let factory = factory(&server).transform(|object| match object.key().name() {
        "one" if object.downcast_ref::<Lazy<Pod>>().is_some() => Err("rejected".into()),
        "two" if object.downcast_ref::<Metadata<Pod>>().is_some() => {
            Ok(Arc::new(Lazy::<Pod>::from_json(r#"{"metadata":{"name":"two"}}"#)?))
        }
        _ => Ok(object),
    });
    let (pods, metadata) = (factory.informer::<Pod>(), factory.metadata::<Pod>());
    let untouched =
        factory.informer_with::<Dynamic>(ResourceKind::of::<Pod>(), |informer| informer.transform(Ok));
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    assert_eq!(pods.indexer().keys(), ["a/two"]);
    assert_eq!(metadata.indexer().keys(), ["a/one"]);
    let undecodable = metadata.undecodable();
    let error = undecodable[0].error().source().unwrap().to_string();
    assert!(error.contains("another type than informer_client::object::metadata::Metadata"), "{error}");
    assert_eq!(untouched.indexer().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn resync_config_of_a_kind_replaces_the_period_of_the_factory() {
    let server = TestServer::start().await;
    server.create(&pod("a/one")).await.unwrap();
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"a"}}"#;
    server.create(&serde_json::from_str::<ConfigMap>(map).unwrap()).await.unwrap();
    let minute = Duration::from_secs(60);
    let factory =
        factory(&server).resync(10 * minute).custom_resync_config([(ResourceKind::of::<Pod>(), minute)]);
    let (pods, config_maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    let pod_handler = pods.add_handler(on_event(|_event| ())).unwrap();
    let map_handler = config_maps.add_handler(on_event(|_event| ())).unwrap();
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    tokio::time::sleep(5 * minute + minute / 2).await;
    assert_eq!((pod_handler.state().calls, map_handler.state().calls), (1 + 5, 1));
}

#[tokio::test(start_paused = true)]
async fn tweaked_list_options_apply_to_lists_and_watches_of_their_resource() {
    let server = TestServer::start().await;
    for key in ["a/one", "a/two"] {
        server.create(&pod(key)).await.unwrap();
    }
    let factory = factory(&server).tweak_list_options(|gvr, options| {
        if gvr.resource == "pods" {
            options.fields = "metadata.name=two".parse().unwrap();
            options.parameter("pretty", "false");
        }
    });
    let (pods, secrets) = (factory.informer::<Pod>(), factory.informer::<Secret>());
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    assert_eq!(pods.indexer().keys(), ["a/two"]);
    assert_eq!(pods.name(), "pods.v1 fields=metadata.name=two pretty=false");
    assert_eq!(secrets.name(), "secrets.v1");
    server.create(&pod("a/three")).await.unwrap();
    server.delete::<Pod>("a/two").await.unwrap();
    pods.wait_until(|cache| cache.is_empty()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leased_informer_ends_with_its_last_lease() {
    let server = TestServer::start().await;
    let factory = factory(&server);
    let (first, second) = (factory.lease::<Pod>(), factory.lease::<Pod>());
    let informer = first.clone();
    let (kept, leased) = (factory.informer::<ConfigMap>(), factory.lease::<ConfigMap>());
    factory.start();
    factory.wait_for_cache_sync(SOON).await.unwrap();
    drop((first, second, leased));
    assert_eq!(factory.states().len(), 2, "a clone of a lease is a use");
    let handle = (*informer).clone();
    drop(informer);
    assert_eq!(factory.states().len(), 1);
    assert!(!kept.is_stopped(), "the factory returned it without a lease, too");
    tokio::time::timeout(SOON, async {
        while !handle.is_stopped() {
            tokio::task::yield_now().await
        }
    })
    .await
    .unwrap();
    let again = factory.lease::<Pod>();
    factory.start();
    again.wait_for_sync(SOON).await.unwrap();
}
