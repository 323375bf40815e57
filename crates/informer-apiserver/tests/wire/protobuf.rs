//! Cached protobuf encodings: a response made of them equals the encoding of the whole JSON response.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use informer_apiserver::{ApiServer, ExtraField};
use informer_core::Gvr;
use informer_schema::Schema;
use serde_json::{Value, json};

use crate::support::{call, send_with};

const PROTOBUF: (&str, &str) = ("accept", "application/vnd.kubernetes.protobuf");

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

async fn body(server: &ApiServer, uri: &str) -> Bytes {
    let response = send_with(server, "GET", uri, &[PROTOBUF], "").await;
    assert_eq!(response.headers()["content-type"], PROTOBUF.1, "{uri}");
    response.into_body().collect().await.unwrap().to_bytes()
}

fn filled(count: usize) -> ApiServer {
    let server = ApiServer::builder().build();
    let letters = "x".repeat(1000);
    let objects = (0..count).map(|n| {
        json!({"metadata": {"namespace": "default", "name": format!("map-{n:04}"), "labels": {"half": (n % 2).to_string()}},
               "data": {"n": n.to_string(), "letters": letters}})
    });
    server.load(&maps(), objects).unwrap();
    server
}

#[tokio::test]
async fn a_protobuf_list_of_any_size_equals_the_encoded_json_list() {
    let schema = Schema::builtin();
    for count in [0, 1, 7, 500] {
        let server = filled(count);
        for query in ["", "?limit=3", "?labelSelector=half%3D1", "?limit=3&labelSelector=half%3D1"] {
            let uri = format!("/api/v1/namespaces/default/configmaps{query}");
            let (_, text) = call(&server, "GET", &uri, "").await;
            // A continue token contains the resourceVersion, which is the same for the JSON and the protobuf
            // response.
            let wire = schema.to_protobuf(text.as_bytes()).unwrap();
            assert_eq!(body(&server, &uri).await, wire, "{count} objects, {query:?}");
        }
    }
}

#[tokio::test]
async fn every_built_in_list_type_has_its_items_in_the_expected_field() {
    let (schema, server) = (Schema::builtin(), ApiServer::builder().rbac(true).build());
    for uri in [
        "/api/v1/namespaces",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ] {
        let (status, text) = {
            let mut request = crate::support::request("GET", uri, &[], "");
            request.extensions_mut().insert(informer_apiserver::User::new("root").groups(["system:masters"]));
            crate::support::read(tower::ServiceExt::oneshot(server.service(), request).await.unwrap()).await
        };
        assert_eq!(status, 200);
        let mut request = crate::support::request("GET", uri, &[PROTOBUF], "");
        request.extensions_mut().insert(informer_apiserver::User::new("root").groups(["system:masters"]));
        let response = tower::ServiceExt::oneshot(server.service(), request).await.unwrap();
        let wire = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(wire, schema.to_protobuf(text.as_bytes()).unwrap(), "{uri}");
    }
}

#[tokio::test]
async fn cached_protobuf_is_shared_counted_and_released() {
    let server = filled(20);
    assert_eq!(server.usage().protobuf_bytes, 0, "no client has requested protobuf");
    let list = "/api/v1/namespaces/default/configmaps";
    let first = body(&server, list).await;
    let kept = server.usage().protobuf_bytes;
    assert!(kept >= 20 * 1000 && kept < 2 * first.len(), "{kept} bytes for a list of {}", first.len());
    assert_eq!(body(&server, list).await, first);
    body(&server, "/api/v1/namespaces/default/configmaps/map-0001").await;
    assert_eq!(server.usage().protobuf_bytes, kept, "lists and gets share the encoding");
    for n in 0..20 {
        server.delete(&maps(), "default", &format!("map-{n:04}")).unwrap();
    }
    assert_eq!(server.usage().protobuf_bytes, kept, "the history references the encoding");
    // Writes of other objects remove events from a small history, and their cached encodings with them.
    let small =
        ApiServer::builder().history(informer_apiserver::History { events: 4, bytes: 1 << 20 }).build();
    for n in 0..20 {
        small
            .create(&maps(), "default", json!({"metadata": {"name": format!("m{n}")}, "data": {"k": "v"}}))
            .unwrap();
        body(&small, &format!("/api/v1/namespaces/default/configmaps/m{n}")).await;
        small.delete(&maps(), "default", &format!("m{n}")).unwrap();
    }
    assert!(small.usage().protobuf_bytes < 4 * 200, "{}", small.usage().protobuf_bytes);
}

/// Returns the events of a protobuf watch, converted to JSON.
async fn frames(server: &ApiServer, uri: &str) -> Vec<Value> {
    frames_as(server, uri, "application/vnd.kubernetes.protobuf;stream=watch").await
}

async fn frames_as(server: &ApiServer, uri: &str, accept: &str) -> Vec<Value> {
    let response = send_with(server, "GET", uri, &[("accept", accept)], "").await;
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let (schema, mut rest, mut all) = (Schema::builtin(), &bytes[..], Vec::new());
    while let Some((event, more)) = informer_schema::frame(rest) {
        all.push(serde_json::from_slice(&schema.watch_event_to_json(event).unwrap()).unwrap());
        rest = more;
    }
    assert!(rest.is_empty(), "an incomplete frame");
    all
}

#[tokio::test(start_paused = true)]
async fn a_protobuf_watch_has_the_events_of_a_json_watch() {
    let server = filled(3);
    let begun = server.version();
    let map = |name: &str, half: &str| json!({"metadata": {"name": name, "labels": {"half": half}}, "data": {"k": name}});
    server.create(&maps(), "default", map("new", "1")).unwrap();
    server.update(&maps(), "default", map("new", "1")).unwrap();
    server
        .update(
            &maps(),
            "default",
            json!({"metadata": {"name": "new", "labels": {"half": "1"}}, "data": {"k": "2"}}),
        )
        .unwrap();
    server.update(&maps(), "default", map("new", "0")).unwrap();
    server.update(&maps(), "default", map("new", "1")).unwrap();
    server.delete(&maps(), "default", "new").unwrap();
    let base = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=5&allowWatchBookmarks=true";
    for query in [
        format!("&resourceVersion={begun}"),
        format!("&resourceVersion={begun}&labelSelector=half%3D1"),
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        "&resourceVersion=0".to_owned(),
    ] {
        let uri = format!("{base}{query}");
        let (_, text) = call(&server, "GET", &uri, "").await;
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.len() > 2, "{text}");
        let seen = frames(&server, &uri).await;
        // Only the type, metadata and data of an event are compared, because a protobuf bookmark also has
        // empty fields that its type always encodes.
        let brief = |events: &[Value]| -> Vec<Value> {
            let meta =
                |event: &Value| json!([event["type"], event["object"]["metadata"], event["object"]["data"]]);
            events.iter().map(meta).collect()
        };
        assert_eq!(brief(&seen), brief(&lines), "{query}");
    }
}

#[tokio::test]
async fn extra_fields_are_stored_and_served_in_both_encodings_as_by_a_newer_server() {
    let extra = [
        ExtraField::new("core.v1.ConfigMap", "audience", 100, "*string"),
        ExtraField::new("meta.v1.ObjectMeta", "lineage", 101, "[]core.v1.EnvVar"),
    ];
    let server = ApiServer::builder().extra_fields(&extra).unwrap().build();
    let uri = "/api/v1/namespaces/default/configmaps";
    let map = r#"{"metadata":{"name":"a","lineage":[{"name":"x"}]},"audience":"all"}"#;
    let (status, made) = call(&server, "POST", &format!("{uri}?fieldValidation=Strict"), map).await;
    assert_eq!(status, 201, "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["audience"], &made["metadata"]["lineage"]), (&json!("all"), &json!([{"name": "x"}])));
    let (_, text) = call(&server, "GET", &format!("{uri}/a"), "").await;
    let wire = body(&server, &format!("{uri}/a")).await;
    let newer = Schema::with_extra_fields(&extra).unwrap();
    assert_eq!(wire, newer.to_protobuf(text.as_bytes()).unwrap());
    let known: Value = serde_json::from_slice(&Schema::builtin().to_json(&wire).unwrap()).unwrap();
    assert_eq!((&known["audience"], &known["metadata"]["lineage"]), (&Value::Null, &Value::Null));

    // Extra fields in a protobuf request body are stored, too.
    let content = ("content-type", PROTOBUF.1);
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["metadata"] = json!({"name": "b", "lineage": [{"name": "y"}]});
    let sent = newer.to_protobuf(other.to_string().as_bytes()).unwrap();
    let request = crate::support::request("POST", uri, &[content], "").map(|_| Full::new(Bytes::from(sent)));
    let response = tower::ServiceExt::oneshot(server.service(), request).await.unwrap();
    assert_eq!(response.status(), 201);
    let (_, stored) = call(&server, "GET", &format!("{uri}/b"), "").await;
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(
        (&stored["audience"], &stored["metadata"]["lineage"]),
        (&json!("all"), &json!([{"name": "y"}]))
    );

    let plain = ApiServer::builder().build();
    let (status, refusal) = call(&plain, "POST", &format!("{uri}?fieldValidation=Strict"), map).await;
    assert_eq!(status, 400, "{refusal}");
}

fn widgets() -> Value {
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "widgets.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}})
}

/// Returns a server with ConfigMaps and custom resources, and the paths of both.
fn with_custom_resources() -> (ApiServer, [&'static str; 2]) {
    let server = filled(3);
    server
        .create(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", widgets())
        .unwrap();
    let widget = |name: &str| {
        json!({"apiVersion": "x.io/v1", "kind": "Widget", "spec": {"size": 1},
            "metadata": {"namespace": "default", "name": name, "labels": {"a": "b"}}})
    };
    server.load(&Gvr::new("x.io", "v1", "widgets"), ["map-0000", "map-0001"].map(widget)).unwrap();
    (server, ["/api/v1/namespaces/default/configmaps", "/apis/x.io/v1/namespaces/default/widgets"])
}

fn accept(media: &str, kind: &str) -> String {
    format!("{media};as={kind};g=meta.k8s.io;v=v1")
}

async fn body_as(server: &ApiServer, method: &str, uri: &str, media: &str, kind: &str) -> Bytes {
    let accept = accept(media, kind);
    let response = send_with(server, method, uri, &[("accept", &accept)], "").await;
    assert_eq!(response.headers()["content-type"], media, "{method} {uri}");
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn metadata_of_built_in_and_custom_objects_is_sent_as_protobuf() {
    let (server, paths) = with_custom_resources();
    let schema = Schema::builtin();
    for path in paths {
        for (query, kind) in [
            ("", "PartialObjectMetadataList"),
            ("?limit=1", "PartialObjectMetadataList"),
            ("?labelSelector=a%3Dnone", "PartialObjectMetadataList"),
            ("/map-0000", "PartialObjectMetadata"),
        ] {
            let uri = format!("{path}{query}");
            let json = body_as(&server, "GET", &uri, "application/json", kind).await;
            let wire = body_as(&server, "GET", &uri, PROTOBUF.1, kind).await;
            assert_eq!(wire, schema.to_protobuf(&json).unwrap(), "{uri}");
            let read: Value = serde_json::from_slice(&schema.to_json(&wire).unwrap()).unwrap();
            assert_eq!((&read["kind"], &read["spec"]), (&json!(kind), &Value::Null), "{uri}");
        }
    }
    assert_eq!(server.usage().protobuf_bytes, 0, "whole objects are not encoded");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_watched_as_protobuf() {
    let (server, paths) = with_custom_resources();
    for path in paths {
        let begun = server.version();
        let patch = ("content-type", "application/merge-patch+json");
        let label = r#"{"metadata":{"labels":{"half":"1"}}}"#;
        send_with(&server, "PATCH", &format!("{path}/map-0000"), &[patch], label).await;
        call(&server, "DELETE", &format!("{path}/map-0000"), "").await;
        for from in [
            format!("&resourceVersion={begun}"),
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        ] {
            let uri = format!("{path}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true{from}");
            let json = body_as(&server, "GET", &uri, "application/json", "PartialObjectMetadata").await;
            let lines = json.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let lines: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
            let events = frames_as(&server, &uri, &accept(PROTOBUF.1, "PartialObjectMetadata")).await;
            assert!(lines.len() > 1, "{uri}: {lines:?}");
            // A protobuf message of metadata always has a creationTimestamp, also in a bookmark.
            let brief = |events: &[Value]| -> Vec<Value> {
                let brief = |event: &Value| {
                    let mut object = event["object"].clone();
                    object["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
                    json!([event["type"], object])
                };
                events.iter().map(brief).collect()
            };
            assert_eq!(brief(&events), brief(&lines), "{uri}");
        }
    }
}

#[tokio::test]
async fn custom_resources_have_no_other_protobuf_encoding() {
    let (server, [_, path]) = with_custom_resources();
    let plain = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let streamed = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    for (query, accept, known) in [
        ("", PROTOBUF.1.to_owned(), plain),
        ("", accept(PROTOBUF.1, "Table"), plain),
        ("?watch=1", PROTOBUF.1.to_owned(), plain),
        ("?watch=1", "application/yaml".to_owned(), streamed),
    ] {
        let headers = [("accept", accept.as_str())];
        let response = send_with(&server, "GET", &format!("{path}{query}"), &headers, "").await;
        assert_eq!(response.status(), 406, "{accept}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(&format!("only the following media types are accepted: {known}")), "{text}");
    }
}

#[tokio::test]
async fn deletion_of_a_collection_offers_no_streams() {
    let (server, [path, _]) = with_custom_resources();
    for (method, streams) in [("DELETE", false), ("GET", true)] {
        let response = send_with(&server, method, path, &[("accept", "text/html")], "").await;
        assert_eq!(response.status(), 406);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.contains("stream=watch"), streams, "{method}: {text}");
    }
}

#[tokio::test]
async fn deletion_returns_only_the_metadata_of_the_object() {
    let (server, paths) = with_custom_resources();
    let finalizer = r#"{"metadata":{"finalizers":["x.io/wait"]}}"#;
    for path in paths {
        let patch = ("content-type", "application/merge-patch+json");
        send_with(&server, "PATCH", &format!("{path}/map-0000"), &[patch], finalizer).await;
        for (uri, kind) in [
            (format!("{path}/map-0000"), "PartialObjectMetadata"),
            (path.to_owned(), "PartialObjectMetadataList"),
        ] {
            let wire = body_as(&server, "DELETE", &uri, PROTOBUF.1, kind).await;
            let read: Value = serde_json::from_slice(&Schema::builtin().to_json(&wire).unwrap()).unwrap();
            assert_eq!(read["kind"], kind, "{uri}");
        }
    }
}
