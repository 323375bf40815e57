//! Requests with one object to either server.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::target::{SendError, Target, read_all};

/// The parts of a response that are compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) message: String,
    /// The field and the reason of each cause, sorted.
    pub(super) causes: Vec<(String, String)>,
    /// The returned object; `null` if the request was rejected.
    pub(super) body: Value,
}

impl Response {
    fn new(status: u16, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rejected = status >= 400;
        let causes = body["details"]["causes"].as_array().filter(|_| rejected).into_iter().flatten();
        let mut causes: Vec<_> =
            causes.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect();
        causes.sort_unstable();
        if rejected {
            let (reason, message) = (text(&body["reason"]), text(&body["message"]));
            Self { status, reason, message, causes, body: Value::Null }
        } else {
            Self { status, reason: String::new(), message: String::new(), causes, body }
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.message)
    }
}

/// A connection to a server. It is opened by the first request, and again after an error.
pub(super) struct Connection<'t> {
    target: &'t Target,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl<'t> Connection<'t> {
    pub(super) fn new(target: &'t Target) -> Self {
        Self { target, open: None }
    }

    pub(super) fn server(&self) -> &'static str {
        match self.target {
            Target::Embedded(_) => "embedded",
            Target::Real { .. } => "real",
        }
    }

    pub(super) async fn send(
        &mut self,
        method: &str,
        path: &str,
        object: &Value,
    ) -> Result<Response, SendError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer admin-token")
            .header("content-type", "application/json")
            .header("user-agent", "differential/1")
            .header("host", "127.0.0.1")
            .body(Full::new(Bytes::from(object.to_string())))?;
        let Target::Real { port, tls } = self.target else {
            let response = self.target.send(request).await?;
            let status = response.status().as_u16();
            return Ok(Response::new(status, &read_all(response.into_body()).await?));
        };
        let failed = |error: &dyn std::error::Error| SendError::Connection(error.to_string().into());
        let mut sender = match self.open.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => {
                let socket =
                    TcpStream::connect(("127.0.0.1", *port)).await.map_err(|error| failed(&error))?;
                let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
                let socket = TlsConnector::from(tls.clone()).connect(name, socket).await;
                let socket = socket.map_err(|error| failed(&error))?;
                let made = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
                let (sender, connection) = made.map_err(|error| failed(&error))?;
                // The task ends when the sender is dropped.
                drop(tokio::spawn(connection));
                sender
            }
        };
        sender.ready().await.map_err(|error| failed(&error))?;
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        self.open = Some(sender);
        Ok(Response::new(status, &body))
    }
}
