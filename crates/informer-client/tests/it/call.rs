//! Tests of calls with truncated responses or invalid parameters.

use informer_cache::source::{ListRequest, SourceErrorKind};
use informer_client::{Call, CallError, KubeListWatch, Lazy, ResourceKind};
use k8s_openapi::api::core::v1::Pod;

use crate::script::{Reply, first_list, list, script};

fn too_long() -> String {
    "x".repeat(1 << 16)
}

fn pods() -> Call {
    Call::list(&ResourceKind::of::<Pod>(), Some("default"))
}

async fn failed(call: Call, reply: Reply) -> CallError {
    script([reply]).0.call(call).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn call_with_truncated_response_fails_with_connection_error() {
    let error = failed(pods(), Reply::ok("{").break_off()).await;
    assert_eq!(error.kind(), SourceErrorKind::Connection);
    assert_eq!(error.to_string(), "list pods in namespace default: the response was cut off");
}

#[tokio::test(start_paused = true)]
async fn call_with_too_long_query_is_rejected_before_it_is_sent() {
    let (client, requests) = script([Reply::ok("{}")]);
    let error = client.call(pods().query("labelSelector", too_long())).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods in namespace default: the request URL of "));
    assert!(requests.uris().is_empty());
}

#[tokio::test(start_paused = true)]
async fn too_long_continue_token_is_an_error() {
    let (client, requests) = script([Reply::ok("{}")]);
    let next = ListRequest { continue_token: Some(too_long()), ..first_list() };
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), next).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods: the request URL of "));
    assert!(requests.uris().is_empty());
}
