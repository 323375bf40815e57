//! One call: connect, speak TLS, send, read the answer; its failures in upstream's words.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{ClientConfig, PORT, Webhooks, tls};
use crate::clock::Clock;

/// The longest answer that is read; the objects in it are bounded by 3 MiB each, and base64 adds a third.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A call that failed: why, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallError(String);

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is called, and for how long.
pub(crate) struct Post<'a> {
    pub(crate) config: &'a ClientConfig,
    pub(crate) user_agent: &'a str,
    pub(crate) timeout: Duration,
}

/// A configuration, resolved.
struct Target {
    /// As errors show it.
    url: String,
    /// Host and port, as they are in the URL.
    host: String,
    server_name: String,
    /// Where the connection goes.
    authority: Result<String, String>,
    path: String,
}

impl Webhooks {
    /// Sends a body, and answers the body that comes back with a success.
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
            answer = self.exchange(call, &target, body) => {
                let answer = answer.map_err(failed)?;
                match answer.status {
                    200..=299 if answer.body.is_empty() => Err(CallError(format!(
                        "0-length response with status code: {} and content type: {}",
                        answer.status, answer.content_type
                    ))),
                    200..=299 => Ok(answer.body),
                    _ => Err(CallError(answer.refusal())),
                }
            }
            () = clock.sleep_until(deadline) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    fn target(&self, call: &Post<'_>) -> Result<Target, CallError> {
        let timeout = format!("?timeout={}s", call.timeout.as_secs());
        if let Some(service) = &call.config.service {
            let server_name = format!("{}.{}.svc", service.name, service.namespace);
            let host = format!("{server_name}:{}", service.port.unwrap_or(PORT));
            let path = cleaned(service.path.as_deref().unwrap_or_default());
            let route = self.service(&service.namespace, &service.name);
            let authority = route.ok_or_else(|| format!("service {:?} not found", service.name));
            let path = format!("{path}{timeout}");
            return Ok(Target { url: format!("https://{host}{path}"), host, server_name, authority, path });
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
        let path = format!("{}{timeout}", cleaned(uri.path()));
        let url = format!("https://{host}{path}");
        Ok(Target { url, host, server_name, authority: Ok(authority), path })
    }

    async fn exchange(&self, call: &Post<'_>, target: &Target, body: Vec<u8>) -> Result<Answer, String> {
        let authority = target.authority.clone()?;
        let connector = TlsConnector::from(tls::trusting(call.config.ca_bundle.as_deref())?);
        let name = ServerName::try_from(target.server_name.clone()).map_err(|error| error.to_string())?;
        let handshake_failed = |error: std::io::Error| tls::failure(&error, &target.server_name);
        if let Some(connect) = self.connector(&authority) {
            let socket = connector.connect(name, connect()).await.map_err(handshake_failed)?;
            return send(socket, call, target, body).await;
        }
        let socket =
            TcpStream::connect(&authority).await.map_err(|error| dial_failure(&authority, &error))?;
        let socket = connector.connect(name, socket).await.map_err(handshake_failed)?;
        send(socket, call, target, body).await
    }
}

async fn send<S>(socket: S, call: &Post<'_>, target: &Target, body: Vec<u8>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = Request::post(&target.path)
        .header(HOST, &target.host)
        .header(USER_AGENT, call.user_agent)
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let broken = |error: hyper::Error| match error.is_incomplete_message() {
        true => "EOF".to_owned(),
        false => error.to_string(),
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
    let exchange = async {
        let answer: Response<Incoming> = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(Answer {
            status: head.status.as_u16(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: body.to_bytes(),
        })
    };
    tokio::pin!(connection, exchange);
    // The connection is driven until the answer is there; then it may go.
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        ended = &mut connection => match ended {
            // What had come before the end is still to be read.
            Ok(()) => exchange.await,
            Err(error) => Err(broken(error)),
        },
    }
}

fn dial_failure(authority: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        std::io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {authority}: {why}")
}

/// What came back.
struct Answer {
    status: u16,
    content_type: String,
    body: Bytes,
}

impl Answer {
    /// What upstream's client makes of an answer that is no success. Only text is repeated.
    fn refusal(&self) -> String {
        let textual = self.content_type.is_empty() || self.content_type.starts_with("text/");
        let said = String::from_utf8_lossy(&self.body);
        refusal(self.status, if textual { said.trim() } else { "unknown" })
    }
}

fn refusal(status: u16, said: &str) -> String {
    match status {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => said.to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {status} but did not return more information"),
    }
}

/// A path as upstream's client asks for it: without empty segments, `.`, `..` and a slash at its end. Configurations of envtest
/// have two slashes at the beginning, which Go's servers redirect.
fn cleaned(path: &str) -> String {
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
    use super::cleaned;

    #[test]
    fn paths_are_asked_for_in_their_shortest_form() {
        let cases =
            [("", "/"), ("/", "/"), ("//failing", "/failing"), ("/a/./b/../c/", "/a/c"), ("/../x", "/x")];
        for (path, asked) in cases {
            assert_eq!(cleaned(path), asked, "{path}");
        }
    }
}
