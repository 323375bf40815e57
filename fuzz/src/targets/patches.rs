use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Target;
use crate::probe::block_on;

pub(super) const TARGET: Target = Target {
    name: "patches",
    run,
    words: &[
        "{\"metadata\":{\"labels\":{\"app\":null}}}",
        "{\"metadata\":{\"finalizers\":[\"example.com/x\"]}}",
        "{\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"spec\":{\"replicas\":2}}",
        "\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"x:2\"}]}}",
        "\"$patch\":\"delete\"",
        "\"$patch\":\"replace\"",
        "\"$retainKeys\":[\"type\"]",
        "\"$deleteFromPrimitiveList/finalizers\":[\"example.com/x\"]",
        "\"$setElementOrder/containers\":[{\"name\":\"b\"},{\"name\":\"a\"}]",
        "{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}",
        "{\"op\":\"remove\",\"path\":\"/metadata/labels/app\"}",
        "{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Deployment\"}",
        "{\"op\":\"copy\",\"from\":\"/metadata/labels\",\"path\":\"/metadata/annotations\"}",
        "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/metadata/annotations\"}",
        "{\"op\":\"move\",\"from\":\"/spec\",\"path\":\"/metadata/spec\"}",
        "apiVersion: apps/v1\nkind: Deployment\n",
        "metadata: &a {}\nspec: [*a, *a]\n",
        "null",
    ],
};

/// The patch types: a content type and query parameters.
const WAYS: [(&str, &str); 5] = [
    ("application/merge-patch+json", ""),
    ("application/strategic-merge-patch+json", ""),
    ("application/json-patch+json", ""),
    ("application/apply-patch+yaml", "?fieldManager=fuzz"),
    ("application/apply-patch+yaml", "?fieldManager=fuzz&force=true"),
];

/// Patches a Deployment. The first byte selects the patch type; the rest is the patch.
///
/// A rejected patch changes nothing. An accepted patch returns the stored object, and does not change its
/// identity. Sending a declarative patch again changes nothing.
fn run(input: &[u8]) {
    let Some((choice, patch)) = input.split_first() else { return };
    let way = WAYS[usize::from(*choice) % WAYS.len()];
    let server = ApiServer::builder().build();
    let before =
        server.create(&deployments(), "default", deployment()).expect("an empty server accepts the object");
    let (status, response) = send(&server, way, patch);
    let text = String::from_utf8_lossy(patch);
    let after = server.get(&deployments(), "default", "a");
    if !status.is_success() {
        assert_eq!(after.expect("a rejected patch does not delete the object"), before, "{way:?} {text}");
        return;
    }
    // A server-side apply creates a missing object, so the name is always that of the path.
    let after = after.expect("a patch does not delete the object");
    assert_eq!(response, after, "{way:?} {text}");
    check_same_object(&before, &after, &text);
    if way.0 != "application/json-patch+json" {
        check_again(&server, way, patch, &after);
    }
}

fn check_same_object(before: &Value, after: &Value, text: &str) {
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        assert_eq!(before["metadata"][field], after["metadata"][field], "{field}: {text}");
    }
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    if version(before) == version(after) {
        assert_eq!(before, after, "the object changed without a new resourceVersion: {text}");
    }
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    // The generation of a Deployment also counts changes of its annotations, as in kube-apiserver.
    let counted = before["spec"] != after["spec"]
        || before["metadata"]["annotations"] != after["metadata"]["annotations"];
    assert_eq!(counted, generation(before) != generation(after), "{text}");
}

/// Sends the same patch again. It may be rejected, for example if it contains a resourceVersion.
fn check_again(server: &ApiServer, way: (&str, &str), patch: &[u8], first: &Value) {
    let (status, second) = send(server, way, patch);
    if status.is_success() {
        let text = String::from_utf8_lossy(patch);
        assert_eq!(first["spec"], second["spec"], "a repeated patch changes the object: {way:?} {text}");
        assert_eq!(
            first["metadata"]["labels"], second["metadata"]["labels"],
            "a repeated patch changes the object: {way:?} {text}"
        );
    }
}

fn send(server: &ApiServer, (content_type, query): (&str, &str), patch: &[u8]) -> (StatusCode, Value) {
    let path = format!("/apis/apps/v1/namespaces/default/deployments/a{query}");
    let request = Request::patch(path).header("content-type", content_type);
    let request = request.body(Full::new(Bytes::copy_from_slice(patch))).expect("the path is valid");
    block_on(async {
        let response = server.service().oneshot(request).await.expect("errors are responses");
        let status = response.status();
        let body = response.into_body().collect().await.expect("the response is complete").to_bytes();
        (status, serde_json::from_slice(&body).expect("the response is JSON"))
    })
}

fn deployments() -> Gvr {
    Gvr::new("apps", "v1", "deployments")
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "labels": {"app": "web"}, "finalizers": ["example.com/held"]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "a", "image": "x:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                        {"name": "b", "image": "y:1", "env": [{"name": "K", "value": "v"}]},
                    ],
                },
            },
        },
    })
}
