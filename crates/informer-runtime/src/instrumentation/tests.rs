use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{StatusCode, Uri};
use informer_apiserver::ApiServer;
use informer_cache::SharedInformer;
use informer_cache::metrics::InformerMetrics;
use informer_cache::testing::StaticSource;
use informer_client::Client;
use informer_core::{Header, Object};
use tokio::time::Instant;

use super::Instrumentation;
use crate::{Manager, Probe};

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
