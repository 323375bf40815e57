mod actions;
mod audit;
mod failing;
mod objects;
mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_apiserver::ApiServer;
use informer_client::Client;
use informer_core::Gvr;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::{Console, ConsoleData};
use crate::http_server::HttpServer;
use crate::{
    Controller, ControllerHandle, ControllerOptions, Manager, ManagerHandle, ManagerStatus, Outcome,
    ReconcileError, Request,
};

const MARKER: &str = "do-not-show-this";

struct Running {
    address: std::net::SocketAddr,
    handle: ManagerHandle,
    task: tokio::task::JoinHandle<Result<(), crate::ManagerError>>,
    server: ApiServer,
    data: ConsoleData,
    trigger: ControllerHandle,
    /// The number of reconciles that have begun, and the notification of each.
    count: Arc<(AtomicUsize, Notify)>,
}

impl Running {
    async fn stop(self) {
        self.handle.stop();
        self.task.await.expect("no panic").expect("a clean stop");
    }

    /// Waits until `reconciles` reconciles have begun.
    async fn reconciled(&self, reconciles: usize) {
        while self.count.0.load(Ordering::Relaxed) < reconciles {
            self.count.1.notified().await;
        }
    }

    async fn succeeded(&self, reconciles: usize) {
        while self.data.snapshot().controllers[0].results.success < reconciles as u64 {
            tokio::task::yield_now().await;
        }
    }

    async fn get(&self, path: &str) -> String {
        request(self.address, path, "host: localhost\r\n").await
    }

    async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        let (head, body) = response.split_once("\r\n\r\n").expect("a response");
        assert!(head.starts_with("HTTP/1.1 200"), "{response}");
        serde_json::from_str(body).expect("JSON")
    }
}

async fn request(address: std::net::SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a text response");
    response
}

/// Runs a controller of Secrets whose first reconcile fails, on a server with one Secret. Returns after
/// `reconciles` reconciles have begun. The controller records all of them.
async fn running(console: impl Into<Console>, reconciles: usize) -> Running {
    running_with(console, ControllerOptions::new().record_causes(true), reconciles).await
}

async fn running_with(
    console: impl Into<Console>,
    options: ControllerOptions<Request>,
    reconciles: usize,
) -> Running {
    let console = console.into();
    let server = ApiServer::builder().build();
    let annotations = json!({"token": MARKER});
    let data = json!({"metadata": {"name": "s", "namespace": "default", "annotations": annotations},
        "stringData": {"password": MARKER}});
    server.create(&Gvr::new("", "v1", "secrets"), "default", data).expect("a valid object");
    let count = Arc::new((AtomicUsize::new(0), Notify::new()));
    let counted = Arc::clone(&count);
    let controller =
        Controller::new::<Secret>("rotate").with_options(options).reconcile(move |request, context| {
            let counted = Arc::clone(&counted);
            async move {
                let secret = context.get::<Secret>(&request.key).await?;
                let is_cached = secret.is_some_and(|secret| secret.data.is_some());
                assert_eq!(is_cached, request.key.as_str() == "default/s", "only this Secret is cached");
                let before = counted.0.fetch_add(1, Ordering::Relaxed);
                counted.1.notify_one();
                if before == 0 { Err(ReconcileError::from("the vault is sealed")) } else { Ok(Outcome::Done) }
            }
        });
    let mut bound = console.server.bound();
    let client = Client::from_service(server.service(), "default");
    let trigger = controller.handle();
    let manager = Manager::new(client).console(console).controller(controller);
    let data = manager.console_data();
    let handle = manager.handle();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let address = bound.wait_for(Option::is_some).await.expect("it listens").expect("an address");
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.expect("it runs");
    let running = Running { address, handle, task, server, data, trigger, count };
    running.reconciled(reconciles).await;
    running
}

fn here() -> HttpServer {
    HttpServer::at("127.0.0.1:0")
}

/// Returns the first `count` events of a stream as JSON.
async fn events(address: std::net::SocketAddr, count: usize) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = "GET /debug/informer/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let (mut text, mut buffer) = (String::new(), vec![0; 1 << 16]);
    let complete = |text: &str| -> Vec<Value> {
        let lines = text.split("\n\n").filter_map(|event| event.split_once("data: "));
        lines.filter_map(|(_, data)| serde_json::from_str(data).ok()).collect()
    };
    loop {
        let read = stream.read(&mut buffer).await.expect("the server sends");
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).expect("UTF-8"));
        // Each event is one chunk of the body; the size of the next chunk follows it.
        let events = complete(&text);
        if events.len() >= count {
            return events;
        }
    }
}

#[tokio::test]
async fn snapshot_and_history_show_the_reconciles_of_a_key_and_no_secret() {
    let running = running(here(), 2).await;
    let events = events(running.address, 2).await;
    let reconciles: Vec<&Value> =
        events.iter().flat_map(|event| event["reconciles"].as_array().expect("a list")).collect();
    let results: Vec<&Value> = reconciles.iter().map(|reconcile| &reconcile["result"]).collect();
    assert_eq!(results, ["error", "success"], "each is sent once: {events:?}");
    assert_eq!(reconciles[0]["error"], "the vault is sealed");
    assert_eq!(reconciles[0]["causes"], json!(["listed Secret default/s"]));
    assert_eq!(reconciles[1]["causes"], json!(["retry of failure 1"]));

    let snapshot = running.json("/debug/informer/v1/snapshot").await;
    let informer = &snapshot["informers"][0];
    assert_eq!((&informer["name"], &informer["objects"]), (&json!("secrets.v1"), &json!(1)));
    assert_eq!(informer["relists"], json!({"first": 1}));
    let handler = &informer["handlers"][0];
    let calls: u64 =
        handler["latency"].as_array().expect("buckets").iter().filter_map(|one| one["calls"].as_u64()).sum();
    assert_eq!((&handler["calls"], calls), (&json!(1), 1), "{handler}");
    let controller = &snapshot["controllers"][0];
    assert_eq!((&controller["name"], &controller["kind"]), (&json!("rotate"), &json!("Secret")));
    assert_eq!((&controller["results"]["error"], &controller["results"]["success"]), (&json!(1), &json!(1)));
    let queue = &snapshot["queues"][0];
    assert_eq!(queue["oldestSeconds"], json!(0.0));
    assert_eq!((&queue["name"], &queue["retries"], &queue["done"]), (&json!("rotate"), &json!(1), &json!(2)));
    assert_eq!(snapshot["manager"], "Running");
    assert_eq!(snapshot["process"]["program"], json!(informer_client::program_name()));

    let history = running.json("/debug/informer/v1/history?key=default%2Fs").await;
    assert_eq!(history["controllers"][0]["reconciles"].as_array().map(Vec::len), Some(2), "{history}");
    let other = running.json("/debug/informer/v1/history?key=default%2Fother").await;
    assert_eq!(other["controllers"], json!([]));

    for text in [format!("{events:?}"), snapshot.to_string(), history.to_string()] {
        let encoded = "ZG8tbm90LXNob3ctdGhpcw";
        assert!(!text.contains(MARKER) && !text.contains(encoded), "{text}");
    }
    running.stop().await;
}

#[tokio::test]
async fn before_the_first_read_only_failed_reconciles_are_recorded() {
    let running = running_with(here(), ControllerOptions::new(), 2).await;
    running.succeeded(1).await;
    let reconciles = |running: &Running| {
        let history = running.data.history("default/s").controllers;
        let reconciles = history.into_iter().flat_map(|controller| controller.reconciles);
        reconciles.map(|one| (one.result, one.causes, one.error)).collect::<Vec<_>>()
    };
    let failed = (Some("error".to_owned()), Vec::new(), Some("the vault is sealed".to_owned()));
    assert_eq!(reconciles(&running), std::slice::from_ref(&failed));
    running.trigger.enqueue("default/s".parse::<Request>().expect("a key"));
    running.reconciled(3).await;
    running.succeeded(2).await;
    let recorded = (Some("success".to_owned()), vec!["enqueued by the program".to_owned()], None);
    assert_eq!(reconciles(&running), [failed, recorded]);
    running.stop().await;
}

#[tokio::test]
async fn page_is_served_with_a_strict_policy_and_relative_redirect() {
    let running = running(here(), 0).await;
    let page = running.get("/debug/informer/").await.to_lowercase();
    assert!(page.starts_with("http/1.1 200") && page.contains("<!doctype html>"), "{page}");
    assert!(
        page.contains("script-src 'self'; style-src 'self'") && !page.contains("unsafe-inline"),
        "{page}"
    );
    let redirect = running.get("/debug/informer").await.to_lowercase();
    assert!(redirect.contains("location: informer/\r\n"), "{redirect}");
    for (path, content_type) in [("console.js", "text/javascript"), ("console.css", "text/css")] {
        let asset = running.get(&format!("/debug/informer/{path}")).await;
        assert!(asset.contains(content_type), "{path}");
    }
    assert!(running.get("/debug/informer/v1/other").await.starts_with("HTTP/1.1 404"));
    assert_eq!(running.json("/debug/informer/v1/targets").await, serde_json::json!({"targets": []}));
    assert!(running.get("/debug/informer/v1/history").await.starts_with("HTTP/1.1 400"));
    running.stop().await;
}

#[tokio::test]
async fn requests_of_other_sites_are_refused() {
    let running = running(here(), 0).await;
    let address = running.address;
    for (headers, status) in [
        ("host: attacker.example\r\n", "403"),
        ("host: localhost.attacker.example\r\n", "403"),
        ("host: localhost\r\norigin: https://attacker.example\r\n", "403"),
        ("host: localhost\r\norigin: null\r\n", "403"),
        ("host: localhost\r\nsec-fetch-site: cross-site\r\n", "403"),
        (
            "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n",
            "403",
        ),
        (
            "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n",
            "200",
        ),
        ("host: localhost\r\norigin: http://localhost\r\n", "200"),
        ("host: 127.0.0.1:8082\r\nsec-fetch-site: same-origin\r\n", "200"),
        ("host: [::1]:8082\r\n", "200"),
    ] {
        let response = request(address, "/debug/informer/v1/snapshot", headers).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{headers}{response}");
    }
    running.stop().await;
}

#[tokio::test]
async fn data_needs_permission_and_page_does_not() {
    let reviewer = Client::from_service(ApiServer::builder().build().service(), "default");
    let running = running(here().authorized_by(reviewer).plain_http(), 0).await;
    for data in [
        "snapshot",
        "events",
        "history?key=a",
        "objects?informer=a",
        "object?informer=a&key=b",
        "actions/relist",
    ] {
        let response = running.get(&format!("/debug/informer/v1/{data}")).await;
        assert!(response.starts_with("HTTP/1.1 401"), "{data}: {response}");
    }
    assert!(running.get("/debug/informer/").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

#[tokio::test]
async fn streams_are_limited_and_end_with_the_server() {
    let running = running(here(), 0).await;
    let mut streams = Vec::new();
    for _ in 0..super::MAX_LISTENERS {
        let mut stream = TcpStream::connect(running.address).await.expect("the server listens");
        let request = "GET /debug/informer/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.expect("a response");
        assert_eq!(&first, b"HTTP/1.1 200");
        streams.push(stream);
    }
    assert!(running.get("/debug/informer/v1/events").await.starts_with("HTTP/1.1 503"));
    tokio::time::timeout(Duration::from_secs(5), running.stop()).await.expect("open streams do not delay it");
    for mut stream in streams {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("the end of the stream");
    }
}

/// Asserts that a public type has all fields of the rendered data, and no others.
fn same<T: serde::Serialize + serde::de::DeserializeOwned>(page: &Value) {
    let typed: T = serde_json::from_value(page.clone()).expect("the type of the data");
    let typed = serde_json::to_value(typed).expect("JSON");
    assert_eq!(sorted_fields(&typed), sorted_fields(page));
}

/// Returns the paths of all fields.
fn sorted_fields(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect_fields(value, "", &mut paths);
    paths.sort();
    paths
}

fn collect_fields(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_fields(value, &format!("{path}.{name}"), paths);
            }
        }
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                collect_fields(value, &format!("{path}[{at}]"), paths);
            }
        }
        // Only reconciles of all controllers name their controller.
        Value::String(name) if name.is_empty() && path.ends_with(".controller") => {}
        other => paths.push(format!("{path} = {other}")),
    }
}

#[tokio::test]
async fn public_types_have_the_fields_of_the_data() {
    let running = running(here(), 2).await;
    let mut events = running.data.events();
    let event = events.next_page();
    assert!(event["reconciles"].as_array().is_some_and(|reconciles| !reconciles.is_empty()), "{event}");
    same::<super::ConsoleEvent>(&event);
    same::<super::KeyHistory>(&running.json("/debug/informer/v1/history?key=default%2Fs").await);
    assert_eq!(running.data.snapshot().informers.len(), 1);
    running.stop().await;
}

#[test]
fn latency_quantile_is_the_bound_of_its_bucket() {
    let latency = [(Some(0.001), 90), (Some(0.03), 9), (None, 1)];
    let latency = latency.map(|(bound, calls)| json!({"upToSeconds": bound, "calls": calls}));
    let handler: super::HandlerSnapshot =
        serde_json::from_value(json!({"latency": latency})).expect("a handler");
    let quantiles = [0.0, 0.5, 0.9, 0.91, 0.99, 1.0].map(|quantile| handler.latency_quantile(quantile));
    let (short, long, none) = (Some(0.001), Some(0.03), Some(f64::INFINITY));
    assert_eq!(quantiles, [short, short, short, long, long, none]);
    assert_eq!(super::HandlerSnapshot::default().latency_quantile(0.5), None);
}

#[tokio::test]
async fn event_counts_the_reconciles_that_are_dropped_beyond_the_limit() {
    const MORE: usize = 700;
    let running = running(here(), 2).await;
    running.succeeded(1).await;
    let mut events = running.data.events();
    assert_eq!(events.next_event().dropped, 0, "a reader does not miss what ended before its first event");
    for number in 0..MORE {
        running.trigger.enqueue(format!("default/{number}").parse::<crate::Request>().expect("a key"));
    }
    running.reconciled(MORE + 2).await;
    running.succeeded(MORE + 1).await;
    let event = events.next_event();
    assert_eq!((event.reconciles.len(), event.dropped), (500, MORE as u64 - 500));
    assert_eq!(events.next_event().dropped, 0);
    running.stop().await;
}
