use std::time::Duration;

use http_body_util::BodyExt;
use informer_apiserver::{ApiServer, History, Lagging};
use informer_core::Gvr;
use serde_json::json;

use crate::support::{Watch, call, json, send};

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn put(server: &ApiServer, name: &str, app: &str) {
    let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
    match server.get(&maps(), "n", name) {
        Ok(_) => server.update(&maps(), "n", object).unwrap(),
        Err(_) => server.create(&maps(), "n", object).unwrap(),
    };
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark_and_continues_as_a_watch() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    put(&server, "b", "1");
    put(&server, "a", "2");
    let query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::open(&server, &format!("/api/v1/configmaps?{query}")).await;
    let version = server.version();
    assert_eq!(watch.event().await.unwrap(), ("ADDED".into(), "a".into(), version.to_string()));
    assert_eq!(watch.event().await.unwrap(), ("ADDED".into(), "b".into(), (version - 1).to_string()));
    assert_eq!(
        watch.line().await.unwrap(),
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        )
    );
    server.delete(&maps(), "n", "b").unwrap();
    assert_eq!(watch.event().await.unwrap(), ("DELETED".into(), "b".into(), (version + 1).to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_starts_with_all_objects() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    let mut plain = Watch::open(&server, "/api/v1/configmaps?watch=1&timeoutSeconds=5").await;
    assert_eq!(plain.rest().await, ["ADDED a"]);
    let mut marked = Watch::open(
        &server,
        "/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion=0&allowWatchBookmarks=1",
    )
    .await;
    // The server sends the last bookmark two seconds before the timeout of the watch.
    assert_eq!(marked.rest().await, ["ADDED a", "BOOKMARK ", "BOOKMARK "]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_each_minute_and_before_the_timeout() {
    let server = ApiServer::builder().build();
    let version = server.version();
    let path =
        format!("/api/v1/pods?watch=1&resourceVersion={version}&allowWatchBookmarks=1&timeoutSeconds=130");
    let mut watch = Watch::open(&server, &path).await;
    let began = tokio::time::Instant::now();
    let mut times = Vec::new();
    while let Some(line) = watch.line().await {
        assert!(line.starts_with("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\""), "{line}");
        assert!(
            line.contains("\"spec\":{\"containers\":null},\"status\":{}") && !line.contains("annotations")
        );
        times.push(began.elapsed().as_secs());
    }
    assert_eq!((times, began.elapsed().as_secs()), (vec![60, 120, 128], 130));
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selector() {
    let server = ApiServer::builder().build();
    let version = server.version();
    let path = format!(
        "/api/v1/configmaps?watch=1&resourceVersion={version}&labelSelector=app%3Dweb&timeoutSeconds=1"
    );
    let mut watch = Watch::open(&server, &path).await;
    for app in ["db", "web", "web", "db", "web"] {
        put(&server, "a", app);
        let annotated = json!({"metadata": {"name": "a", "labels": {"app": app}, "annotations": {"x": app}}});
        server.update(&maps(), "n", annotated).unwrap();
    }
    server.delete(&maps(), "n", "a").unwrap();
    let expected = [
        "ADDED a",
        "MODIFIED a",
        "MODIFIED a",
        "MODIFIED a",
        "DELETED a",
        "ADDED a",
        "MODIFIED a",
        "DELETED a",
    ];
    assert_eq!(watch.rest().await, expected);
}

#[tokio::test(start_paused = true)]
async fn leaving_a_selector_sends_deleted_with_the_last_matching_state() {
    let server = ApiServer::builder().build();
    put(&server, "a", "web");
    let path =
        format!("/api/v1/configmaps?watch=1&resourceVersion={}&labelSelector=app%3Dweb", server.version());
    let mut watch = Watch::open(&server, &path).await;
    put(&server, "a", "db");
    let line = watch.line().await.unwrap();
    assert!(line.starts_with("{\"type\":\"DELETED\"") && line.contains("\"app\":\"web\""), "{line}");
    assert!(line.contains(&format!("\"resourceVersion\":\"{}\"", server.version())), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_older_than_the_history_gets_410_as_its_only_event() {
    let server = ApiServer::builder().history(History { events: 2, bytes: 1 << 20 }).build();
    let old = server.version();
    ["a", "b", "c"].iter().for_each(|name| put(&server, name, "1"));
    let mut watch = Watch::open(&server, &format!("/api/v1/configmaps?watch=1&resourceVersion={old}")).await;
    let floor = server.version() - 2;
    assert_eq!(
        watch.line().await.unwrap(),
        format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"too old resource version: {old} ({floor})\",\"reason\":\"Expired\",\"code\":410}}}}\n"
        )
    );
    assert_eq!(watch.line().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_version_skips_older_events() {
    let server = ApiServer::builder().build();
    let path =
        format!("/api/v1/configmaps?watch=1&resourceVersion={}&timeoutSeconds=9", server.version() + 2);
    let mut watch = Watch::open(&server, &path).await;
    ["a", "b", "c"].iter().for_each(|name| put(&server, name, "1"));
    assert_eq!(watch.rest().await, ["ADDED c"]);
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=999";
    let mut watch = Watch::open(&server, path).await;
    let line = watch.line().await.unwrap();
    assert!(
        line.contains("Timeout: Too large resource version: 999") && line.contains("\"code\":504"),
        "{line}"
    );
    assert_eq!(watch.line().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_ends_cleanly_or_with_410_as_configured() {
    for (lagging, expected) in [(Lagging::Ended, vec![]), (Lagging::Expired, vec!["ERROR "])] {
        let server =
            ApiServer::builder().history(History { events: 3, bytes: 1 << 20 }).lagging(lagging).build();
        let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", server.version());
        let mut watch = Watch::open(&server, &path).await;
        (0..10).for_each(|i| put(&server, &format!("a{i}"), "1"));
        assert_eq!(watch.rest().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn compaction_leaves_running_watches_alone_and_expires_old_versions() {
    let server = ApiServer::builder().build();
    let version = server.version();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=5");
    put(&server, "a", "1");
    let mut watch = Watch::open(&server, &path).await;
    assert_eq!(watch.brief().await.unwrap(), "ADDED a");
    server.compact();
    put(&server, "b", "1");
    assert_eq!(watch.rest().await, ["ADDED b"]);
    assert_eq!(Watch::open(&server, &path).await.rest().await, ["ERROR "]);
}

#[tokio::test(start_paused = true)]
async fn a_rewound_server_ends_its_watches_and_reuses_versions() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    let version = server.version();
    put(&server, "a", "2");
    put(&server, "b", "1");
    let mut watch =
        Watch::open(&server, &format!("/api/v1/configmaps?watch=1&resourceVersion={}", version + 2)).await;
    server.rewind(version).unwrap();
    assert_eq!(watch.rest().await, Vec::<String>::new());
    assert_eq!(server.version(), version);
    let (_, list) = json(&server, "GET", "/api/v1/configmaps", "").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["metadata"]["labels"]["app"], "1");
    put(&server, "c", "1");
    assert_eq!(server.version(), version + 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_deleted_kind_delivers_pending_events_and_ends() {
    let server = ApiServer::builder().build();
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({"metadata": {"name": "cats.a.b"}, "spec": {"group": "a.b", "scope": "Namespaced",
        "names": {"plural": "cats", "kind": "Cat"}, "versions": [version]}});
    server.create(&definitions, "", definition).unwrap();
    let cat = json!({"apiVersion": "a.b/v1", "kind": "Cat", "metadata": {"name": "x"}});
    server.create(&Gvr::new("a.b", "v1", "cats"), "n", cat).unwrap();
    let mut watch =
        Watch::open(&server, "/apis/a.b/v1/cats?watch=1&resourceVersion=0&timeoutSeconds=600").await;
    assert_eq!(watch.brief().await.unwrap(), "ADDED x");
    server.delete(&definitions, "", "cats.a.b").unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(watch.rest().await, ["DELETED x"]);
    assert!(began.elapsed() < Duration::from_secs(1), "it ended at its timeout: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn invalid_watch_options_are_rejected_before_the_stream() {
    let server = ApiServer::builder().build();
    for (query, code, text) in [
        (
            "sendInitialEvents=1",
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersion=5&resourceVersionMatch=NotOlderThan",
            422,
            "is forbidden for watch unless sendInitialEvents is provided",
        ),
        ("sendInitialEvents=1&resourceVersionMatch=Exact", 422, "supported values: \"NotOlderThan\""),
        ("timeoutSeconds=x", 400, "strconv.ParseInt"),
        ("resourceVersion=abc", 500, "resourceVersion: Invalid value: \"abc\""),
    ] {
        let (status, error) = json(&server, "GET", &format!("/api/v1/pods?watch=1&{query}"), "").await;
        let message = error["message"].as_str().unwrap();
        assert!(status == code && message.contains(text), "{query}: {status} {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_share_the_bytes_of_an_event() {
    let server = ApiServer::builder().build();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", server.version());
    let mut bodies = Vec::new();
    for _ in 0..1_000 {
        bodies.push(send(&server, "GET", &path, "").await.into_body());
    }
    put(&server, "a", "1");
    let mut pointers = std::collections::HashSet::new();
    let mut frames = Vec::new();
    for body in &mut bodies {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        pointers.insert(frame.as_ptr());
        frames.push(frame);
    }
    assert_eq!(pointers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_carry_metadata_only_and_legacy_paths_work() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    put(&server, "b", "1");
    let (_, body) =
        call(&server, "GET", "/api/v1/watch/namespaces/n/configmaps/a?timeoutSeconds=1", "").await;
    assert_eq!(body.lines().count(), 1);
    let accept = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let response =
        crate::support::send_with(&server, "GET", "/api/v1/configmaps?watch=1&timeoutSeconds=1", &accept, "")
            .await;
    let (_, body) = crate::support::read(response).await;
    let head = "{\"type\":\"ADDED\",\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":";
    assert!(body.lines().count() == 2 && body.lines().all(|line| line.starts_with(head)), "{body}");
}

#[tokio::test]
async fn a_manual_clock_drives_deadlines_without_a_paused_runtime() {
    let clock =
        std::sync::Arc::new(informer_apiserver::ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let server = ApiServer::builder().clock(clock.clone()).build();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}&timeoutSeconds=30", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let (rest, ()) = tokio::join!(watch.rest(), async {
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(30));
    });
    assert!(rest.is_empty());
    put(&server, "a", "1");
    assert_eq!(
        server.get(&maps(), "n", "a").unwrap()["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:30Z"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_with_an_initial_version_has_no_older_history() {
    let server = ApiServer::builder().first_version(1_000).build();
    let mut watch = Watch::open(&server, "/api/v1/configmaps?watch=1&resourceVersion=5").await;
    assert_eq!(watch.rest().await, ["ERROR "]);
    let (status, _) =
        json(&server, "GET", "/api/v1/pods?resourceVersion=5&resourceVersionMatch=Exact", "").await;
    assert_eq!(status, 410);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_watch_path_streams_without_indentation_or_compression() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    let headers = [("user-agent", "curl/8"), ("accept-encoding", "gzip")];
    let path = "/api/v1/watch/namespaces/n/configmaps?timeoutSeconds=1000";
    let began = tokio::time::Instant::now();
    let response = crate::support::send_with(&server, "GET", path, &headers, "").await;
    assert!(!response.headers().contains_key("content-encoding"));
    let mut body = response.into_body();
    let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(b"{\"type\":\"ADDED\""), "{event:?}");
    assert!(began.elapsed() < Duration::from_secs(1), "an event is sent immediately");
}

#[tokio::test]
async fn writes_through_legacy_watch_paths_are_rejected() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    let collection = "/api/v1/watch/namespaces/n/configmaps";
    let item = format!("{collection}/a");
    let object = r#"{"metadata":{"name":"b"}}"#;
    for (method, path) in
        [("POST", collection), ("DELETE", collection), ("DELETE", &item), ("PUT", &item), ("PATCH", &item)]
    {
        let (status, _) = call(&server, method, path, object).await;
        assert_eq!(status, 405, "{method} {path}");
    }
    assert_eq!(server.versions(&maps()).unwrap().len(), 1);
}

#[tokio::test]
async fn the_watch_parameter_is_ignored_for_single_objects() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    let headers = [("accept", "application/yaml")];
    let path = "/api/v1/namespaces/n/configmaps/a?watch=1";
    let response = crate::support::send_with(&server, "GET", path, &headers, "").await;
    assert_eq!(response.headers()["content-type"], "application/yaml");
    let (status, text) = crate::support::read(response).await;
    assert!(status == 200 && text.starts_with("apiVersion:"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn boolean_query_parameters_ignore_case() {
    let server = ApiServer::builder().build();
    put(&server, "a", "1");
    for flag in ["False", "FALSE", "false", "0"] {
        let (status, list) = json(&server, "GET", &format!("/api/v1/configmaps?watch={flag}"), "").await;
        assert_eq!((status, &list["kind"]), (200, &"ConfigMapList".into()), "{flag}");
    }
}
