use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{StatusCode, Uri};
use informer_apiserver::ApiServer;
use informer_cache::SharedInformer;
use informer_cache::metrics::InformerMetrics;
use informer_cache::testing::StaticSource;
use informer_client::{Client, KubeListWatch, Metadata};
use informer_core::{Gvr, Header, Object};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Instrumentation, MAX_PROBES, Probes, add_probe, all};
use crate::{Manager, Probe, ResourceKind};

/// An object whose methods panic while the flag `armed` is set. The panic occurs in the task of an informer
/// that writes the cache, so the informer restarts.
struct Fragile {
    header: Header,
    armed: Arc<AtomicBool>,
}

impl Object for Fragile {
    fn header(&self) -> &Header {
        &self.header
    }

    fn held_bytes(&self) -> usize {
        assert!(!self.armed.load(Ordering::Relaxed), "on purpose");
        10
    }
}

#[test]
fn probes_of_dropped_informers_and_then_the_oldest_ones_are_removed() {
    let added = MAX_PROBES.next_power_of_two();
    let last = added - 1;
    let full = || {
        let probes = Mutex::new(Probes::default());
        (0..last).for_each(|number| add_probe(&probes, number, |_| true));
        probes
    };

    let probes = full();
    add_probe(&probes, last, |_| true);
    assert_eq!(all(&probes), Vec::from_iter(added - MAX_PROBES..added));

    let probes = full();
    add_probe(&probes, last, |number| number % 2 == 0);
    assert_eq!(all(&probes), Vec::from_iter((0..added).step_by(2)));
}

#[tokio::test(start_paused = true)]
async fn crashed_informer_fails_readiness_and_is_on_the_debug_page() {
    let instrumentation = Arc::new(Instrumentation::default());
    let armed = Arc::new(AtomicBool::new(true));
    let object = Fragile { header: Header::new("a".parse().expect("a key")), armed: Arc::clone(&armed) };
    let informer = SharedInformer::builder(StaticSource::new([object], "1"))
        .name("things")
        .metrics(Arc::clone(&instrumentation) as Arc<dyn InformerMetrics>)
        .build();
    assert!(instrumentation.check_informers().is_ok(), "it was not started");
    let run = informer.start();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = instrumentation.check_informers().expect_err("it has panicked").to_string();
    assert_eq!(error, "informers restart after a panic of their own tasks: things: on purpose");
    let page = instrumentation.informers_page(Instant::now().into_std());
    let shown = &page["informers"][0];
    assert_eq!(
        (&shown["crash"], &shown["crashes"], &shown["synced"]),
        (&"on purpose".into(), &1.into(), &false.into())
    );
    #[cfg(feature = "prometheus")]
    assert!(instrumentation.metrics().expect("text").contains("informer_crashed{name=\"things\"} 1"));
    armed.store(false, Ordering::Relaxed);
    informer.wait_for_sync(Duration::from_secs(60)).await.expect("it restarts");
    assert!(instrumentation.check_informers().is_ok());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn crashed_informer_fails_the_readiness_check_of_its_manager() {
    let server = ApiServer::builder().build();
    let manager = Manager::new(Client::from_service(server.service(), "default"));
    let handle = manager.handle();
    let ready = async || {
        let page = Uri::from_static("/readyz/informers");
        handle.health().respond(Probe::Ready, &page).await.status()
    };
    assert_eq!(ready().await, StatusCode::OK);
    let armed = Arc::new(AtomicBool::new(true));
    let object = Fragile { header: Header::new("a".parse().expect("a key")), armed: Arc::clone(&armed) };
    let source = StaticSource::new([object], "1");
    let informer = SharedInformer::builder(source).name("things").metrics(handle.informer_metrics()).build();
    let run = informer.start();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ready().await, StatusCode::INTERNAL_SERVER_ERROR);
    armed.store(false, Ordering::Relaxed);
    informer.wait_for_sync(Duration::from_secs(60)).await.expect("it restarts");
    assert_eq!(ready().await, StatusCode::OK);
    run.stop().await;
}

/// Returns a CRD with the versions `v1` and `v2`.
fn widgets() -> Value {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", false), version("v2", true)],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_version_that_is_not_served_is_marked_on_the_debug_page() {
    let server = ApiServer::builder().build();
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    server.create(&crds, "", widgets()).expect("a CRD");
    let serve = |served: bool| {
        let mut crd = server.get(&crds, "", "widgets.example.com").expect("a CRD");
        crd["spec"]["versions"][0]["served"] = served.into();
        server.update(&crds, "", crd).expect("a change");
    };
    let instrumentation = Arc::new(Instrumentation::default());
    let client = Client::from_service(server.service(), "default");
    let kind = ResourceKind::new("example.com", "v1", "Widget", "widgets");
    let informer = SharedInformer::builder(KubeListWatch::<Metadata>::of(client, kind))
        .metrics(Arc::clone(&instrumentation) as Arc<dyn InformerMetrics>)
        .build();
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(60)).await.expect("the version is served");
    let not_served = || {
        let page = instrumentation.informers_page(Instant::now().into_std());
        page["informers"][0]["notServed"].clone()
    };
    assert_eq!(not_served(), false);
    serve(false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(not_served(), true);
    serve(true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(not_served(), false);
    run.stop().await;
}
