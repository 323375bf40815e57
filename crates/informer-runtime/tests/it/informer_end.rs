//! The end of unused informers, and of those whose CRD is deleted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use informer_apiserver::{Fault, FaultMatch, Verb};
use informer_cache::handler::on_event;
use informer_client::{Dynamic, Lazy, Metadata};
use informer_core::Gvr;
use informer_runtime::{Cache, ListOptions, ReadError, ResourceKind};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use tokio::sync::mpsc;

use crate::fixture::{SOON, Server};

const IDLE: Duration = Duration::from_secs(60);

fn watches(server: &Server, resource: &str) -> usize {
    server.api.requests().iter().filter(|request| request.is(Verb::Watch, resource)).count()
}

fn has_informer(cache: &Cache) -> bool {
    !cache.states().is_empty()
}

#[tokio::test(start_paused = true)]
async fn unused_informer_ends_and_the_next_read_creates_it_again() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().idle_timeout(IDLE).build();
    cache.start();
    for _ in 0..5 {
        assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
        tokio::time::sleep(IDLE / 2).await;
        assert!(has_informer(&cache), "it is read");
    }
    tokio::time::sleep(2 * IDLE).await;
    assert!(!has_informer(&cache));
    let before = watches(&server, "pods");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(watches(&server, "pods"), before, "the informer sends no requests");
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
    assert!(has_informer(&cache));
}

#[tokio::test(start_paused = true)]
async fn handle_and_handler_keep_an_informer_running() {
    let server = Server::start();
    let cache = server.cache().idle_timeout(IDLE).build();
    cache.start();
    let pods = cache.informer::<Pod>();
    tokio::time::sleep(10 * IDLE).await;
    assert!(has_informer(&cache), "the program has a handle");
    let registration = pods.add_handler(on_event(|_| {})).unwrap();
    drop(pods);
    tokio::time::sleep(10 * IDLE).await;
    assert!(has_informer(&cache), "the informer has a handler");
    registration.remove();
    tokio::time::sleep(10 * IDLE).await;
    assert!(!has_informer(&cache));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_referenced_objects_ends_with_the_last_reference() {
    let server = Server::start();
    let cache = server.cache().idle_timeout(IDLE).build();
    cache.start();
    let reference = cache.referenced::<ConfigMap>().unwrap().reference(&"default/a".parse().unwrap());
    tokio::time::sleep(10 * IDLE).await;
    assert!(has_informer(&cache));
    drop(reference);
    tokio::time::sleep(10 * IDLE).await;
    assert!(!has_informer(&cache));
    assert!(cache.referenced::<ConfigMap>().unwrap().get("default/a").await.unwrap().is_none());
}

fn crds() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn widgets() -> ResourceKind {
    ResourceKind::new("example.com", "v1", "Widget", "widgets").namespaced()
}

fn create_crd(server: &Server) {
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    server.api.create(&crds(), "", crd).unwrap();
}

async fn create_widget(server: &Server, name: &str) {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    let gvr = widgets().gvr();
    for _ in 0..100 {
        if server.api.create(&gvr, "default", widget.clone()).is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the kind is not served");
}

#[tokio::test(start_paused = true)]
async fn informer_ends_with_its_crd_and_returns_with_it() {
    let server = Server::start();
    create_crd(&server);
    create_widget(&server, "one").await;
    let cache = server.cache().follow_crds().build();
    cache.start();
    let informer = cache.dynamic(widgets());
    let (sender, mut events) = mpsc::unbounded_channel();
    informer
        .add_handler(on_event(move |event: informer_cache::Event<Dynamic>| {
            let _ = sender.send((event.key().name().to_owned(), event.is_deleted()));
        }))
        .unwrap();
    assert_eq!(events.recv().await, Some(("one".to_owned(), false)));
    server.api.delete(&crds(), "", "widgets.example.com").unwrap();
    let mut served = informer.served();
    served.wait_for(|served| !served).await.unwrap();
    let error = cache.list_of::<Dynamic>(widgets(), &ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::NotServed { .. }), "{error}");
    assert!(cache.has_synced(), "the informer does not count while its kind is not served");
    let before = server.api.requests().len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let lists =
        server.api.requests()[before..].iter().filter(|request| request.is(Verb::List, "widgets")).count();
    assert_eq!(lists, 0, "the informer does not request a kind that is not served");
    create_crd(&server);
    create_widget(&server, "two").await;
    served.wait_for(|served| *served).await.unwrap();
    informer.wait_for_sync(SOON).await.unwrap();
    let one = events.recv().await.unwrap();
    assert_eq!(one, ("one".to_owned(), true), "handlers are kept and receive the differences");
    assert_eq!(events.recv().await.unwrap().0, "two");
    assert_eq!(cache.list_of::<Dynamic>(widgets(), &ListOptions::default()).await.unwrap().len(), 1);
    cache.stop().await;
}

#[tokio::test(start_paused = true)]
async fn informer_that_is_created_before_its_crd_lists_when_the_crd_is_created() {
    let server = Server::start();
    let cache = server.cache().follow_crds().build();
    cache.start();
    let informer = cache.dynamic(widgets());
    // The backoff of the informer is now 30 s and more.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!informer.has_synced());
    create_crd(&server);
    informer.wait_for_sync(SOON).await.unwrap();
    let unrelated = cache.metadata::<Pod>();
    unrelated.wait_for_sync(SOON).await.unwrap();
    assert!(unrelated.is_served());
    let kind = ResourceKind::of::<Pod>();
    assert!(cache.existing_informer::<Metadata<Pod>>(kind.gvk()).is_some());
    assert!(cache.existing_informer::<Lazy<Pod>>(kind.gvk()).is_none());
}

#[tokio::test(start_paused = true)]
async fn reads_fail_if_crd_was_deleted_before_first_crd_list() {
    let server = Server::start();
    create_crd(&server);
    create_widget(&server, "one").await;
    let crds_fail = [FaultMatch::watch, FaultMatch::list]
        .map(|requests| server.api.faults().on(requests("customresourcedefinitions")).status(503));
    let cache = server.cache().follow_crds().build();
    cache.start();
    let informer = cache.dynamic(widgets());
    let pods = cache.metadata::<Pod>();
    informer.wait_for_sync(SOON).await.unwrap();
    server.api.delete(&crds(), "", "widgets.example.com").unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(informer.is_served(), "the cache has no list of CRDs");
    crds_fail.iter().for_each(Fault::remove);
    let mut served = informer.served();
    tokio::time::timeout(Duration::from_secs(120), served.wait_for(|served| !served)).await.unwrap().unwrap();
    let error = cache.list_of::<Dynamic>(widgets(), &ListOptions::default()).await.unwrap_err();
    assert!(matches!(error, ReadError::NotServed { .. }), "{error}");
    assert!(pods.is_served() && cache.has_synced(), "a built-in kind has no CRD");
    create_crd(&server);
    create_widget(&server, "two").await;
    tokio::time::timeout(SOON, served.wait_for(|served| *served)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cache.list_of::<Dynamic>(widgets(), &ListOptions::default()).await.unwrap().len(), 1);
    cache.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_404_responses_do_not_fail_reads_of_a_synced_kind() {
    let server = Server::start();
    server.pod("default/web-0");
    let cache = server.cache().follow_crds().build();
    cache.start();
    let pods = cache.informer::<Pod>();
    pods.wait_for_sync(SOON).await.unwrap();
    let mut served = pods.served();
    served.mark_unchanged();
    let fault = server.api.faults().on(FaultMatch::watch("pods")).times(2).status(404);
    server.api.disconnect_watchers();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((fault.fired(), served.has_changed().unwrap()), (2, false));
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
    cache.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kind_without_a_crd_is_served_again_when_its_list_succeeds() {
    let server = Server::start();
    server.pod("default/web-0");
    let pods_fail = [FaultMatch::watch, FaultMatch::list]
        .map(|requests| server.api.faults().on(requests("pods")).status(404));
    let cache = server.cache().follow_crds().build();
    cache.start();
    let pods = cache.informer::<Pod>();
    let mut served = pods.served();
    tokio::time::timeout(SOON, served.wait_for(|served| !served)).await.unwrap().unwrap();
    let error = cache.get::<Pod>("default/web-0").await.unwrap_err();
    assert!(matches!(error, ReadError::NotServed { .. }), "{error}");
    // An aggregated API server may serve a kind later, without a CRD.
    pods_fail.iter().for_each(Fault::remove);
    tokio::time::timeout(Duration::from_secs(120), served.wait_for(|served| *served)).await.unwrap().unwrap();
    assert!(cache.get::<Pod>("default/web-0").await.unwrap().is_some());
    cache.stop().await;
}
