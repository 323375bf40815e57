use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Target;
use crate::probe::block_on;

pub(super) const TARGET: Target = Target {
    name: "requests",
    run,
    words: &[
        "GET /api/v1/namespaces/default/configmaps",
        "POST /api/v1/namespaces/default/configmaps",
        "PUT /api/v1/namespaces/default/configmaps/a",
        "PATCH /api/v1/namespaces/default/configmaps/a",
        "DELETE /api/v1/namespaces/default/configmaps/a",
        "?limit=1&continue=",
        "?watch=1&timeoutSeconds=0&resourceVersion=",
        "&labelSelector=",
        "&fieldSelector=metadata.name%3D",
        "&resourceVersionMatch=Exact",
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "\napplication/json-patch+json\n[{\"op\":\"add\",\"path\":\"/data/x\",\"value\":\"y\"}]",
        "\napplication/merge-patch+json\n{\"data\":{\"x\":null}}",
        "{\"preconditions\":{\"uid\":\"x\"}}",
        "{\"metadata\":{\"name\":\"b\",\"finalizers\":[\"example.com/x\"]}}",
    ],
};

/// The maximum number of frames to read of a watch, which may never end.
const MAX_RESPONSE_FRAMES: usize = 64;

/// Sends a request to the embedded server: method and path in the first line, content type in the second,
/// then the body.
///
/// Each response has a status, each error has a `Status` with a reason, and the server stays usable.
fn run(input: &[u8]) {
    let server = server();
    let text = String::from_utf8_lossy(input);
    let mut lines = text.splitn(3, '\n');
    let (method, target) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or(("GET", "/"));
    let content_type = lines.next().unwrap_or("application/json");
    let body = Bytes::copy_from_slice(lines.next().unwrap_or("").as_bytes());
    let request = Request::builder().method(method).uri(target).header("content-type", content_type);
    let Ok(request) = request.body(Full::new(body)) else { return };
    block_on(async {
        let response = server.service().oneshot(request).await.expect("errors are responses");
        let status = response.status();
        let body = read(response.into_body()).await;
        if !status.is_success() && !status.is_redirection() {
            check_refusal(status, &body, &text);
        }
    });
    check_state(&server, &text);
}

fn configmaps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    for (namespace, name) in [("default", "a"), ("default", "c"), ("other", "b")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"k": "v"}});
        server.create(&configmaps(), namespace, object).expect("an empty server accepts the object");
    }
    server
}

fn check_state(server: &ApiServer, request: &str) {
    for namespace in ["default", "other"] {
        for object in server.list(&configmaps(), namespace).expect("the list succeeds") {
            let metadata = &object["metadata"];
            assert!(metadata["name"].as_str().is_some_and(|name| !name.is_empty()), "{request:?}");
            assert_eq!(metadata["namespace"], namespace, "{request:?}");
            let version =
                metadata["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
            assert!(version.is_some_and(|version| version <= server.version()), "{request:?}");
        }
    }
}

async fn read(mut body: informer_apiserver::ApiBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..MAX_RESPONSE_FRAMES {
        // A watch without an available event is dropped.
        let Some(Some(Ok(frame))) = futures_util::FutureExt::now_or_never(body.frame()) else { break };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}

fn check_refusal(status: http::StatusCode, body: &[u8], request: &str) {
    let Ok(refusal) = serde_json::from_slice::<Value>(body) else {
        // Unknown paths get a plain text response, as in kube-apiserver.
        assert!(std::str::from_utf8(body).is_ok_and(|text| !text.is_empty()), "{status} for {request:?}");
        return;
    };
    assert_eq!(refusal["kind"], "Status", "{request:?}");
    // kube-apiserver responds with 500 without a reason to a non-numeric version, and with 504 to a future
    // version.
    let known = matches!(
        (status.as_u16(), refusal["reason"].as_str()),
        (400..=499, _) | (500, None | Some("")) | (504, _)
    );
    assert!(known, "{status} {refusal}: {request:?}");
    assert_eq!(refusal["code"], status.as_u16(), "{request:?}");
    assert!(refusal["message"].as_str().is_some_and(|message| !message.is_empty()), "{request:?}");
}
