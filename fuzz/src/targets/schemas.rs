use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use informer_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Target;
use crate::probe::block_on;

pub(super) const TARGET: Target = Target {
    name: "schemas",
    run,
    words: &[
        "\"type\":\"object\",",
        "\"type\":\"array\",\"items\":{\"type\":\"string\"}",
        "\"properties\":{\"spec\":{\"type\":\"object\"}}",
        "\"additionalProperties\":{\"type\":\"integer\"}",
        "\"x-kubernetes-preserve-unknown-fields\":true",
        "\"x-kubernetes-int-or-string\":true",
        "\"x-kubernetes-embedded-resource\":true",
        "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"name\"]",
        "\"x-kubernetes-validations\":[{\"rule\":\"self.a <= self.b\"}]",
        "\"default\":{}",
        "\"nullable\":true",
        "\"enum\":[\"a\",1]",
        "\"pattern\":\"^a+$\"",
        "\"format\":\"date-time\"",
        "\"minimum\":0,\"exclusiveMinimum\":true",
        "\"multipleOf\":0.1",
        "\"oneOf\":[{\"required\":[\"a\"]}]",
        "\"not\":{}",
        "\n{\"spec\":{\"a\":1}}",
        "\n{\"spec\":null}",
    ],
};

/// The maximum number of objects per input, enough to test the rules of the schema.
const MAX_OBJECTS: usize = 3;

/// Creates a CRD and objects of its kind: the first line is a schema, each later line is an object.
///
/// For every schema, the server responds, publishes the accepted schema, and accepts each stored object
/// unchanged.
fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let Some(schema) = lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok()) else { return };
    let server = ApiServer::builder().build();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, response) = send(&server, Method::POST, definitions, &definition(&schema));
    assert!(matches!(status.as_u16(), 201 | 400 | 422), "{status} {response}: {text}");
    if status != StatusCode::CREATED {
        return;
    }
    for path in ["/openapi/v3/apis/example.com/v1", "/openapi/v2", "/apis/example.com/v1"] {
        let (status, _) = send(&server, Method::GET, path, &Value::Null);
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
    }
    for (index, line) in lines.take(MAX_OBJECTS).enumerate() {
        if let Ok(Value::Object(object)) = serde_json::from_str(line) {
            check_object(&server, &format!("w{index}"), Value::Object(object), &text);
        }
    }
}

/// Creates an object, and writes it back as it was stored.
fn check_object(server: &ApiServer, name: &str, mut object: Value, text: &str) {
    object["apiVersion"] = "example.com/v1".into();
    object["kind"] = "Widget".into();
    object["metadata"] = json!({"name": name});
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let (status, stored) = send(server, Method::POST, widgets, &object);
    assert!(matches!(status.as_u16(), 201 | 400 | 422), "{status} {stored}: {text}");
    if status != StatusCode::CREATED {
        return;
    }
    let (status, again) = send(server, Method::PUT, &format!("{widgets}/{name}"), &stored);
    if status.is_success() {
        assert_eq!(stored["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"], "{text}");
    } else {
        // A transition rule may reject an update that changes nothing.
        assert!(text.contains("oldSelf"), "the server rejects an object that it stored: {again}: {text}");
    }
}

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(body)).expect("the path is valid");
    block_on(async {
        let response = server.service().oneshot(request).await.expect("errors are responses");
        let status = response.status();
        let body = response.into_body().collect().await.expect("the response is complete").to_bytes();
        (status, serde_json::from_slice(&body).expect("the response is JSON"))
    })
}
