//! What the server can do at most: a first list, read by HTTP alone.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::control::Control;
use crate::{Encoding, Failure, Where, gauge};

pub(crate) async fn drain(place: &Where) -> Result<(), Failure> {
    let mut control = Control::connect(place).await?;
    let bytes = control.prepare(place).await?;
    let address = place.server.strip_prefix("http://").ok_or("the server has no http URL")?;
    let (query, accept) = match (place.list, place.encoding) {
        (true, Encoding::Json) => ("", "application/json"),
        (true, Encoding::Protobuf) => ("", "application/vnd.kubernetes.protobuf"),
        (false, Encoding::Json) => ("?watch=true&sendInitialEvents=true", "application/json"),
        (false, Encoding::Protobuf) => {
            ("?watch=true&sendInitialEvents=true", "application/vnd.kubernetes.protobuf;stream=watch")
        }
    };
    let server_before = control.cpu().await?;
    let (start, busy) = (Instant::now(), gauge::cpu());
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let uri = format!("{}{query}", place.kind.gvr().path(None));
    let request = Request::get(uri).header(header::HOST, address).header(header::ACCEPT, accept);
    let mut body = sender.send_request(request.body(Empty::<Bytes>::new())?).await?.into_body();
    let mut left = bytes;
    while left > 0.0 {
        let frame = body.frame().await.ok_or("the list is shorter than it was")??;
        left -= frame.data_ref().map_or(0.0, |data| data.len() as f64);
    }
    let (spent, busy) = (start.elapsed(), gauge::cpu() - busy);
    println!(
        "{}",
        json!({
            "initial sync, s": spent.as_secs_f64(),
            "initial sync, client CPU s": busy.as_secs_f64(),
            "initial sync, server CPU s": control.cpu().await? - server_before,
            "bytes of the first list, MB": bytes / 1e6,
        })
    );
    Ok(())
}
