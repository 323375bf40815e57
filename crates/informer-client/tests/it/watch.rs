use futures_util::StreamExt as _;
use informer_cache::source::{SourceErrorKind, WatchRequest};
use informer_client::{KubeListWatch, Lazy, StreamingLists, WatchChanges};
use k8s_openapi::api::core::v1::Pod;

use crate::script::{Reply, script, watch, watch_from};

fn event(event_type: &str, name: &str, version: &str) -> String {
    format!(
        r#"{{"type":"{event_type}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}"#
    )
}

async fn watched(reply: Reply) -> (Vec<String>, Result<(), (SourceErrorKind, String)>) {
    let (client, _) = script([reply]);
    let (seen, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("5")).await;
    (seen, end.map_err(|error| (error.kind(), error.to_string())))
}

#[tokio::test(start_paused = true)]
async fn watch_query_contains_version_timeout_and_initial_events() {
    let (client, requests) = script([Reply::ok(""), Reply::ok("")]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).namespace("a");
    assert!(watch(&source, watch_from("5")).await.1.is_ok());
    let streaming = WatchRequest { send_initial_events: true, ..watch_from("") };
    assert!(watch(&source, streaming).await.1.is_ok());
    let path = "/api/v1/namespaces/a/pods?allowWatchBookmarks=true";
    assert_eq!(
        requests.uris(),
        [
            format!("{path}&resourceVersion=5&timeoutSeconds=300&watch=true"),
            format!(
                "{path}&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true"
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn every_watch_event_type_is_delivered() {
    let end = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let bookmark = r#"{"object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"},"resourceVersion":"10","name":""}},"type":"BOOKMARK"}"#;
    let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version: 5 (30)","reason":"Expired","code":410}}"#;
    // JSON events of a watch may be separated by a newline or not at all.
    let body = [event("ADDED", "x", "6"), event("MODIFIED", "x", "7")].join("\n");
    let rest =
        [event("DELETED", "x", "8"), event("MOVED", "x", "9"), end.into(), bookmark.into(), error.into()]
            .concat();
    let (seen, ended) = watched(Reply::ok(body).data(rest)).await;
    ended.unwrap();
    assert_eq!(
        seen[..6],
        [
            "Added(x @6)",
            "Modified(x @7)",
            "Deleted(x @8)",
            "Unknown(\"MOVED\" @9)",
            "Bookmark(@9, initial events end)",
            "Bookmark(@10)"
        ]
    );
    assert!(seen[6].starts_with("Error(ServerStatus { code: 410, reason: \"Expired\""), "{}", seen[6]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_watch_object_is_reported_with_its_version() {
    let nameless = r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"6"}}}"#;
    let number = r#"{"type":"DELETED","object":{"metadata":{"name":"x","resourceVersion":7}}}"#;
    let (seen, ended) = watched(Reply::ok([nameless, number, &event("ADDED", "y", "8")].concat())).await;
    ended.unwrap();
    assert_eq!(
        seen,
        [
            "Undecodable(Undecodable { key: None, version: 6, error: metadata.name: missing })",
            "DeletedUndecodable(Undecodable { key: Some(x), version: (unset), error: metadata.resourceVersion: is not a string but a number })",
            "Added(y @8)",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn truncated_watch_event_is_a_connection_error() {
    let (seen, ended) = watched(Reply::ok(event("ADDED", "x", "6")).data("{\"type\":\"ADD")).await;
    assert_eq!(seen, ["Added(x @6)"]);
    assert_eq!(
        ended,
        Err((SourceErrorKind::Connection, "watch pods: the response ended within an event".into()))
    );
    let (_, ended) = watched(Reply::ok(event("ADDED", "x", "6")).break_off()).await;
    assert_eq!(ended, Err((SourceErrorKind::Connection, "watch pods: the response was cut off".into())));
}

#[tokio::test(start_paused = true)]
async fn events_before_invalid_data_are_delivered_and_invalid_data_ends_the_watch() {
    let bad = [
        ("garbage", "not JSON: expected an event at byte 104, found 'g'"),
        ("{\"type\":\"ADDED\"}", "an event has no object"),
        ("{\"object\":{}}", "an event has no type"),
        ("{\"type\":7,\"object\":{}}", "an event is not JSON: expected a string at byte 8"),
        (
            "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}",
            "the bookmark that ends the initial events has no resourceVersion",
        ),
        (
            "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"}}}",
            "the object of an event is Node of v1; check group and kind",
        ),
    ];
    for (text, problem) in bad {
        let (seen, ended) = watched(Reply::ok(event("ADDED", "x", "6") + text)).await;
        assert_eq!(seen, ["Added(x @6)"]);
        assert_eq!(ended, Err((SourceErrorKind::Protocol, format!("watch pods: {problem}"))));
    }
}

#[tokio::test(start_paused = true)]
async fn error_event_with_an_unreadable_status_is_reported_as_such() {
    let (seen, _) = watched(Reply::ok(r#"{"type":"ERROR","object":{"code":"many"}}"#.to_owned())).await;
    assert_eq!(seen.len(), 1);
    assert!(seen[0].contains("an unreadable status"), "{}", seen[0]);
}

#[tokio::test(start_paused = true)]
async fn bookmark_without_version_does_not_end_the_watch() {
    let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{}}";
    let (seen, ended) = watched(Reply::ok(bookmark.to_owned() + &event("ADDED", "x", "6"))).await;
    assert_eq!(seen, ["Bookmark(@)", "Added(x @6)"]);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn silent_watch_ends_after_its_timeout() {
    let before = tokio::time::Instant::now();
    let (seen, ended) = watched(Reply::ok(event("ADDED", "x", "6")).stall()).await;
    assert_eq!(seen, ["Added(x @6)"]);
    assert_eq!(ended, Err((SourceErrorKind::Timeout, "watch pods: the watch was silent for 330s".into())));
    assert_eq!(before.elapsed().as_secs(), 330);
}

fn pod_list(name: &str, version: &str) -> Reply {
    Reply::ok(format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}"}},"items":[{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}]}}"#
    ))
}

fn bookmark(version: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}}}"#
    )
}

const EXPIRED: &str = r#"{"kind":"Status","status":"Failure","message":"too old resource version: 9 (30)","reason":"Expired","code":410}"#;

#[tokio::test(start_paused = true)]
async fn stream_of_changes_resumes_from_the_last_bookmark_and_lists_again_after_410() {
    let events =
        [event("ADDED", "y", "6"), event("MODIFIED", "y", "7"), event("DELETED", "x", "8"), bookmark("9")];
    let (client, requests) = script([
        pod_list("x", "5"),
        Reply::ok(events.concat()).break_off(),
        Reply::ok(event("ADDED", "z", "10")),
        Reply::status(410).header("content-type", "application/json").data(EXPIRED),
        pod_list("y", "30"),
        Reply::ok("").stall(),
    ]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).streaming_lists(StreamingLists::Off);
    let mut changes = WatchChanges::new(source);
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.push(format!("{:?}", changes.next().await.unwrap()));
    }
    let list = "Replaced(Replacement { items: 1, undecodable: 0, version: ";
    assert!(seen[0].starts_with(&format!("{list}5")), "{}", seen[0]);
    assert_eq!(seen[1..3], ["Added(y @6)", "Updated(y @7)"]);
    assert!(seen[3].starts_with("Deleted(") && seen[3].contains('x'), "{}", seen[3]);
    assert_eq!(seen[4..6], ["Bookmark(@9)", "Added(z @10)"]);
    assert!(seen[6].starts_with(&format!("{list}30")), "{}", seen[6]);
    let versions = |uri: &String| {
        uri.split(['?', '&']).find(|part| part.starts_with("resourceVersion=")).unwrap_or("none").to_owned()
    };
    let watches: Vec<_> =
        requests.uris().iter().filter(|uri| uri.contains("watch=true")).map(versions).collect();
    assert_eq!(watches[..3], ["resourceVersion=5", "resourceVersion=9", "resourceVersion=10"]);
    assert_eq!(changes.status().last_version, "30");
}

#[tokio::test(start_paused = true)]
async fn stream_of_changes_sends_requests_only_while_it_is_polled() {
    let (client, requests) = script([pod_list("x", "5"), Reply::ok(bookmark("6")).stall()]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).streaming_lists(StreamingLists::Off);
    let mut changes = WatchChanges::new(source);
    assert!(requests.uris().is_empty());
    assert!(changes.next().await.is_some());
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(requests.uris().len(), 1, "the list was read, and the stream was not polled again");
    assert_eq!(format!("{:?}", changes.next().await.unwrap()), "Bookmark(@6)");
}
