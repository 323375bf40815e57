//! Tokens of service accounts, and the events that invalidate them.

use std::time::Duration;

use informer_apiserver::{ApiServer, Tokens, User};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{json as ask, read, send_with};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn core(resource: &str) -> Gvr {
    Gvr::new("", "v1", resource)
}

/// Creates a server without authentication that has one service account.
fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    server.create(&core("serviceaccounts"), "default", json!({"metadata": {"name": "robot"}})).unwrap();
    server
}

async fn token(server: &ApiServer, kind: &str, name: &str) -> String {
    let bound = json!({"kind": kind, "apiVersion": "v1", "name": name});
    let request = json!({"spec": {"boundObjectRef": bound}}).to_string();
    let (status, token) = ask(server, "POST", &format!("{ACCOUNTS}/robot/token"), &request).await;
    assert_eq!(status, 201, "{token}");
    token["status"]["token"].as_str().unwrap().to_owned()
}

/// Returns the user of a service account token; `None` if the server rejects the token.
async fn who(server: &ApiServer, token: &str) -> Option<String> {
    let bearer = format!("Bearer {token}");
    let (status, text) =
        read(send_with(server, "POST", REVIEWS, &[("authorization", &bearer)], "{}").await).await;
    let review: Value = serde_json::from_str(&text).unwrap();
    (status == 201).then(|| review["status"]["userInfo"]["username"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_invalidated_token_is_rejected_even_if_unknown_tokens_are_accepted() {
    let server = server();
    server.create(&core("secrets"), "default", json!({"metadata": {"name": "key"}})).unwrap();
    let token = token(&server, "Secret", "key").await;
    assert_eq!(who(&server, &token).await.as_deref(), Some("system:serviceaccount:default:robot"));
    assert_eq!(who(&server, "unknown").await.as_deref(), Some("admin"));
    server.delete(&core("secrets"), "default", "key").unwrap();
    assert_eq!(who(&server, &token).await, None);
    server.create(&core("secrets"), "default", json!({"metadata": {"name": "key"}})).unwrap();
    assert_eq!(who(&server, &token).await, None, "the re-created secret does not validate the token");
}

#[tokio::test]
async fn a_pod_bound_token_expires_a_minute_after_the_grace_period() {
    let server = server();
    let spec = json!({
        "serviceAccountName": "robot", "nodeName": "n", "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "i"}],
    });
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    assert_eq!(ask(&server, "POST", "/api/v1/namespaces/default/pods", &pod.to_string()).await.0, 201);
    let token = token(&server, "Pod", "p").await;
    let (_, marked) = ask(&server, "DELETE", "/api/v1/namespaces/default/pods/p", "").await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "the pod is terminating: {marked}");
    for (seconds, lets_in) in [(0, true), (85, true), (10, false)] {
        server.advance(Duration::from_secs(seconds));
        assert_eq!(who(&server, &token).await.is_some(), lets_in, "{seconds} s later");
    }
}

#[tokio::test]
async fn a_token_request_with_invalid_fields_is_rejected() {
    let server = server();
    for body in [r#"{"spec": "x"}"#, r#"{"spec": {"boundObjectRef": 1}}"#, r#"{"spec": {"audiences": {}}}"#] {
        let (status, refused) = ask(&server, "POST", &format!("{ACCOUNTS}/robot/token"), body).await;
        assert_eq!((status, &refused["reason"]), (400, &json!("BadRequest")), "{refused}");
    }
}

#[tokio::test]
async fn unauthenticated_requests_are_not_logged() {
    let mut tokens = Tokens::default();
    tokens.add("secret", User::new("alice"));
    let server = ApiServer::builder().tokens(tokens).build();
    for _ in 0..3 {
        assert_eq!(ask(&server, "GET", "/api/v1/pods", "").await.0, 401);
    }
    assert!(server.requests().is_empty());
    let known = [("authorization", "Bearer secret")];
    assert_eq!(send_with(&server, "GET", "/api/v1/pods", &known, "").await.status(), 200);
    assert_eq!(server.requests().iter().map(|request| request.number).collect::<Vec<_>>(), [1]);
}
