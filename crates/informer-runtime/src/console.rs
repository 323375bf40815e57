//! The console: a page in the browser that shows the parts of a manager live, and the data of this page.
//!
//! [`Manager::console`](crate::Manager::console) serves both over HTTP, and
//! [`Manager::console_data`](crate::Manager::console_data) reads the data in the process. The types of this
//! module are those of the JSON of the HTTP paths.
//!
//! # Invariants
//!
//! 1. A snapshot is computed only for a request: for each request of `snapshot`, and once a second for each
//!    of at most eight open streams of `events`. A listener that does not read causes no
//!    snapshot.
//! 2. The data contains names, numbers, errors and resourceVersions. It is computed from the states of
//!    informers, queues and controllers, which contain no object.
//!
//! # Lock order
//!
//! The console has no lock of its own.
//!
//! # Shutdown
//!
//! Open streams end when their server stops.

mod data;
mod snapshot;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

pub use data::{
    ClientSnapshot, ConsoleEvent, ConsoleSnapshot, ControllerHistory, ControllerSnapshot, HandlerSnapshot,
    InformerSnapshot, KeyHistory, LatencyBucket, LeaseSnapshot, OmittedParts, ProcessSnapshot,
    QueueDepthSnapshot, QueueSnapshot, QueuedCauses, ReconcileResults, ReconcileSnapshot, RequestTotals,
    ShardSnapshot,
};
pub use snapshot::{ConsoleData, ConsoleEvents};

use crate::http_server::{HttpServer, ResponseStream, text, typed_response};

/// The path of the page. The page uses relative paths only, so a proxy may serve it under any prefix.
const PAGE: &str = "/debug/informer";

/// The maximum number of open streams of events. Each computes a snapshot per second.
const MAX_LISTENERS: usize = 8;

/// The maximum number of events of one stream. The stream then ends, after about five minutes. The client
/// sends another request, whose permission is checked again.
const MAX_EVENTS: usize = 300;

/// The maximum length of a key in bytes. Keys of objects consist of two names with at most 253 bytes each.
const MAX_KEY_BYTES: usize = 1_024;

const PERIOD: Duration = Duration::from_secs(1);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The page may load its own script and style sheet and read its own data, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The committed output of `cargo xtask console`.
const ASSETS: [(&str, &str, &str); 3] = [
    ("", "text/html; charset=utf-8", include_str!("console/assets/index.html")),
    ("console.css", "text/css; charset=utf-8", include_str!("console/assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("console/assets/console.js")),
];

struct Console {
    data: ConsoleData,
    listeners: Arc<AtomicUsize>,
    /// The address of a server that does not authorize requests; `None` if the server authorizes them.
    open_address: Option<watch::Receiver<Option<SocketAddr>>>,
}

/// Adds the page and its data to a server.
pub(crate) fn routes(server: HttpServer, data: ConsoleData) -> HttpServer {
    let console = Arc::new(Console {
        data,
        listeners: Arc::default(),
        open_address: (!server.authorizes()).then(|| server.bound()),
    });
    let data =
        |server: HttpServer, name: &str, respond: fn(&Arc<Console>, &Request<Bytes>) -> Response<Bytes>| {
            let console = Arc::clone(&console);
            server.route(format!("{PAGE}/v1/{name}"), move |request| {
                let response = console.check(request.method(), request.headers());
                let response = response.unwrap_or_else(|| respond(&console, &request));
                std::future::ready(with_policy(response))
            })
        };
    let server = data(server, "snapshot", |console, _| json_response(&console.data.snapshot_page()));
    let server = data(server, "events", |console, _| console.events());
    let server = data(server, "history", Console::history);
    let page = Arc::clone(&console);
    let respond = move |request: Request<Bytes>| {
        let response = page.check(request.method(), request.headers());
        let response = response.unwrap_or_else(|| asset(request.uri().path()));
        std::future::ready(with_policy(response))
    };
    server.public_route(PAGE, respond.clone()).public_route(format!("{PAGE}/"), respond)
}

impl Console {
    /// Refuses a request that is not a read, or that a page of another site may have sent. Such a page can
    /// bind its own name to the loopback address (DNS rebinding), so a server without authorization on
    /// a loopback address accepts only `localhost` and IP addresses as `Host`.
    fn check(&self, method: &Method, headers: &HeaderMap) -> Option<Response<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some(text(StatusCode::METHOD_NOT_ALLOWED, "405: the console is read only; use GET\n"));
        }
        let header = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = header(&HOST);
        let foreign_origin = |origin: &str| {
            let of_origin = origin.split_once("://").map(|(_, of_origin)| of_origin);
            of_origin.is_none() || of_origin != host
        };
        // A link on another site is followed, because the site cannot read the response.
        let is_link =
            header(&SEC_FETCH_MODE) == Some("navigate") && header(&SEC_FETCH_DEST) == Some("document");
        let is_foreign = header(&SEC_FETCH_SITE) == Some("cross-site") && !is_link;
        if is_foreign || header(&ORIGIN).is_some_and(foreign_origin) {
            return Some(text(StatusCode::FORBIDDEN, "403: the request comes from a page of another site\n"));
        }
        // The address is unknown before the server has reported it.
        let is_loopback = self.open_address.as_ref().is_some_and(|address| {
            address.borrow().is_none_or(|address| address.ip().to_canonical().is_loopback())
        });
        if is_loopback && !host.is_none_or(is_local_host) {
            let problem =
                "403: this server has no authorization and accepts only local host names; use localhost\n";
            return Some(text(StatusCode::FORBIDDEN, problem));
        }
        None
    }

    fn history(self: &Arc<Self>, request: &Request<Bytes>) -> Response<Bytes> {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let key = pairs.find_map(|(name, value)| (name == "key").then_some(value)).unwrap_or_default();
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let problem =
                "400: the parameter `key` is missing or too long; set it to a key such as `default/web`\n";
            return text(StatusCode::BAD_REQUEST, problem);
        }
        json_response(&self.data.history_page(&key))
    }

    fn events(self: &Arc<Self>) -> Response<Bytes> {
        let Some(listener) = Listener::new(self) else {
            let problem = format!("503: {MAX_LISTENERS} clients read events already; close one of them\n");
            return text(StatusCode::SERVICE_UNAVAILABLE, problem);
        };
        let first = Bytes::from_static(b"retry: 1000\n\n");
        let mut response = typed_response(StatusCode::OK, "text/event-stream", first);
        // Proxies such as nginx must not collect the events in a buffer.
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        response.extensions_mut().insert(ResponseStream::new(listener.events().take(MAX_EVENTS)));
        response
    }
}

/// A client that reads events.
struct Listener {
    console: Arc<Console>,
    timer: Interval,
    events: ConsoleEvents,
}

impl Listener {
    /// Creates a listener, unless there are too many.
    fn new(console: &Arc<Console>) -> Option<Self> {
        let more = |listeners| (listeners < MAX_LISTENERS).then_some(listeners + 1);
        console.listeners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let mut timer = tokio::time::interval(PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self { console: Arc::clone(console), timer, events: console.data.events() })
    }

    fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, |mut listener| async move {
            listener.timer.tick().await;
            let event = listener.events.next_page();
            Some((Bytes::from(format!("event: snapshot\ndata: {event}\n\n")), listener))
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.console.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

fn asset(path: &str) -> Response<Bytes> {
    if path == PAGE {
        // The location is relative, so that it is right behind a proxy with a path prefix.
        let mut response = text(StatusCode::PERMANENT_REDIRECT, "");
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("informer/"));
        return response;
    }
    let name = path.strip_prefix(PAGE).unwrap_or_default().trim_start_matches('/');
    match ASSETS.iter().find(|(asset, ..)| *asset == name) {
        Some((_, content_type, content)) => {
            typed_response(StatusCode::OK, content_type, Bytes::from_static(content.as_bytes()))
        }
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn json_response(value: &Value) -> Response<Bytes> {
    typed_response(StatusCode::OK, "application/json", value.to_string())
}

fn with_policy(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Returns true if a page of another site cannot have bound this `Host` to the address of the server.
fn is_local_host(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}
