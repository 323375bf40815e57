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
//! 2. Snapshots, events and histories contain names, numbers, errors and resourceVersions. They are computed
//!    from the states of informers, queues and controllers, which contain no object.
//! 3. Objects are read only for a request of `objects` or `object`, and only if the program
//!    [shows objects](Console::show_objects). The values of Secrets in them are replaced by their sizes.
//! 4. The console changes nothing, unless the program [allows actions](Console::allow_actions).
//! 5. Controllers record only failed reconciles for a console that was not read for five minutes.
//!
//! # Lock order
//!
//! The console has no lock of its own.
//!
//! # Shutdown
//!
//! Open streams end when their server stops.

mod actions;
mod audit;
mod data;
mod error;
mod objects;
mod redact;
mod snapshot;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use informer_http::{ForeignRequest, OriginPolicy};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Interval, MissedTickBehavior};

pub use data::{
    ActionsSnapshot, ClientSnapshot, ConsoleEvent, ConsoleSnapshot, ControllerHistory, ControllerSnapshot,
    HandlerSnapshot, InformerSnapshot, KeyHistory, LatencyBucket, LeaseSnapshot, OmittedParts,
    ProcessSnapshot, QueueDepthSnapshot, QueueSnapshot, QueuedCauses, ReconcileResults, ReconcileSnapshot,
    RequestTotals, ShardSnapshot, WatchSnapshot, WriteSnapshot,
};
pub use objects::{ObjectContent, ObjectEntry, ObjectList};
pub use snapshot::{ConsoleData, ConsoleEvents};

use crate::http_server::{HttpServer, ResponseStream, text, typed_response};
use actions::ActionKind;
pub(crate) use audit::{ActionAudit, REPORTER};
use objects::{MAX_READS, ObjectRead};

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

/// The console of a manager, which [`Manager::console`](crate::Manager::console) serves.
///
/// It is created from an [`HttpServer`], or from an address. By default it only reads.
///
/// Controllers record their reconciles and causes while the console is read, and for five minutes after the
/// last read. At other times they record only failed reconciles, without causes, so that a console without
/// readers costs next to nothing.
/// [`ControllerOptions::record_causes`](crate::ControllerOptions::record_causes) makes a controller always
/// record.
///
/// For the console, at most 500 reconciles a second of a controller are recorded, and the causes of at most
/// 500 requests. The changed fields of at most 500 updates a second are compared; of other updates only the
/// changed parts are shown, such as `spec`. Reads of snapshots, events and histories count, and those of
/// objects do not.
///
/// ```
/// use informer_runtime::console::Console;
/// # use informer_runtime::Manager;
/// # fn example(manager: Manager) -> Manager {
/// manager.console(Console::at("127.0.0.1:8082").allow_actions(true))
/// # }
/// ```
#[derive(Debug)]
#[must_use = "add it to a manager"]
pub struct Console {
    server: HttpServer,
    allows_actions: bool,
    records_events: bool,
    shows_objects: bool,
}

impl Console {
    /// Creates a console that listens at an address with a port, such as `127.0.0.1:8082`.
    pub fn at(address: impl Into<String>) -> Self {
        Self::from(HttpServer::at(address))
    }

    /// Sets whether users of the console may run actions: enqueue a key in a controller, make an informer
    /// list again, and remove an unused informer and its objects from the cache. The default is false.
    ///
    /// If the server [authorizes](HttpServer::authorized_by) requests, the user needs permission for the verb
    /// `post` and the path of the action, such as `/debug/informer/v1/actions/relist`. A server without
    /// authorization runs actions only if it listens on a loopback address. Then each program of the machine
    /// can run them. Each action is logged with its user and its result, and
    /// [recorded as an Event](Self::record_events).
    pub fn allow_actions(mut self, allow: bool) -> Self {
        self.allows_actions = allow;
        self
    }

    /// Sets whether actions are recorded as Kubernetes Events, with the user and the result in the note. The
    /// default is true.
    ///
    /// The Event of a requeue is about the object of the key. That of another action, or of a key that names
    /// no object, is about the Pod of the program if the variable `POD_NAME` is set, with `POD_NAMESPACE` and
    /// `POD_UID`. Else it is about the Lease of the leader election, else about the namespace of the client.
    ///
    /// The program needs permission to `create` and `patch` `events` of `events.k8s.io` in these namespaces.
    /// Recording has the limits of an [`EventRecorder`](crate::EventRecorder), and neither delays nor fails
    /// an action; an Event that the API server rejects is logged.
    pub fn record_events(mut self, record: bool) -> Self {
        self.records_events = record;
        self
    }

    /// Sets whether users of the console may read the cached objects. The default is false. Objects of any
    /// representation are shown as JSON; those of a metadata-only informer have only metadata. The values and
    /// annotations of Secrets are replaced by their sizes.
    ///
    /// If the server [authorizes](HttpServer::authorized_by) requests, the user needs permission for the verb
    /// `get` and the paths `/debug/informer/v1/objects` and `/debug/informer/v1/object`. A role for
    /// `/debug/informer/v1/*` includes them, and then shows all cached objects to its users, whatever RBAC
    /// allows them on these kinds. A server without authorization shows objects only if it listens
    /// on a loopback address. Then each program of the machine can read them.
    pub fn show_objects(mut self, show: bool) -> Self {
        self.shows_objects = show;
        self
    }
}

impl<S: Into<HttpServer>> From<S> for Console {
    fn from(server: S) -> Self {
        Self { server: server.into(), allows_actions: false, records_events: true, shows_objects: false }
    }
}

struct ConsoleRoutes {
    data: ConsoleData,
    listeners: Arc<AtomicUsize>,
    /// The address of a server that does not authorize requests; `None` if the server authorizes them.
    open_address: Option<watch::Receiver<Option<SocketAddr>>>,
    /// The token that actions need; `None` if they are not allowed.
    token: Option<String>,
    /// Records actions as Events; `None` if the program disables that.
    audit: Option<ActionAudit>,
    /// True if the program shows objects.
    shows_objects: bool,
    /// The reads of objects that may run now.
    reads: Arc<Semaphore>,
}

/// Adds the page and its data to a server.
pub(crate) fn routes(console: Console, data: ConsoleData, audit: ActionAudit) -> HttpServer {
    let server = console.server.named("console");
    let console = Arc::new(ConsoleRoutes {
        data,
        listeners: Arc::default(),
        open_address: (!server.authorizes()).then(|| server.bound()),
        token: console.allows_actions.then(actions::random_token),
        audit: console.records_events.then_some(audit),
        shows_objects: console.shows_objects,
        reads: Arc::new(Semaphore::new(MAX_READS)),
    });
    let data = |server: HttpServer,
                name: &str,
                respond: fn(&Arc<ConsoleRoutes>, &Request<Bytes>) -> Response<Bytes>| {
        let console = Arc::clone(&console);
        server.route(format!("{PAGE}/v1/{name}"), move |request| {
            let response = console.check(&request).unwrap_or_else(|| respond(&console, &request));
            std::future::ready(with_policy(response))
        })
    };
    let server = data(server, "snapshot", |console, _| {
        json_response(&console.with_offers(console.data.snapshot_page()))
    });
    let server = data(server, "events", |console, _| console.events());
    let mut server = data(server, "history", ConsoleRoutes::history);
    for action in ActionKind::ALL {
        let console = Arc::clone(&console);
        server = server.route(format!("{PAGE}/v1/actions/{}", action.name()), move |request| {
            std::future::ready(with_policy(console.act(action, &request)))
        });
    }
    for read in ObjectRead::ALL {
        let console = Arc::clone(&console);
        server = server.route(format!("{PAGE}/v1/{}", read.name()), move |request| {
            let console = Arc::clone(&console);
            async move { with_policy(console.read_objects(read, request).await) }
        });
    }
    let page = Arc::clone(&console);
    let respond = move |request: Request<Bytes>| {
        let file = || page_file(request.uri().path().strip_prefix(PAGE).unwrap_or_default());
        std::future::ready(page.check(&request).map_or_else(file, with_policy))
    };
    let targets = move |request: Request<Bytes>| {
        // The page asks a server whether it shows several programs. A program shows only itself.
        let none = || json_response(&json!({"targets": []}));
        std::future::ready(with_policy(console.check(&request).unwrap_or_else(none)))
    };
    let server = server.public_route(format!("{PAGE}/v1/targets"), targets);
    server.public_route(PAGE, respond.clone()).public_route(format!("{PAGE}/"), respond)
}

impl ConsoleRoutes {
    /// Refuses a request that is not a read, or that a page of another site may have sent.
    fn check(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(text(StatusCode::METHOD_NOT_ALLOWED, "405: this path is read only; use GET\n"));
        }
        let problem = self.check_origin(request).err()?;
        Some(text(StatusCode::FORBIDDEN, format!("403: {problem}\n")))
    }

    /// Returns an error if a page of another site may have sent a request. Such a page can bind its own name
    /// to the loopback address (DNS rebinding), so a server without authorization on a loopback address
    /// accepts only `localhost` and IP addresses as `Host`.
    fn check_origin(&self, request: &Request<Bytes>) -> Result<(), String> {
        let is_open = self.open_address.is_some() && self.is_protected();
        let policy = OriginPolicy { hosts: if is_open { Some(&[]) } else { None }, links: true };
        let checked = policy.check(request.method(), request.uri(), request.headers());
        checked.map_err(|foreign| match foreign {
            ForeignRequest::Host(_) => {
                format!("{foreign}, which has no authorization and accepts only local names; use localhost")
            }
            ForeignRequest::Origin(_) | ForeignRequest::Site => {
                format!("the request comes from a page of another site: {foreign}")
            }
        })
    }

    /// Returns true if the server authorizes requests or listens on a loopback address.
    fn is_protected(&self) -> bool {
        // The address is unknown before the server has reported it.
        self.open_address.as_ref().is_none_or(|address| {
            address.borrow().is_none_or(|address| address.ip().to_canonical().is_loopback())
        })
    }

    /// Adds to a snapshot what the server offers: the token of the actions, unless it rejects all of them,
    /// and whether it shows objects.
    fn with_offers(&self, mut page: Value) -> Value {
        page["showsObjects"] = json!(self.may_show_objects());
        let token = self.token.as_ref().filter(|_| self.is_protected());
        page["actions"] = json!(token.map(|token| json!({"token": token})));
        page
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
    console: Arc<ConsoleRoutes>,
    timer: Interval,
    events: ConsoleEvents,
}

impl Listener {
    /// Creates a listener, unless there are too many.
    fn new(console: &Arc<ConsoleRoutes>) -> Option<Self> {
        let more = |listeners| (listeners < MAX_LISTENERS).then_some(listeners + 1);
        console.listeners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let mut timer = tokio::time::interval(PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self { console: Arc::clone(console), timer, events: console.data.events() })
    }

    fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, |mut listener| async move {
            listener.timer.tick().await;
            let event = listener.console.with_offers(listener.events.next_page());
            Some((Bytes::from(format!("event: snapshot\ndata: {event}\n\n")), listener))
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.console.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a file of the page, with its security headers, for a server that shows several programs in one
/// page. Such a server returns the programs as `v1/targets`, and their events as `v1/targets/events`.
///
/// `path` is relative to that of the page: `/` is the page, `/console.css` and `/console.js` are its style
/// sheet and its script, and an empty path redirects to the page. The status for another path is 404.
///
/// ```
/// use informer_runtime::console::page_file;
///
/// assert_eq!(page_file("/").headers()["content-type"], "text/html; charset=utf-8");
/// assert_eq!(page_file("/other").status(), 404);
/// ```
pub fn page_file(path: &str) -> Response<Bytes> {
    if path.is_empty() {
        // The location is relative, so that it is right behind a proxy with a path prefix.
        let mut response = text(StatusCode::PERMANENT_REDIRECT, "");
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("informer/"));
        return with_policy(response);
    }
    let name = path.trim_start_matches('/');
    with_policy(match ASSETS.iter().find(|(asset, ..)| *asset == name) {
        Some((_, content_type, content)) => {
            typed_response(StatusCode::OK, content_type, Bytes::from_static(content.as_bytes()))
        }
        None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    })
}

fn json_response(value: &impl Serialize) -> Response<Bytes> {
    match serde_json::to_vec(value) {
        Ok(body) => typed_response(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("500: write the response: {error}\n")),
    }
}

fn with_policy(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}
