//! A client for tests that sends requests to the server without a socket.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use informer_apiserver::{ApiBody, ApiServer};
use serde_json::Value;
use tower::ServiceExt;

pub(crate) fn request(method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

pub(crate) async fn send(server: &ApiServer, method: &str, uri: &str, body: &str) -> Response<ApiBody> {
    send_with(server, method, uri, &[], body).await
}

pub(crate) async fn send_with(
    server: &ApiServer,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<ApiBody> {
    server.service().oneshot(request(method, uri, headers, body)).await.unwrap()
}

pub(crate) async fn call(server: &ApiServer, method: &str, uri: &str, body: &str) -> (u16, String) {
    read(send(server, method, uri, body).await).await
}

pub(crate) async fn read(response: Response<ApiBody>) -> (u16, String) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

pub(crate) async fn json(server: &ApiServer, method: &str, uri: &str, body: &str) -> (u16, Value) {
    let (status, text) = call(server, method, uri, body).await;
    assert!(text.ends_with('\n'), "every JSON body ends in a newline: {text}");
    (status, serde_json::from_str(&text).unwrap())
}

/// Creates an object as a dry run. Returns the status code, and the reason and field of each cause.
pub(crate) async fn dry_create(server: &ApiServer, url: &str, object: &Value) -> (u16, Vec<String>) {
    let (status, body) = json(server, "POST", &format!("{url}?dryRun=All"), &object.to_string()).await;
    (status, causes_of(&body))
}

/// Returns the causes of a rejected write as `reason field`, for example `Invalid spec.replicas`.
pub(crate) fn causes_of(body: &Value) -> Vec<String> {
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let shown = |cause: &Value| {
        let reason = cause["reason"].as_str().unwrap().trim_start_matches("FieldValue");
        format!("{reason} {}", cause["field"].as_str().unwrap())
    };
    causes.map(shown).collect()
}

pub(crate) struct Watch {
    body: ApiBody,
    rest: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(server: &ApiServer, uri: &str) -> Self {
        let response = send(server, "GET", uri, "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        Self { body: response.into_body(), rest: Vec::new() }
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap());
            }
            match self.body.frame().await {
                Some(frame) => self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                None => {
                    assert!(
                        self.rest.is_empty(),
                        "an incomplete line: {:?}",
                        String::from_utf8_lossy(&self.rest)
                    );
                    return None;
                }
            }
        }
    }

    /// Returns the next watch event as its type, the name of its object, and its resourceVersion.
    pub(crate) async fn event(&mut self) -> Option<(String, String, String)> {
        let event: Value = serde_json::from_str(&self.line().await?).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &event["object"]["metadata"];
        Some((text(&event["type"]), text(&metadata["name"]), text(&metadata["resourceVersion"])))
    }

    /// Returns the next watch event as `TYPE name`.
    pub(crate) async fn brief(&mut self) -> Option<String> {
        self.event().await.map(|(kind, name, _)| format!("{kind} {name}"))
    }

    /// Returns all remaining watch events as `TYPE name`.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(event) = self.brief().await {
            all.push(event);
        }
        all
    }
}
