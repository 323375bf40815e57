use informer_apiserver::{ApiServer, History, KindDefinition};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, json, read, send, send_with};

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn create(server: &ApiServer, namespace: &str, name: &str) -> u64 {
    let labels = json!({"name": name});
    let stored =
        server.create(&maps(), namespace, json!({"metadata": {"name": name, "labels": labels}})).unwrap();
    stored["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_is_ordered_by_the_joined_key_so_that_a_b_precedes_a() {
    let server = ApiServer::builder().build();
    create(&server, "a", "x");
    create(&server, "a-b", "y");
    let (status, list) = json(&server, "GET", "/api/v1/configmaps", "").await;
    assert_eq!((status, names(&list)), (200, vec!["y", "x"]));
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0]["kind"], Value::Null, "items of built-in lists have no apiVersion and kind");
}

#[tokio::test]
async fn an_empty_list_has_items_and_one_of_metadata_has_null() {
    let server = ApiServer::builder().kind(KindDefinition::custom("g", "v1", "Widget")).build();
    let (_, body) = call(&server, "GET", "/api/v1/namespaces/none/pods", "").await;
    assert_eq!(
        body,
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}\n"
    );
    let (_, body) = call(&server, "GET", "/apis/g/v1/widgets", "").await;
    assert_eq!(
        body,
        "{\"apiVersion\":\"g/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"5\"}}\n"
    );
    let accept = ("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let (_, body) = read(send_with(&server, "GET", "/api/v1/pods", &[accept], "").await).await;
    assert!(
        body.contains("\"kind\":\"PartialObjectMetadataList\"") && body.ends_with("\"items\":null}\n"),
        "{body}"
    );
}

#[tokio::test]
async fn object_fields_are_encoded_in_the_order_of_kube_apiserver() {
    let server = ApiServer::builder().kind(KindDefinition::custom("g", "v1", "Widget")).build();
    let widget = json!({"kind": "Widget", "spec": {"a": 1}, "metadata": {"name": "w", "labels": {"l": "1"}}});
    server.create(&Gvr::new("g", "v1", "widgets"), "n", widget).unwrap();
    let (_, body) = call(&server, "GET", "/apis/g/v1/namespaces/n/widgets/w", "").await;
    assert!(
        body.starts_with("{\"apiVersion\":\"g/v1\",\"kind\":\"Widget\",\"metadata\":{\"creationTimestamp\":"),
        "{body}"
    );
    assert!(body.contains("\"resourceVersion\":\"6\",\"uid\":"), "{body}");
    create(&server, "n", "c");
    let (_, body) = call(&server, "GET", "/api/v1/namespaces/n/configmaps/c", "").await;
    let head = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"c\",\"namespace\":\"n\",\"uid\":";
    assert!(
        body.starts_with(head) && body.contains(",\"resourceVersion\":\"7\",\"creationTimestamp\":"),
        "{body}"
    );
}

#[tokio::test]
async fn all_pages_of_a_list_show_one_version() {
    let server = ApiServer::builder().build();
    for name in ["a", "b", "c", "d", "e"] {
        create(&server, "n", name);
    }
    let version = server.version().to_string();
    let (_, first) = json(&server, "GET", "/api/v1/namespaces/n/configmaps?limit=2", "").await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    create(&server, "n", "bb");
    server.delete(&maps(), "n", "d").unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) =
        json(&server, "GET", &format!("/api/v1/namespaces/n/configmaps?limit=9&continue={token}"), "").await;
    assert_eq!(names(&second), ["c", "d", "e"]);
    assert_eq!(second["metadata"], json!({"resourceVersion": version}));
}

#[tokio::test]
async fn an_expired_continue_token_returns_410_with_a_token_to_continue() {
    let server = ApiServer::builder().build();
    for name in ["a", "b", "c"] {
        create(&server, "n", name);
    }
    let (_, first) = json(&server, "GET", "/api/v1/configmaps?limit=1", "").await;
    create(&server, "n", "d");
    server.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (status, gone) =
        json(&server, "GET", &format!("/api/v1/configmaps?limit=1&continue={token}"), "").await;
    assert_eq!((status, &gone["reason"], &gone["code"]), (410, &json!("Expired"), &json!(410)));
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let (status, rest) = json(&server, "GET", &format!("/api/v1/configmaps?continue={token}"), "").await;
    assert_eq!((status, names(&rest)), (200, vec!["b", "c", "d"]));
    assert_eq!(rest["metadata"]["resourceVersion"], server.version().to_string());
}

#[tokio::test]
async fn each_resource_version_match_returns_the_requested_state() {
    let server = ApiServer::builder().build();
    let old = create(&server, "n", "a");
    let new = create(&server, "n", "b");
    let cases = [
        (String::new(), vec!["a", "b"], new),
        ("?resourceVersion=0&limit=1".into(), vec!["a", "b"], new),
        (format!("?resourceVersion={old}"), vec!["a", "b"], new),
        (format!("?resourceVersion={old}&limit=5"), vec!["a"], old),
        (format!("?resourceVersion={old}&resourceVersionMatch=NotOlderThan"), vec!["a", "b"], new),
        (format!("?resourceVersion={old}&resourceVersionMatch=Exact"), vec!["a"], old),
    ];
    for (query, expected, version) in cases {
        let (status, list) = json(&server, "GET", &format!("/api/v1/configmaps{query}"), "").await;
        assert_eq!((status, names(&list)), (200, expected), "{query}");
        assert_eq!(list["metadata"]["resourceVersion"], version.to_string(), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_version_is_awaited_for_three_seconds() {
    let server = ApiServer::builder().build();
    let next = server.version() + 1;
    let path = format!("/api/v1/configmaps?resourceVersion={next}&resourceVersionMatch=NotOlderThan");
    let began = tokio::time::Instant::now();
    let response = send(&server, "GET", &path, "").await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = read(response).await;
    assert_eq!(status, 504);
    let current = server.version();
    assert_eq!(
        body,
        format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"Timeout: Too large resource version: {next}, current: {current}\",\"reason\":\"Timeout\",\"details\":{{\"causes\":[{{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}}],\"retryAfterSeconds\":1}},\"code\":504}}\n"
        )
    );
    let (waiting, version) =
        tokio::join!(json(&server, "GET", &path, ""), async { create(&server, "n", "a") });
    assert_eq!((waiting.0, names(&waiting.1), version), (200, vec!["a"], next));
}

#[tokio::test]
async fn invalid_list_options_return_the_errors_of_kube_apiserver() {
    let server = ApiServer::builder().build();
    let cases = [
        (
            "resourceVersionMatch=Exact",
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            "\"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersionMatch=Foo&resourceVersion=1",
            422,
            "supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        ("sendInitialEvents=1", 422, "sendInitialEvents is forbidden for list"),
        (
            "resourceVersion=abc",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        ("limit=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        ("continue=!", 400, "continue key is not valid: illegal base64 data at input byte 0"),
        (
            "continue=eyJ2IjoidjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
            400,
            "does not recognize this encoded version v1",
        ),
        ("fieldSelector=foo", 400, "invalid selector: 'foo'; can't understand 'foo'"),
        (
            "fieldSelector=a.b%3Dc",
            400,
            "\"a.b\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("labelSelector=a%3D%3D%3Db", 400, "unable to parse requirement: found '=', expected: identifier"),
        ("labelSelector=a+in+b", 400, "unable to parse requirement: found 'b' expected: '('"),
        ("labelSelector=a%3Ex", 400, "for 'Gt', 'Lt' operators, the value must be an integer"),
    ];
    for (query, code, text) in cases {
        let (status, error) = json(&server, "GET", &format!("/api/v1/configmaps?{query}"), "").await;
        let message = error["message"].as_str().unwrap();
        assert_eq!(status, code, "{query}: {message}");
        assert!(message.contains(text), "{query}: {message}");
    }
}

#[tokio::test]
async fn selectors_filter_lists_and_omit_the_remaining_item_count() {
    let server = ApiServer::builder().build();
    let pods = Gvr::new("", "v1", "pods");
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "main"}]});
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        server.create(&pods, "default", pod).unwrap();
    }
    for (query, expected) in [
        ("fieldSelector=spec.nodeName%3Dn1", vec!["a", "c"]),
        ("fieldSelector=spec.host!%3Dn1", vec!["b"]),
        ("labelSelector=app+in+(a,b)&fieldSelector=metadata.name!%3Da", vec!["b"]),
        ("labelSelector=!app", vec![]),
        ("fieldSelector=metadata.namespace%3Dother", vec![]),
    ] {
        let (_, list) = json(&server, "GET", &format!("/api/v1/pods?{query}"), "").await;
        assert_eq!(names(&list), expected, "{query}");
    }
    let (_, page) = json(&server, "GET", "/api/v1/pods?limit=1&fieldSelector=spec.nodeName%3Dn1", "").await;
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
    assert!(page["metadata"]["continue"].is_string());
}

#[tokio::test]
async fn an_exact_list_older_than_the_history_returns_410() {
    let server = ApiServer::builder().history(History { events: 2, bytes: 1 << 20 }).build();
    let old = create(&server, "n", "a");
    for i in 0..3 {
        create(&server, "n", &format!("b{i}"));
    }
    let path = format!("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion={old}");
    let (status, error) = json(&server, "GET", &path, "").await;
    assert_eq!(status, 410);
    assert_eq!(error["message"], "The resourceVersion for the provided list is too old.");
}

#[tokio::test]
async fn unknown_paths_and_unknown_resources_return_different_errors() {
    let server = ApiServer::builder().kind(KindDefinition::custom("g", "v1", "Widget")).build();
    for path in ["/nope", "/apis/foo/v1", "/apis/g/v1/gadgets", "/apis/g/v2/widgets", "//api/v1"] {
        assert_eq!(call(&server, "GET", path, "").await, (404, "404 page not found\n".to_owned()), "{path}");
    }
    for path in ["/apis/apps/v9", "/api/v1/foos", "/api/v1/namespaces/n/configmaps/x/status"] {
        let (status, body) = call(&server, "GET", path, "").await;
        let text = "\"message\":\"the server could not find the requested resource\",\"reason\":\"NotFound\",\"details\":{},\"code\":404}";
        assert!(status == 404 && body.contains(text), "{path}: {body}");
    }
    let (status, error) = json(&server, "GET", "/api/v1/namespaces/n/pods/x", "").await;
    assert_eq!((status, &error["message"]), (404, &json!("pods \"x\" not found")));
    let (status, _) = call(&server, "DELETE", "/api/v1/pods", "").await;
    assert_eq!(status, 405);
}
