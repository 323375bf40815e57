//! The server's clock, advanced by the test or by the runtime.

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{ApiServer, Clock, ManualClock, User};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{Watch, json as ask, send_with};

fn events() -> Gvr {
    Gvr::new("", "v1", "events")
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "reason": "Started", "involvedObject": {"namespace": "default"}})
}

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test(start_paused = true)]
async fn an_event_expires_an_hour_after_its_last_write_and_watches_are_notified() {
    let server = ApiServer::builder().build();
    server.create(&events(), "default", event("once")).unwrap();
    server.create(&events(), "default", event("again")).unwrap();
    let mut watch = Watch::open(
        &server,
        &format!(
            "/apis/events.k8s.io/v1/events?watch=1&timeoutSeconds=7200&resourceVersion={}",
            server.version()
        ),
    )
    .await;
    tokio::time::sleep(HOUR / 2).await;
    let mut later = event("again");
    later["count"] = 2.into();
    server.update(&events(), "default", later).unwrap();
    assert_eq!(watch.brief().await.unwrap(), "MODIFIED again");
    assert_eq!(watch.brief().await.unwrap(), "DELETED once", "the event expires without another request");
    tokio::time::sleep(HOUR / 4).await;
    assert_eq!(server.list(&events(), "default").unwrap().len(), 1);
    tokio::time::sleep(HOUR / 2).await;
    let (_, list) = ask(&server, "GET", "/api/v1/events", "").await;
    assert_eq!(list["items"], json!([]), "a request does not return expired events");
}

#[tokio::test]
async fn a_manual_clock_drives_events_watches_and_bookmarks() {
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let server = ApiServer::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>).build();
    server.create(&events(), "default", event("once")).unwrap();
    let mut watch = Watch::open(
        &server,
        "/api/v1/namespaces/default/events?watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=7200",
    )
    .await;
    assert_eq!(watch.brief().await.unwrap(), "ADDED once");
    assert_eq!(watch.event().await.unwrap().0, "BOOKMARK", "the bookmark of the initial state");
    server.advance(Duration::from_secs(61));
    assert_eq!(watch.event().await.unwrap().0, "BOOKMARK");
    server.advance(HOUR);
    assert_eq!(watch.brief().await.unwrap(), "DELETED once");
    let made = server.create(&events(), "default", event("late")).unwrap();
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-01T01:01:01Z");
    server.advance(2 * HOUR);
    let rest = watch.rest().await;
    assert!(rest.contains(&"ADDED late".to_owned()), "then the watch reached its timeout: {rest:?}");
}

#[tokio::test]
async fn the_real_clock_can_be_moved_ahead() {
    let server = ApiServer::builder().event_ttl(2 * HOUR).build();
    server.create(&events(), "default", event("once")).unwrap();
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=1&resourceVersion=0&timeoutSeconds=1800").await;
    server.advance(HOUR);
    assert_eq!(watch.brief().await, None, "the watch reached its timeout without waiting");
    assert_eq!(server.list(&events(), "default").unwrap().len(), 1, "the TTL of two hours has not expired");
    server.advance(HOUR);
    assert_eq!(server.list(&events(), "default").unwrap().len(), 0);
}

#[tokio::test]
async fn events_without_a_ttl_do_not_expire() {
    let server = ApiServer::builder().event_ttl(Duration::MAX).build();
    server.create(&events(), "default", event("once")).unwrap();
    server.advance(1000 * HOUR);
    assert_eq!(server.list(&events(), "default").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_rejected() {
    let mut tokens = informer_apiserver::Tokens::default();
    tokens.add("root", User::new("root").groups(["system:masters"]));
    let server = ApiServer::builder().tokens(tokens).build();
    let root = ("authorization", "Bearer root");
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "robot"}}).to_string();
    assert_eq!(send_with(&server, "POST", path, &[root], &account).await.status(), 201);
    let response = send_with(
        &server,
        "POST",
        &format!("{path}/robot/token"),
        &[root],
        &json!({"spec": {"expirationSeconds": 600}}).to_string(),
    )
    .await;
    let (_, text) = crate::support::read(response).await;
    let token: Value = serde_json::from_str(&text).unwrap();
    let bearer = format!("Bearer {}", token["status"]["token"].as_str().unwrap());
    let robot = ("authorization", bearer.as_str());
    assert_eq!(send_with(&server, "GET", path, &[robot], "").await.status(), 200);
    server.advance(Duration::from_secs(599));
    assert_eq!(send_with(&server, "GET", path, &[robot], "").await.status(), 200);
    server.advance(Duration::from_secs(2));
    assert_eq!(send_with(&server, "GET", path, &[robot], "").await.status(), 401);
}

#[tokio::test]
async fn creation_timestamps_are_never_in_the_future() {
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00.999999Z".parse().unwrap()));
    let server = ApiServer::builder().clock(clock).build();
    let made =
        server.create(&Gvr::new("", "v1", "configmaps"), "n", json!({"metadata": {"name": "a"}})).unwrap();
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
}
