//! Compression of large responses for clients that accept gzip.

use std::io::Read;

use http_body_util::BodyExt;
use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::json;

use crate::support::{call, send_with};

const GZIP: (&str, &str) = ("accept-encoding", "gzip");

fn with_map(builder: informer_apiserver::ApiServerBuilder, letters: usize) -> ApiServer {
    let server = builder.build();
    let map = json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(letters)}});
    server.create(&Gvr::new("", "v1", "configmaps"), "default", map).unwrap();
    server
}

#[tokio::test]
async fn responses_over_128_kib_are_compressed_without_changing_the_content() {
    let path = "/api/v1/namespaces/default/configmaps/big";
    let server = with_map(ApiServer::builder(), 1000);
    let more = 131_072 - call(&server, "GET", path, "").await.1.len();
    for (letters, compressed) in [(1000 + more, false), (1001 + more, true)] {
        let server = with_map(ApiServer::builder(), letters);
        let (_, plain) = call(&server, "GET", path, "").await;
        let response = send_with(&server, "GET", path, &[GZIP], "").await;
        assert_eq!(response.headers().contains_key("content-encoding"), compressed, "{} bytes", plain.len());
        assert_eq!(response.headers().get("vary").is_some_and(|vary| vary == "Accept-Encoding"), compressed);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        if compressed {
            let mut text = String::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
            assert_eq!(text, plain);
            assert!(bytes.len() < plain.len() / 10);
        }
    }
}

#[tokio::test]
async fn a_long_list_is_compressed_while_it_is_streamed() {
    let server = ApiServer::builder().build();
    let objects =
        (0..2000).map(|n| json!({"metadata": {"name": format!("m-{n:05}")}, "data": {"k": "v".repeat(500)}}));
    server.load(&Gvr::new("", "v1", "configmaps"), objects).unwrap();
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let asked = [("accept", accept), GZIP];
        let plain = send_with(&server, "GET", "/api/v1/configmaps", &asked[..1], "").await;
        let plain = plain.into_body().collect().await.unwrap().to_bytes();
        let mut packed = send_with(&server, "GET", "/api/v1/configmaps", &asked, "").await.into_body();
        let (mut pieces, mut bytes) = (0, Vec::new());
        while let Some(frame) = packed.frame().await {
            pieces += 1;
            bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        assert!(pieces > 1, "the response is streamed before the end of the list");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_and_servers_without_compression_are_not_compressed() {
    let server = with_map(ApiServer::builder(), 200_000);
    let watch = "/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1";
    let response = send_with(&server, "GET", watch, &[GZIP], "").await;
    assert!(!response.headers().contains_key("content-encoding"));
    let server = with_map(ApiServer::builder().compression(false), 200_000);
    let response = send_with(&server, "GET", "/api/v1/configmaps", &[GZIP], "").await;
    assert!(!response.headers().contains_key("content-encoding"));
}
