//! Measures the maximum throughput of the server by reading an initial list with plain HTTP.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::Instant;

use super::arguments::Encoding;
use super::control::Control;
use super::{BenchTarget, Failure, gauge, resource};

/// The bytes that mark the end of the initial events of a streaming list, in JSON and in protobuf.
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";

pub(super) async fn drain(place: &BenchTarget) -> Result<(), Failure> {
    let mut control = Control::connect(place).await?;
    control.prepare(place, place.encoding, false).await?;
    let accept = match (place.list, place.encoding) {
        (_, Encoding::Json) => "application/json",
        (true, Encoding::Protobuf) => "application/vnd.kubernetes.protobuf",
        (false, Encoding::Protobuf) => "application/vnd.kubernetes.protobuf;stream=watch",
    };
    let query = if place.list {
        ""
    } else {
        "?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
    };
    let client = place.client().await?;
    let server_before = control.cpu().await?;
    let (start, busy) = (Instant::now(), gauge::cpu());
    let uri = format!("{}{query}", resource(place.kind, 0).gvr().path(None));
    let request = Request::get(uri).header(header::ACCEPT, accept).body(Bytes::new())?;
    let response = client.request(request).await?;
    if !response.status().is_success() {
        return Err(format!("the server responds with {}", response.status()).into());
    }
    let (mut body, mut bytes, mut tail) = (response.into_body(), 0, Vec::new());
    // A response to a list ends after its objects. A response to a streaming list is a watch, which continues
    // after the initial events.
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the list was truncated: {error}"))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        if !place.list && ends(&mut tail, &data) {
            break;
        }
    }
    let (spent, busy) = (start.elapsed(), gauge::cpu() - busy);
    println!(
        "{}",
        json!({
            "initial sync, s": spent.as_secs_f64(),
            "initial sync, client CPU s": busy.as_secs_f64(),
            "initial sync, server CPU s": control.cpu().await? - server_before,
            "bytes of the first list, MB": bytes as f64 / 1e6,
        })
    );
    Ok(())
}

/// Returns true if the received bytes contain [`INITIAL_END`]. `data` is the newest part of the response.
/// `tail` keeps the last bytes of earlier parts, because the marker can be split between two parts.
fn ends(tail: &mut Vec<u8>, data: &[u8]) -> bool {
    /// A number of bytes that is larger than the bookmark that ends the initial events, for any kind.
    const LAST: usize = 2048;
    tail.extend_from_slice(&data[data.len().saturating_sub(LAST)..]);
    tail.drain(..tail.len().saturating_sub(LAST));
    memchr::memmem::find(tail, INITIAL_END).is_some()
}
