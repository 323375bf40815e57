//! Calls, where the server or the caller does not do its part.

use informer_cache::source::{ListRequest, SourceErrorKind};
use informer_client::{Call, CallError, KubeListWatch, Lazy, ResourceKind};
use k8s_openapi::api::core::v1::Pod;

use crate::script::{Reply, first_list, list, script};

/// Over what an address can hold.
fn endless() -> String {
    "x".repeat(1 << 16)
}

fn pods() -> Call {
    Call::list(&ResourceKind::of::<Pod>(), Some("default"))
}

async fn failed(call: Call, reply: Reply) -> CallError {
    script([reply]).0.call(call).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_within_an_answer_is_told_from_an_answer_that_makes_no_sense() {
    let error = failed(pods(), Reply::ok("{").break_off()).await;
    assert_eq!(error.kind(), SourceErrorKind::Connection);
    assert_eq!(error.to_string(), "list pods in namespace default: the answer broke off");
}

#[tokio::test(start_paused = true)]
async fn a_call_with_an_endless_parameter_is_an_error_and_is_not_sent() {
    let (client, requests) = script([Reply::ok("{}")]);
    let error = client.call(pods().query("labelSelector", endless())).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods in namespace default: the request cannot be written"));
    assert!(requests.uris().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_gives_an_endless_token_makes_for_an_error_not_a_panic() {
    let (client, requests) = script([Reply::ok("{}")]);
    let next = ListRequest { continue_token: Some(endless()), ..first_list() };
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), next).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Rejected);
    assert!(error.to_string().starts_with("list pods: the request cannot be written"));
    assert!(requests.uris().is_empty());
}
