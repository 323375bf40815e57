//! Tests that the metrics and debug pages of a manager include a client and a cache that were created before
//! the manager.

use informer_apiserver::{ExtraField, FaultMatch, Verb};
use informer_cache::metrics::{InformerMetrics, InformerProbe};
use informer_core::Gvr;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use super::*;
use crate::{Cache, Controller, ControllerOptions, ManagerHandle, Outcome, Patch, ReadError, Request};

fn server(namespaces: &[&str]) -> ApiServer {
    let server = ApiServer::builder().build();
    for namespace in namespaces {
        let map = json!({"metadata": {"name": "m", "namespace": namespace}, "data": {"color": "red"}});
        server.create(&Gvr::new("", "v1", "configmaps"), namespace, map).expect("a valid object");
    }
    server
}

fn client_of(server: &ApiServer) -> Client {
    Client::from_service(server.service(), "default")
}

fn metrics(handle: &ManagerHandle) -> String {
    let mut text = String::new();
    let page = &mut text;
    let encoded =
        handle.register_metrics(|registry| prometheus_client::encoding::text::encode(page, registry));
    encoded.expect("valid text");
    text
}

#[derive(Default)]
struct RecordedNames(Mutex<Vec<String>>);

impl InformerMetrics for RecordedNames {
    fn observe(&self, probe: InformerProbe) {
        self.0.lock().extend(probe.state().map(|state| state.name));
    }
}

#[tokio::test(start_paused = true)]
async fn preconfigured_cache_is_in_metrics_once() {
    let server = server(&["a", "b", "c"]);
    let recorded = Arc::new(RecordedNames::default());
    let cache = Cache::builder(client_of(&server)).namespaces(["a", "b"]).metrics(Arc::clone(&recorded) as _);
    let cache = cache.build();
    let _before = cache.informer::<ConfigMap>();
    let manager = Manager::of(crate::CachedClient::new(&cache));
    let handle = manager.handle();
    let _after = cache.informer::<Secret>();
    let running = tokio::spawn(manager.run_until(sleep(seconds(60))));
    sleep(seconds(10)).await;

    let all = ["configmaps", "secrets"].map(|kind| ["a", "b"].map(|of| format!("{kind}.v1 namespace={of}")));
    let page = handle.shared.instrumentation.informers_page(Instant::now().into_std());
    let shown = page["informers"].as_array().expect("a list");
    let mut names: Vec<&str> = shown.iter().filter_map(|informer| informer["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, all.concat());
    assert!(shown.iter().all(|informer| informer["synced"] == true), "{page}");
    let text = metrics(&handle);
    for name in &all[0] {
        assert!(text.contains(&format!("informer_objects{{name=\"{name}\"}} 1")), "{name}: {text}");
        let batches = format!("informer_processing_latency_seconds_count{{name=\"{name}\"}}");
        assert!(text.contains(&batches), "{name}: {text}");
    }
    let mut recorded = std::mem::take(&mut *recorded.0.lock());
    recorded.sort_unstable();
    assert_eq!(recorded, all.concat(), "the receiver of the builder is notified, too");
    running.await.expect("no panic").expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn client_requests_and_own_write_waits_are_in_metrics() {
    let server = server(&["default"]);
    let manager = Manager::new(client_of(&server));
    let handle = manager.handle();
    let client = handle.services().client.clone();
    let running = tokio::spawn(manager.run_until(sleep(seconds(60))));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.expect("it is running");
    let blue = Patch::merge(json!({"data": {"color": "blue"}}));
    assert!(client.get::<ConfigMap>("default/m").await.expect("a successful read").is_some());
    sleep(seconds(1)).await;
    for verb in [Verb::Watch, Verb::List] {
        server.faults().on(FaultMatch::verb(verb)).status(503);
    }
    server.disconnect_watchers();
    client.patch::<ConfigMap>("default/m", &blue).await.expect("it exists");
    client.patch::<ConfigMap>("default/none", &blue).await.expect_err("it does not exist");
    let read = client.get::<ConfigMap>("default/m").await;
    assert!(matches!(read, Err(ReadError::Behind { .. })), "the cache gets no events: {read:?}");

    let text = metrics(&handle);
    let requests = |code: u16| {
        let host = "(a service in this process)";
        format!("rest_client_requests_total{{code=\"{code}\",method=\"PATCH\",host=\"{host}\"}} 1\n")
    };
    let waits = |what: &str| format!("informer_client_read_wait_{what}{{group=\"\",kind=\"ConfigMap\"}} 1\n");
    for line in [requests(200), requests(404), waits("seconds_count"), waits("timeouts_total")] {
        assert!(text.contains(&line), "{line}{text}");
    }
    running.await.expect("no panic").expect("a clean stop");
}

#[tokio::test(start_paused = true)]
async fn kinds_with_fields_that_the_client_does_not_know_are_in_metrics() {
    let extra = [ExtraField::new("core.v1.ConfigMap", "audience", 206, "*string")];
    let server = ApiServer::builder().extra_fields(&extra).expect("the kind has no such field").build();
    let map = json!({"metadata": {"name": "m", "namespace": "default"}, "audience": "all"});
    server.create(&Gvr::new("", "v1", "configmaps"), "default", map).expect("a valid object");
    let manager = Manager::new(client_of(&server));
    let handle = manager.handle();
    let _informers =
        (handle.services().cache.informer::<ConfigMap>(), handle.services().cache.informer::<Secret>());
    let running = tokio::spawn(manager.run_until(sleep(seconds(60))));
    sleep(seconds(10)).await;
    let text = metrics(&handle);
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("informer_client_unknown_fields{")).collect();
    assert_eq!(lines, ["informer_client_unknown_fields{group=\"\",kind=\"ConfigMap\"} 1"]);
    running.await.expect("no panic").expect("a clean stop");
}

#[test]
fn server_label_is_host_and_port() {
    for (address, host) in [
        ("https://10.0.0.1:6443/", "10.0.0.1:6443"),
        ("https://cluster.example/prefix", "cluster.example"),
        ("http://jane:secret@localhost:8001/", "localhost:8001"),
        ("(the server of a kube client)", "(the server of a kube client)"),
    ] {
        assert_eq!(crate::instrumentation::host(address), host);
    }
}

fn controller(workers: usize) -> Controller {
    let options = ControllerOptions::new().workers(workers).leader_only(false);
    let watched = crate::source::watch::<ConfigMap>();
    let source = crate::source::kind(watched, crate::handler::enqueue_object());
    let builder = Controller::<Request>::builder().named("web").with_options(options).source(source);
    builder.reconcile(|_, _| async { Ok(Outcome::Done) })
}

#[tokio::test(start_paused = true)]
async fn workers_of_rejected_controller_are_not_in_metrics() {
    let manager = Manager::new(client_of(&server(&["a"])));
    let handle = manager.handle();
    let workers = |count: u32| {
        let row = format!("controller_runtime_max_concurrent_reconciles{{controller=\"web\"}} {count}\n");
        let text = metrics(&handle);
        assert!(text.contains(&row), "{row}{text}");
    };
    handle.add(controller(3)).expect("the name is free");
    let refused = controller(5);
    let state = refused.handle();
    handle.add(refused).expect_err("the name is taken");
    workers(0);
    let running = tokio::spawn(manager.run_until(sleep(seconds(60))));
    sleep(seconds(10)).await;
    workers(3);
    handle.add(controller(7)).expect_err("the name is taken");
    workers(3);
    running.await.expect("no panic").expect("a clean stop");
    workers(0);
    drop(state);
}
