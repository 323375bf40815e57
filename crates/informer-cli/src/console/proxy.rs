//! A proxy on the loopback interface for the console of a running program.
//!
//! # Invariants
//!
//! It forwards only GET and HEAD requests for paths of the console. Because it adds a token, it refuses
//! requests that a page of another site may have sent: those with a `Host` that is not local, with another
//! `Origin`, or with `Sec-Fetch-Site: cross-site` other than the navigation of a link.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, LOCATION, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use informer::client::ResponseBody;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::live::ConsoleClient;

const PAGE: &str = "/debug/informer";

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

type ProxyBody = Either<ResponseBody, Full<Bytes>>;

/// Serves until the future is dropped.
pub(super) async fn serve(client: ConsoleClient, address: SocketAddr) -> Result<(), Failure> {
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
                let client = client.clone();
                connections.spawn(async move {
                    connection(stream, client, address.port()).await;
                    drop(slot);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, client: ConsoleClient, port: u16) {
    let respond = service_fn(move |request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(respond(&client, &request, port).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), respond).await {
        tracing::debug!(%error, "connection failed");
    }
}

async fn respond(client: &ConsoleClient, request: &Request<Incoming>, port: u16) -> Response<ProxyBody> {
    if let Some(refused) = refusal(request.method(), request.headers(), port) {
        return refused;
    }
    let Some(rest) = console_path(request.uri()) else {
        return text(StatusCode::NOT_FOUND, format!("404: the page is at {PAGE}/\n"));
    };
    match client.get(&rest).await {
        Ok(upstream) => {
            let (parts, body) = upstream.into_parts();
            let mut response = Response::new(Either::Left(body));
            *response.status_mut() = parts.status;
            for name in FORWARDED {
                if let Some(value) = parts.headers.get(&name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            response
        }
        Err(problem) => {
            text(StatusCode::BAD_GATEWAY, format!("502: request to the program failed: {problem}\n"))
        }
    }
}

/// The paths of the console below [`PAGE`].
const PATHS: [&str; 7] =
    ["", "/", "/console.css", "/console.js", "/v1/snapshot", "/v1/events", "/v1/history"];

/// Returns the path and query of a request below [`PAGE`]; `None` if it is not a path of the console. Other
/// paths, such as those with `..`, could reach another part of the program with its token.
fn console_path(uri: &Uri) -> Option<String> {
    let path = uri.path().strip_prefix(PAGE).filter(|path| PATHS.contains(path))?;
    Some(uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ProxyBody> {
    let mut response = Response::new(Either::Right(Full::new(text.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn refusal(method: &Method, headers: &HeaderMap, port: u16) -> Option<Response<ProxyBody>> {
    let forbidden = |problem| Some(text(StatusCode::FORBIDDEN, format!("403: {problem}\n")));
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(text(StatusCode::METHOD_NOT_ALLOWED, "405: the console is read only; use GET\n"));
    }
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_local = |host: &str| {
        ["localhost", "127.0.0.1"].iter().any(|name| host.strip_prefix(name) == Some(&format!(":{port}")))
    };
    let host = header(HOST.as_str());
    if !host.is_some_and(is_local) {
        return forbidden("this proxy accepts only local host names; use 127.0.0.1");
    }
    let is_foreign = header(ORIGIN.as_str()).is_some_and(|origin| origin.strip_prefix("http://") != host);
    let is_link =
        header("sec-fetch-mode") == Some("navigate") && header("sec-fetch-dest") == Some("document");
    // Another port of this machine is another origin of the same site.
    let is_other_origin = matches!(header("sec-fetch-site"), Some("cross-site" | "same-site"));
    if is_foreign || (is_other_origin && !is_link) {
        return forbidden("the request comes from a page of another site");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_console_are_forwarded() {
        let path = |uri: &str| console_path(&uri.parse().unwrap());
        assert_eq!(path("/debug/informer/").as_deref(), Some("/"));
        assert_eq!(path("/debug/informer/v1/history?key=a%2Fb").as_deref(), Some("/v1/history?key=a%2Fb"));
        for other in ["/", "/metrics", "/debug/informer/../../metrics", "/debug/informer/%2e%2e/metrics"] {
            assert_eq!(path(other), None, "{other}");
        }
        assert_eq!(path("/debug/informer//v1/events"), None);
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let status = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), http::HeaderValue::from_static(value)));
            refusal(&Method::GET, &headers.collect(), 8082).map(|response| response.status().as_u16())
        };
        assert_eq!(status(&[("host", "127.0.0.1:8082")]), None);
        assert_eq!(status(&[("host", "localhost:8082"), ("origin", "http://localhost:8082")]), None);
        assert_eq!(status(&[]), Some(403));
        assert_eq!(status(&[("host", "attacker.example:8082")]), Some(403));
        assert_eq!(status(&[("host", "localhost.attacker.example:8082")]), Some(403));
        assert_eq!(status(&[("host", "localhost:8082"), ("origin", "http://attacker.example")]), Some(403));
        for site in ["cross-site", "same-site"] {
            assert_eq!(status(&[("host", "localhost:8082"), ("sec-fetch-site", site)]), Some(403), "{site}");
        }
        let refused = refusal(&Method::POST, &HeaderMap::new(), 8082).map(|response| response.status());
        assert_eq!(refused, Some(StatusCode::METHOD_NOT_ALLOWED));
    }
}
