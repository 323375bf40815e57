//! Watches over WebSocket, the default of some clients for Java and JavaScript.
//!
//! Each watch event is one message: text for JSON, binary for protobuf. The server ignores the messages of
//! the client, and closes the connection at the end of the watch.

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, CONTENT_TYPE, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, request};
use http_body_util::BodyExt;
use informer_http::{LongRunning, Serving, Upgrade, UpgradedIo};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::http::body::SocketBody;
use crate::http::response::{self, ApiResponse};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
/// The version of the protocol that the server supports (RFC 6455).
const SUPPORTED_VERSION: &str = "13";
/// Maximum size in bytes of a message from the client, which has nothing to send.
const MAX_RECEIVED_BYTES: usize = 4 << 10;
/// Length of the prefix of a protobuf event, which holds the length of the event.
const PREFIX_BYTES: usize = 4;

/// The headers of a request that asks for the WebSocket protocol.
#[derive(Debug)]
pub(super) struct Handshake {
    key: HeaderValue,
    version: HeaderValue,
    protocol: Option<HeaderValue>,
    has_origin: bool,
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
}

impl Handshake {
    /// Reads the handshake of a request; returns `None` if it does not ask for WebSocket.
    pub(super) fn of(head: &request::Parts) -> Option<Self> {
        let headers = &head.headers;
        let is_upgrade =
            has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket");
        let get = |name: &HeaderName| headers.get(name).cloned();
        (is_upgrade && head.version < http::Version::HTTP_2).then(|| Self {
            key: get(&KEY).unwrap_or_else(|| HeaderValue::from_static("")),
            version: get(&VERSION).unwrap_or_else(|| HeaderValue::from_static("")),
            protocol: get(&PROTOCOL),
            has_origin: headers.contains_key(ORIGIN),
        })
    }

    /// Returns the response that switches a watch to WebSocket. Other responses stay as they are.
    pub(super) fn switch(self, watch: ApiResponse, serving: Serving) -> Response<SocketBody> {
        let is_watch = watch.status() == StatusCode::OK && watch.extensions().get::<LongRunning>().is_some();
        if !is_watch {
            return watch.map(|body| SocketBody::new(body, serving));
        }
        if let Err((status, why)) = self.check() {
            let mut refused = response::text(status, why);
            refused.headers_mut().clear();
            if status == 400 {
                refused.headers_mut().insert(VERSION, HeaderValue::from_static(SUPPORTED_VERSION));
            }
            return refused.map(|body| SocketBody::new(body, serving));
        }
        let is_text = !watch
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|media_type| media_type.contains("protobuf"));
        let body = SocketBody::new(watch.into_body(), serving);
        let mut switched = response::text(101, "").map(SocketBody::unguarded);
        let headers = switched.headers_mut();
        headers.clear();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        let accept = derive_accept_key(self.key.as_bytes());
        headers.insert(ACCEPT, accept.parse().expect("base64 is a valid header value"));
        if let Some(protocol) = self.single_protocol() {
            headers.insert(PROTOCOL, protocol.clone());
        }
        switched.extensions_mut().insert(Upgrade::new(move |io| serve(io, body, is_text)));
        switched
    }

    fn check(&self) -> Result<(), (u16, &'static str)> {
        if self.version != SUPPORTED_VERSION || self.key.is_empty() {
            return Err((400, "missing or bad WebSocket Version"));
        }
        // As in kube-apiserver, the client must name its origin.
        if !self.has_origin {
            return Err((403, ""));
        }
        Ok(())
    }

    /// Returns the protocol that the client offers, if it is only one.
    fn single_protocol(&self) -> Option<&HeaderValue> {
        self.protocol.as_ref().filter(|protocol| !protocol.as_bytes().contains(&b','))
    }
}

/// Sends the events of a watch until it ends or the client closes the connection.
async fn serve(io: UpgradedIo, mut body: SocketBody, is_text: bool) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_RECEIVED_BYTES))
        .max_frame_size(Some(MAX_RECEIVED_BYTES));
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, mut received) = socket.split();
    let send = async {
        let mut pending = BytesMut::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(mut data) = frame.into_data() else { continue };
            pending.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            while let Some(event) = next_event(&mut pending, is_text) {
                let text = is_text.then(|| Utf8Bytes::try_from(event.clone()).ok()).flatten();
                let message = text.map_or(Message::Binary(event), Message::Text);
                sink.feed(message).await?;
            }
            sink.flush().await?;
        }
        sink.close().await
    };
    // Reading also answers pings.
    let receive = async { while let Some(Ok(_)) = received.next().await {} };
    tokio::select! {
        _ = send => {}
        () = receive => {}
    }
}

/// Takes the next complete event: a line of JSON, or a length and that many bytes of protobuf.
fn next_event(pending: &mut BytesMut, is_text: bool) -> Option<Bytes> {
    if is_text {
        let end = pending.iter().position(|byte| *byte == b'\n')?;
        return Some(pending.split_to(end + 1).freeze());
    }
    let prefix: [u8; PREFIX_BYTES] = pending.get(..PREFIX_BYTES)?.try_into().ok()?;
    let end = PREFIX_BYTES + usize::try_from(u32::from_be_bytes(prefix)).ok()?;
    (pending.len() >= end).then(|| pending.split_to(end).freeze().slice(PREFIX_BYTES..))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::next_event;

    #[test]
    fn events_are_split_at_any_chunk_boundary() {
        let mut lines = BytesMut::from(&b"{}\n[1"[..]);
        assert_eq!(next_event(&mut lines, true).as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(next_event(&mut lines, true), None);
        let mut frames = BytesMut::from(&[0, 0, 0, 2, 7, 8, 0, 0][..]);
        assert_eq!(next_event(&mut frames, false).as_deref(), Some(&[7, 8][..]));
        assert_eq!(next_event(&mut frames, false), None);
    }
}
