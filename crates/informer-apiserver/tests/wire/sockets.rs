//! The server on a socket.

use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use informer_apiserver::{ApiServer, FaultAction, FaultMatch, Verb};
use informer_core::Gvr;
use serde_json::{Value, json};

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn filled(count: usize) -> ApiServer {
    let server = ApiServer::builder().build();
    let objects =
        (0..count).map(|i| json!({"metadata": {"name": format!("c{i:04}")}, "data": {"x": "y".repeat(500)}}));
    server.load(&maps(), objects).unwrap();
    server
}

#[tokio::test]
async fn a_large_list_arrives_whole_over_http_1_and_2() {
    let server = filled(2_000);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    for http2 in [false, true] {
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        let uri = format!("{}/api/v1/configmaps", listening.url()).parse().unwrap();
        let response = client.get(uri).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 2_000);
    }
    assert_eq!(server.count_requests(Verb::List, "configmaps"), 2);
    listening.shutdown().await;
}

#[tokio::test]
async fn an_abrupt_cut_is_an_error_of_the_connection_and_a_clean_one_is_not() {
    let server = filled(100);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    for abrupt in [true, false] {
        server.faults().clear();
        let cut = FaultAction::Cut { after_events: None, after_bytes: Some(5_000), abrupt };
        let fault = server.faults().on(FaultMatch::list("configmaps")).then(cut);
        let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let uri = format!("{}/api/v1/configmaps", listening.url()).parse().unwrap();
        let body = client.get(uri).await.unwrap().into_body().collect().await;
        assert_eq!(body.is_err(), abrupt);
        if let Ok(body) = body {
            assert_eq!(body.to_bytes().len(), 5_000);
        }
        assert_eq!(fault.fired(), 1);
    }
}

#[tokio::test]
async fn shutdown_ends_watches_properly_and_returns() {
    let server = filled(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri = format!("{}/api/v1/configmaps?watch=1", listening.url()).parse().unwrap();
    let mut body = client.get(uri).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().unwrap().data_ref().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    let rest = tokio::spawn(body.collect());
    listening.shutdown().await;
    assert!(rest.await.unwrap().unwrap().to_bytes().is_empty());
}
