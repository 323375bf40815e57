//! A proxy on the loopback interface for the consoles of running programs, the targets.
//!
//! With one target, the proxy forwards the target's own page. The page that shows several targets is served
//! by the proxy itself, so that it does not depend on one of them.
//!
//! # Invariants
//!
//! 1. The proxy forwards only reads of paths of the console, and actions if they are allowed. Because it adds
//!    a token, it refuses requests that a page of another site may have sent. The user may follow a link on
//!    such a page.
//! 2. No response of one of several targets can run a script in the page, which shows the data of the others:
//!    such a response has only the headers of the proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use informer::client::ResponseBody;
use informer::runtime::console::page_file;
use informer_http::{ForeignRequest, OriginPolicy};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::events::MergedEvents;
use super::routes::{PAGE, ProxyRoute};
use crate::failure::Failure;
use crate::live::ConsoleClient;

/// The maximum number of connections. A browser opens six to a server.
const MAX_CONNECTIONS: usize = 64;

const HEADER_TIMEOUT: Duration = Duration::from_secs(32);

/// The headers of a response that are forwarded.
const FORWARDED: [HeaderName; 7] = [
    CACHE_CONTROL,
    CONTENT_SECURITY_POLICY,
    CONTENT_TYPE,
    HeaderName::from_static("cross-origin-resource-policy"),
    LOCATION,
    REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
];

/// The delay after a connection that could not be accepted, for example because of too many open files.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// The headers of an action that are forwarded.
const ACTION_HEADERS: [HeaderName; 2] = [CONTENT_TYPE, HeaderName::from_static("x-informer-token")];

/// The maximum size of the body of an action, which names a controller or an informer and a key.
const MAX_ACTION_BYTES: usize = 64 << 10;

/// The programs, and whether the page may run actions on them.
#[derive(Clone)]
struct ConsoleProxy {
    targets: Arc<[ConsoleClient]>,
    allows_actions: bool,
}

/// Serves until the future is dropped.
pub(super) async fn serve(
    targets: Vec<ConsoleClient>,
    address: SocketAddr,
    allows_actions: bool,
) -> Result<(), Failure> {
    let proxy = ConsoleProxy { targets: targets.into(), allows_actions };
    let failed = |error| Failure::io(&format!("listen on {address}"), error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    println!("http://{address}{PAGE}/");
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Dropping the set ends the connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
        tokio::select! {
            accepted = listener.accept() => {
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_DELAY).await;
                        continue;
                    }
                };
                let proxy = proxy.clone();
                connections.spawn(async move {
                    connection(stream, proxy).await;
                    drop(slot);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, proxy: ConsoleProxy) {
    let respond = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.respond(request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), respond).await {
        tracing::debug!(%error, "connection failed");
    }
}

impl ConsoleProxy {
    async fn respond(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let refused = refusal(request.method(), request.uri(), request.headers(), self.allows_actions);
        if let Some(refused) = refused {
            return refused;
        }
        match ProxyRoute::new(request.method(), request.uri(), self.targets.len()) {
            Some(ProxyRoute::Page(path)) => page_file(&path).map(|file| ResponseBody::new(Full::new(file))),
            Some(ProxyRoute::Targets) => self.list(),
            Some(ProxyRoute::Events) => {
                let events = MergedEvents::open(&self.targets, self.allows_actions);
                typed("text/event-stream", ResponseBody::new(events))
            }
            Some(ProxyRoute::Forward { target, path }) => match self.targets.get(target) {
                Some(client) if self.targets.len() == 1 => forward(client, &path, request).await,
                Some(client) => isolated(client, forward(client, &path, request).await),
                None => not_found(),
            },
            None => not_found(),
        }
    }

    /// Lists the targets in the order of their numbers.
    fn list(&self) -> Response<ResponseBody> {
        let targets = self.targets.iter().map(|target| json!({"name": target.name()}));
        let list = json!({"targets": targets.collect::<Vec<_>>()});
        typed("application/json", ResponseBody::new(Full::new(Bytes::from(list.to_string()))))
    }
}

async fn forward(client: &ConsoleClient, path: &str, request: Request<Incoming>) -> Response<ResponseBody> {
    let forwarded = if *request.method() == Method::POST {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_ACTION_BYTES).collect().await else {
            return text(StatusCode::BAD_REQUEST, "400: the body is incomplete or too large\n");
        };
        client.post(path, action_headers(&head.headers), body.to_bytes()).await
    } else {
        client.get(path).await
    };
    match forwarded {
        Ok(upstream) => {
            let (parts, body) = upstream.into_parts();
            let mut response = Response::new(body);
            *response.status_mut() = parts.status;
            for name in FORWARDED {
                if let Some(value) = parts.headers.get(&name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            response
        }
        Err(problem) => {
            let name = client.name();
            text(StatusCode::BAD_GATEWAY, format!("502: request to the program {name} failed: {problem}\n"))
        }
    }
}

/// Replaces the headers of a response of one of several targets. A redirect could lead to the data of
/// another target, and is an error.
fn isolated(client: &ConsoleClient, response: Response<ResponseBody>) -> Response<ResponseBody> {
    let status = response.status();
    if status.is_redirection() {
        let name = client.name();
        let problem = format!("502: the program {name} responded with the redirect {status}\n");
        return text(StatusCode::BAD_GATEWAY, problem);
    }
    let content_type = if status.is_success() { "application/json" } else { "text/plain; charset=utf-8" };
    let mut response = typed(content_type, response.into_body());
    *response.status_mut() = status;
    response
}

fn action_headers(headers: &HeaderMap) -> HeaderMap {
    let kept = ACTION_HEADERS.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.clone();
        Some((name, value))
    });
    kept.collect()
}

fn not_found() -> Response<ResponseBody> {
    text(StatusCode::NOT_FOUND, format!("404: the page is at {PAGE}/\n"))
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = ResponseBody::new(Full::new(text.into()));
    let mut response = typed("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

/// Returns a response of the proxy itself, which no other site may read or embed.
fn typed(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

fn refusal(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    allows_actions: bool,
) -> Option<Response<ResponseBody>> {
    let forbidden = |problem: &str| Some(text(StatusCode::FORBIDDEN, format!("403: {problem}\n")));
    let policy = OriginPolicy { links: true, ..OriginPolicy::default() };
    if let Err(foreign) = policy.check(method, uri, headers) {
        let remedy = match foreign {
            ForeignRequest::Host(_) => "use 127.0.0.1",
            ForeignRequest::Origin(_) | ForeignRequest::Site => "open the page of the console itself",
        };
        return forbidden(&format!("{foreign}; {remedy}"));
    }
    match *method {
        Method::GET | Method::HEAD => None,
        Method::POST if allows_actions => None,
        Method::POST => forbidden("this proxy is read only; start it with --allow-actions"),
        _ => Some(text(StatusCode::METHOD_NOT_ALLOWED, "405: use GET, or POST for actions\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_headers_of_an_action_are_forwarded() {
        let headers =
            [("x-informer-token", "a"), ("content-type", "application/json"), ("authorization", "b")];
        let headers =
            headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let kept = action_headers(&headers.into_iter().collect());
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "x-informer-token"]);
    }

    #[test]
    fn requests_of_other_sites_and_actions_that_are_not_allowed_are_refused() {
        let status = |method: Method, allows_actions, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let uri = Uri::from_static("/debug/informer/v1/actions/relist");
            refusal(&method, &uri, &headers.collect(), allows_actions)
                .map(|response| response.status().as_u16())
        };
        let own = ("host", "127.0.0.1:8082");
        let link = [
            own,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(status(Method::GET, false, &[own]), None);
        assert_eq!(status(Method::GET, false, &[own, ("origin", "http://127.0.0.1:8082")]), None);
        assert_eq!(status(Method::GET, false, &link), None);
        assert_eq!(status(Method::GET, false, &[("host", "attacker.example:8082")]), Some(403));
        assert_eq!(status(Method::GET, false, &[own, ("origin", "http://attacker.example")]), Some(403));
        assert_eq!(status(Method::GET, false, &[own, ("sec-fetch-site", "same-site")]), Some(403));
        assert_eq!(status(Method::POST, false, &[own]), Some(403));
        assert_eq!(status(Method::POST, true, &[own]), None);
        assert_eq!(status(Method::POST, true, &link), Some(403));
        assert_eq!(status(Method::DELETE, true, &[own]), Some(405));
    }
}
