//! What the server can do at most: a first list and a burst of events, read by HTTP alone.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::Instant;

use super::arguments::Encoding;
use super::control::Control;
use super::peer::BURST;
use super::{Failure, Where, gauge, objects, resource};

/// What ends the first state of a streaming list, in JSON and in protobuf.
const INITIAL_END: &[u8] = b"k8s.io/initial-events-end";

pub(super) async fn drain(place: &Where) -> Result<(), Failure> {
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
    let answer = client.request(request).await?;
    if !answer.status().is_success() {
        return Err(format!("the server answers {}", answer.status()).into());
    }
    let mut drain = Drain { body: answer.into_body(), bytes: 0 };
    drain.up_to(if place.list { None } else { Some(INITIAL_END) }).await?;
    let (spent, busy) = (start.elapsed(), gauge::cpu() - busy);
    let mut figures = json!({
        "initial sync, s": spent.as_secs_f64(),
        "initial sync, client CPU s": busy.as_secs_f64(),
        "initial sync, server CPU s": control.cpu().await? - server_before,
        "bytes of the first list, MB": drain.bytes as f64 / 1e6,
    });
    if !place.list && !place.is_real() {
        let count = BURST.min(place.objects);
        control.ask(&format!("burst {count}")).await?;
        let start = Instant::now();
        let last = objects::name_of(count - 1);
        drain.up_to(Some(last.as_bytes())).await?;
        figures["events, a second"] = (count as f64 / start.elapsed().as_secs_f64()).into();
    }
    println!("{figures}");
    Ok(())
}

/// The body of an answer, and how much of it was read.
struct Drain<B> {
    body: B,
    bytes: usize,
}

impl<B: BodyExt<Data = Bytes, Error: std::fmt::Display> + Unpin> Drain<B> {
    /// Reads until these bytes came, or to the end.
    async fn up_to(&mut self, wanted: Option<&[u8]>) -> Result<(), Failure> {
        let mut tail = Vec::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.bytes += data.len();
            if wanted.is_some_and(|wanted| comes(wanted, &mut tail, &data)) {
                break;
            }
        }
        Ok(())
    }
}

/// Whether these bytes are among the last that came: `tail` are those before `data`.
fn comes(wanted: &[u8], tail: &mut Vec<u8>, data: &[u8]) -> bool {
    /// Longer than a bookmark of any kind, and than what follows on the name of an object in its event.
    const LAST: usize = 64 << 10;
    tail.extend_from_slice(&data[data.len().saturating_sub(LAST)..]);
    let found = memchr::memmem::find(tail, wanted).is_some();
    tail.drain(..tail.len().saturating_sub(wanted.len()));
    found
}
