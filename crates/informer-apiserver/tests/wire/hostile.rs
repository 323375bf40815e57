//! Requests of hostile or broken clients. The server must reject them in bounded time and memory and write
//! nothing, and the next request must succeed.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{Watch, call, read};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const ITEM: &str = "/api/v1/namespaces/n/configmaps/a";
const JSON_PATCH: &str = "application/json-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    server.create(&Gvr::new("", "v1", "configmaps"), "n", object).unwrap();
    server
}

async fn send(server: &ApiServer, request: (&str, &str, &str), body: impl Into<Bytes>) -> (u16, Value) {
    let (method, uri, content_type) = request;
    let request = Request::builder().method(method).uri(uri).header("content-type", content_type);
    let response = server.service().oneshot(request.body(Full::new(body.into())).unwrap()).await.unwrap();
    let (status, text) = read(response).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Sends a request that the server must reject, and checks that the server's state is unchanged.
async fn refused(server: &ApiServer, request: (&str, &str, &str), body: impl Into<Bytes>) -> (u16, String) {
    let version = server.version();
    let (status, response) = send(server, request, body).await;
    assert_eq!(
        (&response["kind"], &response["code"]),
        (&json!("Status"), &json!(status)),
        "{request:?}: {response}"
    );
    assert_eq!(server.version(), version, "{request:?} has written something");
    assert_eq!(call(server, "GET", ITEM, "").await.0, 200);
    (status, response["reason"].as_str().unwrap_or_default().to_owned())
}

fn is(status: u16, reason: &str) -> (u16, String) {
    (status, reason.to_owned())
}

#[tokio::test]
async fn a_small_patch_cannot_make_a_large_object() {
    let server = server();
    let patch = ("PATCH", ITEM, JSON_PATCH);
    // Each `copy` operation doubles the size of the object.
    let doubled: Vec<Value> =
        (0..60).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/x{n}")})).collect();
    assert_eq!(refused(&server, patch, Value::from(doubled).to_string()).await, is(422, "Invalid"));
    // The copied bytes exceed kube-apiserver's limit, although the last operations remove the copies.
    let copies = (0..4).map(|n| json!({"op": "copy", "from": "/data/k", "path": format!("/data/x{n}")}));
    let removed = (0..4).map(|n| json!({"op": "remove", "path": format!("/data/x{n}")}));
    let long = |letters: usize| {
        let add = json!({"op": "add", "path": "/data/k", "value": "y".repeat(letters)});
        let last = json!({"op": "replace", "path": "/data/k", "value": "v"});
        let all = [add].into_iter().chain(copies.clone()).chain(removed.clone()).chain([last]);
        Value::from(all.collect::<Vec<_>>()).to_string()
    };
    assert_eq!(refused(&server, patch, long(800_000)).await, is(422, "Invalid"));
    assert_eq!(send(&server, patch, long(700_000)).await.0, 200);
}

#[tokio::test]
async fn a_small_patch_cannot_make_a_deep_object() {
    let server = server();
    let patch = ("PATCH", ITEM, JSON_PATCH);
    let below = |depth: usize| format!("/data{}", "/a".repeat(depth));
    let one_by_one: Vec<Value> =
        (1..1_000).map(|depth| json!({"op": "add", "path": below(depth), "value": {}})).collect();
    let doubled: Vec<Value> =
        (0..16).map(|n| json!({"op": "copy", "from": "/data", "path": below(1 << n)})).collect();
    let mut moved = vec![json!({"op": "replace", "path": "/data", "value": {"a": {}, "b": {}}})];
    for n in 0..200 {
        let (from, into) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        moved
            .push(json!({"op": "move", "from": format!("/data/{from}"), "path": format!("/data/{into}/in")}));
        moved.push(json!({"op": "add", "path": format!("/data/{from}"), "value": {}}));
    }
    for operations in [one_by_one, doubled, moved] {
        assert_eq!(refused(&server, patch, Value::from(operations).to_string()).await, is(422, "Invalid"));
    }
}

#[tokio::test]
async fn a_patch_of_too_many_operations_is_too_large() {
    let server = server();
    let test = json!({"op": "test", "path": "/data/k", "value": "v"});
    let patch = ("PATCH", ITEM, JSON_PATCH);
    let of = |count: usize| Value::from(vec![test.clone(); count]).to_string();
    assert_eq!(refused(&server, patch, of(10_001)).await, is(413, "RequestEntityTooLarge"));
    assert_eq!(send(&server, patch, of(10_000)).await.0, 200);
}

#[tokio::test]
async fn yaml_anchors_cannot_expand_without_bound() {
    let server = server();
    let bomb =
        format!("metadata: {{name: b}}\na: &a [{}]\nb: [{}]", "1,".repeat(50_000), "*a,".repeat(50_000));
    let create = ("POST", MAPS, "application/yaml");
    assert_eq!(refused(&server, create, bomb.clone()).await, is(400, "BadRequest"));
    let path = format!("{MAPS}/b?fieldManager=m");
    let apply = ("PATCH", path.as_str(), "application/apply-patch+yaml");
    assert_eq!(refused(&server, apply, bomb).await, is(400, "BadRequest"));
    let nested = format!("metadata: {{name: b}}\na: {}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(refused(&server, create, nested).await, is(400, "BadRequest"));
    let anchored = "metadata: &m {name: b, labels: &l {app: web}}\ndata: *l\n";
    assert_eq!(send(&server, create, anchored).await.0, 201, "short anchors are accepted");
}

#[tokio::test]
async fn invalid_or_truncated_protobuf_is_rejected() {
    let server = server();
    let schema = informer_schema::Schema::builtin();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"k": "v"}});
    let whole = schema.to_protobuf(map.to_string().as_bytes()).unwrap();
    let create = ("POST", MAPS, PROTOBUF);
    for length in 0..whole.len() - 4 {
        let (status, reason) = refused(&server, create, whole[..length].to_vec()).await;
        assert!(
            matches!((status, &*reason), (400, "BadRequest") | (422, "Invalid")),
            "{length}: {status} {reason}"
        );
    }
    // Returns a protobuf body with the envelope of a ConfigMap and invalid content.
    let envelope = |raw: &[u8]| {
        let mut bytes = informer_schema::MAGIC.to_vec();
        bytes.extend_from_slice(b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12");
        bytes.push(u8::try_from(raw.len()).unwrap());
        bytes.extend_from_slice(raw);
        bytes
    };
    for raw in [
        // Invalid encodings of `metadata`: as a varint, as 64 bits, with a length beyond the end, and with a
        // length that overflows.
        &b"\x08\x01"[..],
        b"\x09\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x0a\x7f\x00",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        // Invalid protobuf: a varint that does not end, groups that do not end, and field number 0.
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0b\x0b\x0b",
        b"\x02\x00",
        // Protobuf with a name that is not UTF-8.
        b"\x0a\x04\x0a\x02\xff\xfe",
    ] {
        let (status, reason) = refused(&server, create, envelope(raw)).await;
        assert!(
            matches!((status, &*reason), (400, "BadRequest") | (422, "Invalid")),
            "{raw:?}: {status} {reason}"
        );
    }
    assert_eq!(send(&server, create, whole).await.0, 201);
}

#[tokio::test]
async fn bodies_that_are_not_utf_8_and_unknown_verbs_are_rejected() {
    let server = server();
    let broken = b"{\"metadata\":{\"name\":\"b\"},\xff}".to_vec();
    for (request, code, reason) in [
        (("POST", MAPS, "application/json"), 400, "BadRequest"),
        (("POST", MAPS, "application/yaml"), 400, "BadRequest"),
        (("PUT", ITEM, "application/json"), 400, "BadRequest"),
        (("PATCH", ITEM, "application/merge-patch+json"), 400, "BadRequest"),
        (("PATCH", ITEM, JSON_PATCH), 400, "BadRequest"),
        (("PATCH", ITEM, "application/strategic-merge-patch+json"), 400, "BadRequest"),
        (("PATCH", ITEM, "text/plain"), 415, "UnsupportedMediaType"),
        (("DELETE", ITEM, "application/json"), 400, "BadRequest"),
        (("BREW", ITEM, "application/json"), 405, "MethodNotAllowed"),
        (("TRACE", MAPS, "application/json"), 405, "MethodNotAllowed"),
    ] {
        assert_eq!(refused(&server, request, broken.clone()).await, is(code, reason), "{request:?}");
    }
}

#[tokio::test]
async fn a_delete_with_an_invalid_body_deletes_no_object() {
    let server = server();
    for body in ["[]", "5", "\"x\""] {
        let delete = ("DELETE", ITEM, "application/json");
        assert_eq!(refused(&server, delete, body).await, is(400, "BadRequest"), "{body}");
    }
    let odd = ("POST", MAPS, ";;");
    assert_eq!(refused(&server, odd, "{}").await, is(415, "UnsupportedMediaType"));
    assert_eq!(send(&server, ("DELETE", ITEM, "application/json"), "null").await.0, 200);
}

#[tokio::test]
async fn ambiguous_names_in_paths_are_rejected_and_invalid_utf_8_is_not_found() {
    let server = server();
    let at = |name: &str| format!("{MAPS}/{name}");
    for (name, why) in [
        ("..", r#"Name parameter invalid: "..": may not be '..'"#),
        ("%2e", r#"Name parameter invalid: ".": may not be '.'"#),
        ("a%25", r#"Name parameter invalid: "a%": may not contain '%'"#),
    ] {
        for method in ["GET", "DELETE"] {
            let (status, response) = send(&server, (method, &at(name), ""), "").await;
            assert_eq!((status, response["message"].as_str()), (400, Some(why)), "{method} {name}");
        }
    }
    let lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/..";
    let body = json!({"metadata": {"name": ".."}}).to_string();
    assert_eq!(refused(&server, ("PUT", lease, "application/json"), body).await, is(400, "BadRequest"));
    let (status, response) = send(&server, ("GET", &at("a%ff%fe"), ""), "").await;
    assert_eq!((status, &response["details"]["name"]), (404, &json!("a\u{fffd}\u{fffd}")));
    let (status, response) = send(&server, ("GET", &at("a%2Fnope"), ""), "").await;
    assert_eq!((status, response["details"].get("name")), (404, None), "an escaped slash is a slash");
}

#[tokio::test]
async fn lone_surrogate_escapes_become_replacement_characters() {
    let server = server();
    let (status, response) =
        send(&server, ("PATCH", ITEM, "application/merge-patch+json"), r#"{"data":{"k":"x\ud800y"}}"#).await;
    assert_eq!((status, &response["data"]["k"]), (200, &json!("x\u{fffd}y")));
}

#[tokio::test(start_paused = true)]
async fn dry_run_of_a_delete_with_a_body_is_read_from_the_body() {
    let server = ApiServer::builder().build();
    let (item, json) = (format!("{MAPS}/a"), "application/json");
    for (query, body, left) in [
        ("?dryRun=All", "", 200),
        ("", r#"{"dryRun": ["All"]}"#, 200),
        ("", r#"{"dryRun": []}"#, 404),
        ("?dryRun=All", "{}", 404),
    ] {
        send(&server, ("POST", MAPS, json), r#"{"metadata": {"name": "a"}}"#).await;
        assert_eq!(send(&server, ("DELETE", &format!("{item}{query}"), json), body).await.0, 200);
        assert_eq!(send(&server, ("GET", &item, json), "").await.0, left, "{query} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_timeout_that_overflows_the_clock_is_accepted() {
    let server = server();
    let path = format!(
        "/api/v1/configmaps?watch=1&resourceVersion={}&timeoutSeconds={}",
        server.version(),
        i64::MAX
    );
    let mut watch = Watch::open(&server, &path).await;
    let written = async {
        tokio::task::yield_now().await;
        let object = json!({"metadata": {"name": "late"}});
        server.create(&Gvr::new("", "v1", "configmaps"), "n", object).unwrap();
    };
    let (event, ()) = tokio::join!(watch.brief(), written);
    assert_eq!(event.unwrap(), "ADDED late");
}

#[tokio::test]
async fn a_grace_period_that_overflows_the_calendar_is_accepted() {
    let server = server();
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/n/pods";
    let json = "application/json";
    assert_eq!(send(&server, ("POST", pods, json), pod.to_string()).await.0, 201);
    let delete = format!("{pods}/web?gracePeriodSeconds={}", i64::MAX);
    let (status, marked) = send(&server, ("DELETE", &delete, json), "").await;
    assert_eq!((status, &marked["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(i64::MAX)));
}

#[tokio::test]
async fn an_invalid_generation_of_a_client_does_not_prevent_deletion() {
    let server = server();
    let map = json!({"metadata": {"name": "b", "generation": i64::MAX, "finalizers": ["x.io/held"]}});
    let json = "application/json";
    assert_eq!(send(&server, ("POST", MAPS, json), map.to_string()).await.0, 201);
    let (status, marked) = send(&server, ("DELETE", &format!("{MAPS}/b"), json), "").await;
    assert_eq!(status, 200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
}

#[tokio::test]
async fn warnings_about_unknown_fields_are_limited_to_8_kib() {
    let server = server();
    let mut map = json!({"metadata": {"name": "b"}});
    for n in 0..50_000 {
        map[format!("unknown{n}")] = 1.into();
    }
    let request = Request::builder().method("POST").uri(MAPS).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(map.to_string()))).unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 201);
    let bytes: usize = response.headers().get_all("warning").iter().map(|value| value.len()).sum();
    assert!((4_096..8_192).contains(&bytes), "{bytes} bytes of warnings");
}

/// Returns deeply nested CEL expressions. The server must respond to each of them, and none may overflow the
/// stack.
#[cfg(feature = "cel")]
fn deep_expressions() -> Vec<String> {
    let wrapped = |open: &str, core: &str, close: &str, levels: usize| {
        format!("{}{core}{}", open.repeat(levels), close.repeat(levels))
    };
    [30, 90, 600, 30_000]
        .into_iter()
        .flat_map(|levels| {
            [
                wrapped("[", "1", "]", levels) + ".size() == 1",
                wrapped("(", "true", ")", levels),
                wrapped("!", "true", "", levels),
                wrapped("-", "1", "", levels) + " == 1",
                wrapped("true ? true : ", "true", "", levels),
                wrapped("true && ", "true", "", levels),
                wrapped("1 + ", "1", "", levels) + " > 0",
                wrapped("{'a': ", "1", "}", levels) + ".size() == 1",
                format!("self{} == 1", ".a".repeat(levels)),
                format!("'a'{} == 'a'", ".lowerAscii()".repeat(levels)),
                wrapped("[1].all(x, ", "true", ")", levels.min(300)),
            ]
        })
        .collect()
}

#[cfg(feature = "cel")]
#[tokio::test]
async fn deep_cel_expressions_of_crds_and_policies_do_not_overflow_the_stack() {
    let server = ApiServer::builder().build();
    for (index, expression) in deep_expressions().into_iter().enumerate() {
        let plural = format!("things{index}");
        let rules = json!([{"rule": expression}]);
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": rules,
        }}});
        let definition = json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": format!("Thing{index}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (status, response) =
            send(&server, ("POST", crds, "application/json"), definition.to_string()).await;
        assert!(matches!(status, 201 | 422), "{response}");
        if status == 201 {
            let thing = json!({
                "apiVersion": "example.com/v1", "kind": format!("Thing{index}"), "metadata": {"name": "a"}, "spec": {"a": 1},
            });
            let things = format!("/apis/example.com/v1/namespaces/n/{plural}");
            let (status, response) =
                send(&server, ("POST", &things, "application/json"), thing.to_string()).await;
            assert!(matches!(status, 201 | 422), "{response}");
        }
        let policy = json!({
            "metadata": {"name": "deep"},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
                ]},
                "validations": [{"expression": expression.replace("self", "object")}],
            },
        });
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let (status, response) =
            send(&server, ("POST", policies, "application/json"), policy.to_string()).await;
        assert!(matches!(status, 201 | 422), "{response}");
        if status == 201 {
            let binding = json!({"metadata": {"name": "deep"}, "spec": {"policyName": "deep", "validationActions": ["Deny"]}});
            let bindings = policies.replace("policies", "policybindings");
            assert_eq!(
                send(&server, ("POST", &bindings, "application/json"), binding.to_string()).await.0,
                201
            );
            let maps = "/api/v1/namespaces/n/configmaps";
            let map = json!({"metadata": {"generateName": "m-"}});
            let (status, response) = send(&server, ("POST", maps, "application/json"), map.to_string()).await;
            assert!(matches!(status, 201 | 422), "{response}");
            for url in [format!("{policies}/deep"), format!("{bindings}/deep")] {
                assert_eq!(send(&server, ("DELETE", &url, ""), "").await.0, 200);
            }
        }
    }
}
