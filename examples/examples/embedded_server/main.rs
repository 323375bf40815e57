//! The embedded API server with injected faults and a record of every request.
//! See `README.md` in this folder.

use std::time::Duration;

use informer::Gvr;
use informer::cache::SharedInformerFactory;
use informer::cache::reflector::{ReflectorConfig, RelistReason};
use informer::client::{Client, StreamingLists};
use informer_apiserver::{ApiServer, FaultFile, FaultMatch, Verb};
use informer_examples::{PATIENCE, Result};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn pod(name: &str, phase: &str) -> Value {
    let containers = json!([{"name": "main", "image": "registry.example.com/web:1"}]);
    json!({"metadata": {"name": name}, "spec": {"containers": containers}, "status": {"phase": phase}})
}

/// Demonstrates the embedded server and its fault injection.
#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn main() -> Result {
    let (server, pods_gvr) = (ApiServer::builder().build(), Gvr::new("", "v1", "pods"));
    server.create(&pods_gvr, "default", pod("web-0", "Pending"))?;

    // Inject faults with code: the first list is rejected, the first watch is closed after one event, and the
    // second watch expires.
    let refused = server.faults().on(FaultMatch::list("pods")).nth(1).status(503);
    let cut = server.faults().on(FaultMatch::watch("pods")).nth(1).cut_after(1);
    let expired = server.faults().on(FaultMatch::watch("pods")).nth(2).expire();
    // Faults can also be written as YAML or JSON, which `informer serve --faults` reads from a file.
    let slow =
        "faults: [{match: {verb: watch, resource: pods}, when: {nth: 3}, action: {delay: {millis: 30}}}]";
    server.faults().add_all(FaultFile::parse(slow)?);

    // This client calls the server in the same process, without a socket; `server.listen("127.0.0.1:0")`
    // would serve HTTP.
    let client = Client::from_service(server.service(), "default");
    // By default, the reflector waits at least 0.8 s after a failure; this example sets a shorter backoff.
    let mut quick = ReflectorConfig::default();
    quick.backoff.initial = Duration::from_millis(10);
    let factory = SharedInformerFactory::new(client).reflector(quick).streaming_lists(StreamingLists::Off);
    let pods = factory.informer::<Pod>();
    factory.start();
    pods.wait_for_sync(PATIENCE).await?;

    // A write on the server reaches the cache in spite of the injected faults.
    server.update(&pods_gvr, "default", pod("web-0", "Running"))?;
    server.create(&pods_gvr, "default", pod("web-1", "Running"))?;
    pods.wait_until(|cache| cache.len() == 2).await?;
    while pods.state().reflector.watches_opened < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.delete(&pods_gvr, "default", "web-0")?;
    pods.wait_until(|cache| !cache.contains("default/web-0")).await?;

    // The cache and the server contain the same objects.
    let truth: Vec<_> = server.versions(&pods_gvr)?.into_iter().map(|(key, _)| key).collect();
    assert_eq!(pods.indexer().keys(), truth);
    println!("the cache and the server contain the same objects: {truth:?}");

    println!("faults: rejected {}, cut {}, expired {}", refused.fired(), cut.fired(), expired.fired());
    let (lists, watches) =
        (server.count_requests(Verb::List, "pods"), server.count_requests(Verb::Watch, "pods"));
    println!("{lists} lists and {watches} watches were requested:");
    for request in server.requests() {
        println!("  {:?} {}?{}", request.verb, request.path, request.query);
    }
    let relists = pods.state().reflector.relists;
    println!("lists by reason: {:?}", relists.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>());
    assert_eq!((refused.fired(), cut.fired(), expired.fired()), (1, 1, 1));
    assert_eq!(relists.get(RelistReason::WatchExpired), 1);
    Ok(())
}
