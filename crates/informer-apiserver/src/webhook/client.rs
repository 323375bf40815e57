//! A webhook call: connect, TLS handshake, request, response. Errors have the messages of kube-apiserver.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, Uri, response};
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{ClientConfig, Handler, PORT, ServiceRoute, Webhooks, tls};
use crate::clock::Clock;

/// Maximum size of a webhook response in bytes. Each object in it has at most 3 MiB, and base64 adds a third.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The error of a webhook call, with the message of kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallError(String);

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) struct Post<'a> {
    pub(crate) config: &'a ClientConfig,
    pub(crate) user_agent: &'a str,
    pub(crate) timeout: Duration,
}

struct WebhookEndpoint {
    /// The URL in error messages.
    url: String,
    /// The host and port in the URL, for the `Host` header.
    host: String,
    server_name: String,
    /// The destination of the call, or the error that no route exists for the Service.
    route: Result<ServiceRoute, String>,
    path: String,
}

impl WebhookEndpoint {
    fn request(&self, call: &Post<'_>, body: Vec<u8>) -> Result<Request<Bytes>, String> {
        let request = Request::post(&self.path)
            .header(HOST, &self.host)
            .header(USER_AGENT, call.user_agent)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json");
        request.body(Bytes::from(body)).map_err(|error| error.to_string())
    }
}

impl Webhooks {
    /// Sends a body to a webhook and returns the body of its response. Any status other than success is an
    /// error.
    pub(crate) async fn post(
        &self,
        clock: &dyn Clock,
        call: &Post<'_>,
        body: Vec<u8>,
    ) -> Result<Bytes, CallError> {
        let target = self.target(call)?;
        let failed = |why: String| CallError(format!("Post {:?}: {why}", target.url));
        let deadline = clock.elapsed() + call.timeout;
        tokio::select! {
            biased;
            response = self.exchange(call, &target, body, clock.timestamp()) => {
                let response = response.map_err(failed)?;
                match response.status {
                    200..=299 if response.body.is_empty() => Err(CallError(format!(
                        "0-length response with status code: {} and content type: {}",
                        response.status, response.content_type
                    ))),
                    200..=299 => Ok(response.body),
                    _ => Err(CallError(response.status_message())),
                }
            }
            () = clock.sleep_until(deadline) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    fn target(&self, call: &Post<'_>) -> Result<WebhookEndpoint, CallError> {
        let timeout = format!("?timeout={}s", call.timeout.as_secs());
        if let Some(service) = &call.config.service {
            let server_name = format!("{}.{}.svc", service.name, service.namespace);
            let host = format!("{server_name}:{}", service.port.unwrap_or(PORT));
            let path = normalize_path(service.path.as_deref().unwrap_or_default());
            let route = self.service(&service.namespace, &service.name);
            let route = route.ok_or_else(|| format!("service {:?} not found", service.name));
            let path = format!("{path}{timeout}");
            return Ok(WebhookEndpoint {
                url: format!("https://{host}{path}"),
                host,
                server_name,
                route,
                path,
            });
        }
        let url = call.config.url.as_deref().unwrap_or_default();
        let unusable = || CallError(format!("could not get REST client: Unparsable URL: {url:?}"));
        let uri: Uri = url.parse().map_err(|_| unusable())?;
        let server_name = uri.host().ok_or_else(unusable)?.trim_matches(['[', ']']).to_owned();
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let authority = match uri.port_u16() {
            Some(_) => host.clone(),
            None => format!("{host}:{PORT}"),
        };
        let path = format!("{}{timeout}", normalize_path(uri.path()));
        let url = format!("https://{host}{path}");
        Ok(WebhookEndpoint { url, host, server_name, route: Ok(ServiceRoute::Authority(authority)), path })
    }

    async fn exchange(
        &self,
        call: &Post<'_>,
        target: &WebhookEndpoint,
        body: Vec<u8>,
        now: Timestamp,
    ) -> Result<WebhookResponse, String> {
        let request = target.request(call, body)?;
        let authority = match target.route.clone()? {
            ServiceRoute::Authority(authority) => authority,
            ServiceRoute::Handler(handler) => return handle(&handler, request).await,
        };
        let connector = TlsConnector::from(tls::client_config(call.config.ca_bundle.as_deref(), now)?);
        let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
        let handshake_failed = |error: std::io::Error| tls::handshake_error(&error, &target.server_name);
        if let Some(connect) = self.connector(&authority) {
            let socket = connector.connect(name, connect()).await.map_err(handshake_failed)?;
            return send(socket, request).await;
        }
        let socket = TcpStream::connect(&authority).await.map_err(|error| dial_error(&authority, &error))?;
        let socket = connector.connect(name, socket).await.map_err(handshake_failed)?;
        send(socket, request).await
    }
}

/// Calls a webhook in this process. Its response has the same limits as one from a connection.
async fn handle(handler: &Handler, request: Request<Bytes>) -> Result<WebhookResponse, String> {
    let (head, body) = handler(request).await.map(Full::new).into_parts();
    WebhookResponse::read(&head, body).await
}

async fn send<S>(socket: S, request: Request<Bytes>) -> Result<WebhookResponse, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection_error = |error: hyper::Error| {
        if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(connection_error)?;
    let exchange = async {
        let request = request.map(Full::new);
        let response: Response<Incoming> = sender.send_request(request).await.map_err(connection_error)?;
        let (head, body) = response.into_parts();
        WebhookResponse::read(&head, body).await
    };
    tokio::pin!(connection, exchange);
    // The connection is polled only until the response is complete, and then dropped.
    tokio::select! {
        biased;
        response = &mut exchange => response,
        ended = &mut connection => match ended {
            // The connection has ended, but the response may already be in its buffer.
            Ok(()) => exchange.await,
            Err(error) => Err(connection_error(error)),
        },
    }
}

fn dial_error(authority: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        std::io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {authority}: {why}")
}

struct WebhookResponse {
    status: u16,
    content_type: String,
    body: Bytes,
}

impl WebhookResponse {
    async fn read<B>(head: &response::Parts, body: B) -> Result<Self, String>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let body =
            Limited::new(body, MAX_RESPONSE_BYTES).collect().await.map_err(|error| error.to_string())?;
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(Self {
            status: head.status.as_u16(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: body.to_bytes(),
        })
    }

    /// Returns the error message of client-go for an unsuccessful HTTP status. It contains the response body
    /// only if that is text.
    fn status_message(&self) -> String {
        let textual = self.content_type.is_empty() || self.content_type.starts_with("text/");
        let body_text = String::from_utf8_lossy(&self.body);
        status_message(self.status, if textual { body_text.trim() } else { "unknown" })
    }
}

fn status_message(status: u16, body_text: &str) -> String {
    match status {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => body_text.to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500.. => format!("an error on the server ({body_text:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {status} but did not return more information"),
    }
}

/// Normalizes the URL path of a webhook like client-go: removes empty segments, `.`, `..` and a trailing
/// slash. Webhook configurations of envtest begin with two slashes, which Go servers would redirect.
fn normalize_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::normalize_path;

    #[test]
    fn webhook_path_is_normalized() {
        let cases =
            [("", "/"), ("/", "/"), ("//failing", "/failing"), ("/a/./b/../c/", "/a/c"), ("/../x", "/x")];
        for (path, asked) in cases {
            assert_eq!(normalize_path(path), asked, "{path}");
        }
    }
}
