//! Tests of fault injection, with rules that are set in code or read from a file.

use http_body_util::BodyExt;
use informer_apiserver::{ApiServer, FaultAction, FaultFile, FaultMatch, Verb};
use informer_core::Gvr;
use serde_json::json;

use crate::support::{Watch, call, json, send, send_with};

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    for name in ["a", "b", "c"] {
        let spec = json!({"containers": [{"name": "main", "image": "main"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        server.create(&Gvr::new("", "v1", "pods"), "n", pod).unwrap();
    }
    server
}

const INITIAL: &str = "/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=1";

#[tokio::test(start_paused = true)]
async fn the_first_watch_expires_and_the_second_does_not() {
    let server = server();
    let fault = server.faults().on(FaultMatch::watch("pods")).nth(1).expire();
    let first = Watch::open(&server, INITIAL).await.rest().await;
    let second = Watch::open(&server, INITIAL).await.rest().await;
    assert_eq!((first, second.len()), (vec!["ERROR ".to_owned()], 4));
    assert_eq!((fault.matched(), fault.fired()), (2, 1));
    assert_eq!(server.count_requests(Verb::Watch, "pods"), 2);
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_file_apply_to_matching_requests() {
    let server = server();
    let file = FaultFile::parse(
        "
- match: {verb: list, resource: pods, client: informer}
  when: {times: 1}
  action: {status: {code: 429, retryAfter: 7}}
- match: {verb: watch}
  action: {cut: {afterEvents: 2}}
- match: {verb: get}
  action: {status: {code: 500, body: boom}}
",
    )
    .unwrap();
    server.faults().add_all(file);
    let agent = [("user-agent", "informer/1")];
    let response = send_with(&server, "GET", "/api/v1/pods", &agent, "").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"7".parse().unwrap())
    );
    assert_eq!(send_with(&server, "GET", "/api/v1/pods", &agent, "").await.status(), 200);
    assert_eq!(send(&server, "GET", "/api/v1/pods", "").await.status(), 200);
    assert_eq!(Watch::open(&server, INITIAL).await.rest().await, ["ADDED a", "ADDED b"]);
    assert_eq!(call(&server, "GET", "/api/v1/namespaces/n/pods/a", "").await, (500, "boom".to_owned()));
    assert!(FaultFile::parse("- action: {explode: {}}").is_err());
    assert!(FaultFile::parse("{").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_stream_can_be_cut_reset_and_corrupted() {
    let server = server();
    let pods = || FaultMatch::watch("pods");
    for (action, expected) in [
        (FaultAction::NoInitialEnd, "ADDED ADDED ADDED "),
        (FaultAction::Garbage { after_events: 1 }, "ADDED {{{ ADDED ADDED BOOKMARK "),
        (FaultAction::UnknownEvent { after_events: 3 }, "ADDED ADDED ADDED EXPLODED BOOKMARK "),
        (FaultAction::Expire { after_events: 2 }, "ADDED ADDED ERROR "),
        (FaultAction::HalfFrame { after_events: 1 }, "ADDED half "),
        (FaultAction::IgnoreInitialEvents, ""),
    ] {
        server.faults().clear();
        server.faults().on(pods()).then(action.clone());
        let (_, body) = call(&server, "GET", INITIAL, "").await;
        let mut seen = String::new();
        for line in body.split_inclusive('\n') {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
            match parsed {
                Ok(event) => seen.push_str(event["type"].as_str().unwrap()),
                Err(_) if line.ends_with('\n') => seen.push_str("{{{"),
                Err(_) => seen.push_str("half"),
            }
            seen.push(' ');
        }
        assert_eq!(seen, expected, "{action:?}");
    }
    server.faults().clear();
    server.faults().on(pods()).then(FaultAction::Cut {
        after_events: Some(1),
        after_bytes: None,
        abrupt: true,
    });
    assert!(send(&server, "GET", INITIAL, "").await.into_body().collect().await.is_err());
    server.faults().clear();
    server.faults().on(pods()).stall_after(1);
    let mut watch = Watch::open(&server, INITIAL).await;
    assert_eq!(watch.brief().await.unwrap(), "ADDED a");
    let hour = std::time::Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, watch.line()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropped_bookmarks_do_not_include_the_end_of_the_initial_events() {
    let server = server();
    server.faults().on(FaultMatch::watch("pods")).then(FaultAction::DropBookmarks);
    let path = "/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=200";
    assert_eq!(Watch::open(&server, path).await.rest().await, ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK "]);
}

#[tokio::test(start_paused = true)]
async fn requests_are_delayed_rejected_or_get_no_response() {
    let server = server();
    let faults = server.faults();
    faults.on(FaultMatch::list("pods")).nth(1).then(FaultAction::Delay { millis: 1_500 });
    faults.on(FaultMatch::list("pods")).nth(2).then(FaultAction::TooLarge);
    faults.on(FaultMatch::list("pods")).nth(3).then(FaultAction::NeverAnswer);
    faults.on(FaultMatch::list("pods")).nth(4).expire();
    faults.on(FaultMatch::watch("pods")).then(FaultAction::RejectInitialEvents);
    let began = tokio::time::Instant::now();
    assert_eq!(call(&server, "GET", "/api/v1/pods", "").await.0, 200);
    assert_eq!(began.elapsed().as_millis(), 1_500);
    let (status, error) = json(&server, "GET", "/api/v1/pods", "").await;
    assert_eq!((status, &error["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
    let hour = std::time::Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, call(&server, "GET", "/api/v1/pods", "")).await.is_err());
    assert_eq!(call(&server, "GET", "/api/v1/pods", "").await.0, 410);
    let streaming = "/api/v1/pods?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan";
    assert_eq!(call(&server, "GET", streaming, "").await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn a_rewound_read_returns_an_old_state_and_a_rewound_watch_repeats_events() {
    let server = server();
    server.faults().on(FaultMatch::default()).then(FaultAction::Rewind { by: 1 });
    let (_, list) = json(&server, "GET", "/api/v1/pods", "").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(list["metadata"]["resourceVersion"], (server.version() - 1).to_string());
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion={}", server.version());
    assert_eq!(Watch::open(&server, &path).await.rest().await, ["ADDED c"]);
    assert_eq!(call(&server, "GET", "/api/v1/namespaces/n/pods/c", "").await.0, 404);
}

#[tokio::test]
async fn random_faults_depend_only_on_the_seed() {
    let draw = |seed| async move {
        let server = server();
        server.faults().on(FaultMatch::list("pods")).probability(0.5, seed).status(500);
        let mut pattern = String::new();
        for _ in 0..32 {
            pattern.push(if call(&server, "GET", "/api/v1/pods", "").await.0 == 500 { 'x' } else { '.' });
        }
        pattern
    };
    let first = draw(7).await;
    assert_eq!(first, draw(7).await);
    assert_ne!(first, draw(8).await);
}
