//! The program that `informer envtest install` installs as `etcd`. It responds to the health checks of
//! envtest, and stores one value for the `kube-apiserver` that the same command installs.
//!
//! The value is the state of the API server, which writes it on shutdown and reads it on start. The value is
//! stored in the data directory, so that it also survives a restart of this program.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::explorer::{self, ExplorerConnection};
use super::flags::{Flag, Given, flag, help, idle, idle_switch};
use crate::atomic_file::{self, Access};
use crate::failure::Failure;
use crate::signals::Signals;

/// The URL path under which the installed `kube-apiserver` reads and writes its state.
pub(super) const STATE_PATH: &str = "/informer/state";
const STATE_FILE: &str = "informer-state.json";
/// The delay before the next `accept`, after an `accept` has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(5);

const FLAGS: &[Flag] = &[
    flag("data-dir", "directory of the state of the API server"),
    flag("listen-client-urls", "URL to listen on, with a loopback address"),
    idle("advertise-client-urls", "no component reads the address"),
    idle("initial-cluster", "there is one member"),
    idle("listen-peer-urls", "there are no peers"),
    idle("log-level", "the program logs nothing"),
    idle("name", "there is one member"),
    idle_switch("unsafe-no-fsync", "files are not synced"),
];

pub(super) async fn run(arguments: Vec<String>) -> Result<(), Failure> {
    let given = Given::parse(arguments, FLAGS)?;
    if given.help || given.version {
        println!("etcd, emulated by informer {}\n\n{}", env!("CARGO_PKG_VERSION"), help(FLAGS));
        return Ok(());
    }
    let url = given.last("listen-client-urls").unwrap_or("http://127.0.0.1:2379");
    let address = address(url)?;
    let directory = PathBuf::from(given.last("data-dir").unwrap_or("default.etcd"));
    fs::create_dir_all(&directory)
        .map_err(|error| Failure::io(&format!("create the data directory {}", directory.display()), error))?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::io(&format!("listen on {address}"), error))?;
    let state = Arc::new(directory.join(STATE_FILE));
    let mut signals = Signals::listen()?;
    let explorer = ExplorerConnection::of_environment()?;
    // Writing fails if stdout is closed. The error is ignored, because the program must continue to serve.
    let _ = writeln!(io::stdout(), "serving on http://{address}");
    tokio::select! {
        () = serve(listener, state) => Ok(()),
        () = explorer::ended(explorer) => Ok(()),
        outcome = signals.told_to_end() => outcome,
    }
}

/// Parses a URL of `--listen-client-urls`, and returns its address. The address must be a loopback address,
/// because this program does not authenticate clients.
fn address(url: &str) -> Result<SocketAddr, Failure> {
    let bad = |why: &str| Failure::new(format!("invalid value {url:?} for flag --listen-client-urls: {why}"));
    let rest = url.strip_prefix("http://").ok_or_else(|| bad("only http:// is supported"))?;
    let rest = rest.trim_end_matches('/').replace("localhost", "127.0.0.1");
    let address: SocketAddr = rest.parse().map_err(|_| bad("write a URL such as http://127.0.0.1:2379"))?;
    if address.ip().is_loopback() { Ok(address) } else { Err(bad("only loopback addresses are supported")) }
}

async fn serve(listener: TcpListener, state: Arc<PathBuf>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // `accept` fails if the process has no free file descriptor, or if the peer has closed the
            // connection. The delay prevents a busy loop.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| respond(request, Arc::clone(&state)));
            let served =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection failed");
            }
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<PathBuf>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    if is_of_web_page(&request) {
        return Ok(reply(StatusCode::FORBIDDEN, "requests from web pages are rejected\n"));
    }
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => reply(StatusCode::OK, r#"{"health":"true","reason":""}"#),
        (&Method::GET, "/version") => {
            reply(StatusCode::OK, r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0"}"#)
        }
        (&Method::GET, STATE_PATH) => match fs::read(&*state) {
            Ok(bytes) => reply(StatusCode::OK, bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => reply(StatusCode::NOT_FOUND, ""),
            Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        (&Method::PUT, STATE_PATH) => {
            let body = request.into_body().collect().await?.to_bytes();
            // Only the owner can read the state, because it contains Secrets.
            match atomic_file::replace(&state, &body, Access::Private) {
                Ok(()) => reply(StatusCode::NO_CONTENT, ""),
                Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            }
        }
        _ => reply(StatusCode::NOT_FOUND, "404 page not found\n"),
    })
}

/// Returns true if a web page in a browser may have sent the request: the request has an `Origin` header, or
/// a `Host` name that a page can bind to this address (DNS rebinding).
fn is_of_web_page(request: &Request<Incoming>) -> bool {
    let own = |host: &http::HeaderValue| {
        let host = host.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok());
        host.is_some_and(|host| {
            host.host() == "localhost" || host.host().trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        })
    };
    let headers = request.headers();
    headers.contains_key(http::header::ORIGIN) || !headers.get_all(http::header::HOST).iter().all(own)
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
