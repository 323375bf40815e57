//! Fault injection: faults of overloaded, older or incorrect servers in watches, in lists, and after a
//! committed write.

use std::time::Duration;

use http_body_util::BodyExt;
use informer_apiserver::{ApiServer, FaultAction, FaultFile, FaultMatch, Verb};
use informer_core::Gvr;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Watch, call, json, send};

const INITIAL: &str = "/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=1";

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

fn put(server: &ApiServer, name: &str) {
    let spec = json!({"containers": [{"name": "main", "image": "main"}]});
    server.create(&pods(), "n", json!({"metadata": {"name": name}, "spec": spec})).unwrap();
}

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    ["a", "b", "c"].iter().for_each(|name| put(&server, name));
    server
}

fn spoiled(action: FaultAction) -> ApiServer {
    let server = server();
    server.faults().on(FaultMatch::watch("pods")).then(action);
    server
}

#[tokio::test(start_paused = true)]
async fn events_are_skipped_repeated_swapped_or_inserted() {
    let made = |after_events, r#type: &str, object: Value| FaultAction::Event {
        after_events,
        r#type: r#type.to_owned(),
        object,
    };
    for (action, expected) in [
        (FaultAction::SkipEvent { after_events: 1 }, "ADDED a, ADDED c, BOOKMARK "),
        (FaultAction::RepeatEvent { after_events: 1 }, "ADDED a, ADDED b, ADDED b, ADDED c, BOOKMARK "),
        (FaultAction::SwapEvents { after_events: 1 }, "ADDED a, ADDED c, ADDED b, BOOKMARK "),
        (FaultAction::SwapEvents { after_events: 2 }, "ADDED a, ADDED b, BOOKMARK , ADDED c"),
        (FaultAction::RepeatBookmarks, "ADDED a, ADDED b, ADDED c, BOOKMARK , BOOKMARK "),
        (
            made(1, "MODIFIED", json!({"metadata": {"name": "x"}})),
            "ADDED a, MODIFIED x, ADDED b, ADDED c, BOOKMARK ",
        ),
        (made(3, "DELETED", Value::Null), "ADDED a, ADDED b, ADDED c, DELETED , BOOKMARK "),
        (made(1, "ERROR", json!({"kind": "Status", "message": "no code"})), "ADDED a, ERROR "),
    ] {
        let server = spoiled(action.clone());
        assert_eq!(Watch::open(&server, INITIAL).await.rest().await.join(", "), expected, "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_can_be_added_to_an_open_watch() {
    let server = server();
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=60&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    put(&server, "d");
    assert_eq!(watch.brief().await.unwrap(), "ADDED d");
    let skipped =
        server.faults().on(FaultMatch::watch("pods")).then(FaultAction::SkipEvent { after_events: 1 });
    let failed = server.faults().on(FaultMatch::watch("pods")).error_after(2, 500);
    ["e", "f", "g", "h"].iter().for_each(|name| put(&server, name));
    assert_eq!(watch.rest().await, ["ADDED e", "ADDED g", "ERROR "]);
    assert_eq!((skipped.fired(), failed.fired()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_new_fault_wakes_the_reader_of_an_idle_watch() {
    let server = server();
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=60&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let reader = tokio::spawn(async move { watch.rest().await });
    // The runtime's paused time advances only while all tasks wait, so the reader waits for an event after
    // this sleep.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    let failed = server.faults().on(FaultMatch::watch("pods")).error_after(0, 500);
    assert_eq!(reader.await.unwrap(), ["ERROR "]);
    assert_eq!((began.elapsed(), failed.fired()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_error_has_the_message_of_its_code_or_of_the_fault() {
    let odd = FaultAction::ErrorEvent {
        after_events: 0,
        code: 410,
        reason: Some("Gone".to_owned()),
        message: Some("compacted".to_owned()),
        retry_after: Some(3),
    };
    let (_, text) = call(&spoiled(odd), "GET", INITIAL, "").await;
    let event: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "compacted", "reason": "Gone", "details": {"retryAfterSeconds": 3}, "code": 410});
    assert_eq!(event, json!({"type": "ERROR", "object": expected}));
    let server = server();
    server.faults().on(FaultMatch::watch("pods")).error_after(0, 429);
    let (_, text) = call(&server, "GET", INITIAL, "").await;
    assert!(
        text.contains("\"message\":\"storage is (re)initializing\",\"reason\":\"TooManyRequests\""),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_an_older_version_keep_their_annotation() {
    let server = spoiled(FaultAction::OldBookmarks { by: 2 });
    let mut watch = Watch::open(&server, INITIAL).await;
    for _ in 0..3 {
        watch.line().await.unwrap();
    }
    let line = watch.line().await.unwrap();
    let version = format!("\"resourceVersion\":\"{}\"", server.version() - 2);
    assert!(line.contains(&version) && line.contains("initial-events-end"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_shuffled_by_their_seed() {
    let mut orders = Vec::new();
    for seed in 0..16 {
        let order = Watch::open(&spoiled(FaultAction::ShuffleInitial { seed }), INITIAL).await.rest().await;
        let again = Watch::open(&spoiled(FaultAction::ShuffleInitial { seed }), INITIAL).await.rest().await;
        assert_eq!(order, again);
        assert_eq!(order.last().unwrap(), "BOOKMARK ");
        orders.push(order);
    }
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 1, "sixteen seeds produced the same order");
    for order in &mut orders {
        order.sort();
        assert_eq!(*order, ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK "]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_delivers_events_later_than_reads_show_them() {
    let server = server();
    server.faults().on(FaultMatch::watch("pods")).then(FaultAction::Lag { millis: 5_000 });
    let path = format!("/api/v1/pods?watch=1&timeoutSeconds=60&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let began = Instant::now();
    let reader = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some(event) = watch.brief().await {
            told.push((began.elapsed().as_secs(), event));
        }
        told
    });
    put(&server, "d");
    assert_eq!(call(&server, "GET", "/api/v1/namespaces/n/pods/d", "").await.0, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    put(&server, "e");
    assert_eq!(reader.await.unwrap(), [(5, "ADDED d".to_owned()), (6, "ADDED e".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_lifetime_ends_cleanly_before_its_timeout() {
    let server = spoiled(FaultAction::Lifetime { millis: 30_000 });
    let began = Instant::now();
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=1&timeoutSeconds=3600").await;
    assert_eq!(watch.rest().await.len(), 3);
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_body_sent_in_small_pieces_is_unchanged() {
    let server = server();
    let (_, plain) = call(&server, "GET", "/api/v1/pods", "").await;
    server.faults().on(FaultMatch::list("pods")).then(FaultAction::Trickle { bytes: 10, millis: 1_000 });
    let began = Instant::now();
    let (_, slow) = call(&server, "GET", "/api/v1/pods", "").await;
    assert_eq!(slow, plain);
    assert_eq!(began.elapsed().as_secs(), plain.len().div_ceil(10) as u64);
}

#[tokio::test(start_paused = true)]
async fn a_committed_write_can_return_an_error_a_late_response_or_none() {
    let server = server();
    let creates = || FaultMatch::verb(Verb::Create);
    let late = FaultAction::LateAnswer { millis: 2_000 };
    let denied = FaultAction::FalseStatus { code: 503, reason: None, message: None, retry_after: Some(1) };
    server.faults().on(creates()).nth(1).then(denied);
    server.faults().on(creates()).nth(2).then(late);
    server.faults().on(creates()).nth(3).lose_answer();
    let create = async |name: &str| {
        send(
            &server,
            "POST",
            "/api/v1/namespaces/n/configmaps",
            &json!({"metadata": {"name": name}}).to_string(),
        )
        .await
    };
    let exists = async |name: &str| {
        call(&server, "GET", &format!("/api/v1/namespaces/n/configmaps/{name}"), "").await.0 == 200
    };

    let response = create("denied").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    assert!(exists("denied").await);

    let began = Instant::now();
    let (response, there) = tokio::join!(create("late"), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        exists("late").await
    });
    assert_eq!((response.status().as_u16(), there, began.elapsed().as_secs()), (201, true, 2));

    let lost = create("lost").await;
    assert!(lost.into_body().collect().await.is_err());
    assert!(exists("lost").await);
}

#[tokio::test]
async fn pages_can_be_short_empty_or_unlimited_without_losing_items() {
    let server = server();
    let lists = || server.faults().on(FaultMatch::list("pods"));
    let short = lists().then(FaultAction::ShortPage { items: 1 });
    assert_eq!(pages(&server).await, ["a", "b", "c"]);
    short.remove();
    let empty = lists().when(informer_apiserver::FaultWhen { to: Some(1), ..Default::default() });
    let first = empty.then(FaultAction::ShortPage { items: 0 });
    assert_eq!(pages(&server).await, ["", "a b", "c"]);
    first.remove();
    let second = lists().nth(2).then(FaultAction::ShortPage { items: 0 });
    assert_eq!(pages(&server).await, ["a b", "", "c"]);
    second.remove();
    let boundless = lists().then(FaultAction::IgnoreLimit);
    assert_eq!(pages(&server).await, ["a b c"]);
    boundless.remove();
    for (count, told) in [(Some(99), json!(99)), (None, Value::Null)] {
        let wrong = lists().then(FaultAction::RemainingItems { count });
        let (_, page) = json(&server, "GET", "/api/v1/pods?limit=2", "").await;
        assert_eq!(page["metadata"]["remainingItemCount"], told);
        wrong.remove();
    }
}

/// Returns the names on each page of a list with a limit of two.
async fn pages(server: &ApiServer) -> Vec<String> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let (status, page) = json(server, "GET", &format!("/api/v1/pods?limit=2&continue={token}"), "").await;
        assert_eq!(status, 200, "{page}");
        let names =
            page["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap());
        pages.push(names.collect::<Vec<_>>().join(" "));
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn faults_match_non_resource_requests_by_path() {
    let server = server();
    server.faults().on(FaultMatch::path("/openapi/v3")).status(404);
    server.faults().on(FaultMatch::path("/apis/apps")).status(503);
    assert_eq!(call(&server, "GET", "/openapi/v3", "").await.0, 404);
    assert_eq!(call(&server, "GET", "/apis/apps/v1", "").await.0, 503);
    assert_eq!(call(&server, "GET", "/apis/batch/v1", "").await.0, 200);
}

#[test]
fn every_fault_of_the_api_can_be_written_in_a_file() {
    let text = "
- {match: {path: /apis}, action: {status: {code: 503}}}
- {action: {errorEvent: {code: 500}}}
- {action: {event: {afterEvents: 1, type: ADDED, object: {kind: Secret}}}}
- {action: {skipEvent: {}}}
- {action: {repeatEvent: {afterEvents: 2}}}
- {action: {swapEvents: {}}}
- {action: repeatBookmarks}
- {action: {oldBookmarks: {by: 3}}}
- {action: {shuffleInitial: {seed: 4}}}
- {action: {lag: {millis: 5}}}
- {action: {lifetime: {millis: 6}}}
- {action: {trickle: {bytes: 1, millis: 7}}}
- {action: {falseStatus: {code: 500}}}
- {action: lostAnswer}
- {action: {lateAnswer: {millis: 8}}}
- {action: goAway}
- {action: {shortPage: {items: 0}}}
- {action: ignoreLimit}
- {action: {remainingItems: {}}}
";
    let file = FaultFile::parse(text).unwrap();
    assert_eq!(file.faults.len(), 19);
    let written = serde_json::to_string(&file).unwrap();
    assert_eq!(FaultFile::parse(&written).unwrap(), file);
}
