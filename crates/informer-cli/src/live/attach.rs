//! The console of a running program, over HTTP.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use informer::client::{Client, ResponseBody};
use informer::kube_client::Config;
use informer::runtime::console::{ConsoleEvent, ConsoleSnapshot, KeyHistory};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::LiveUpdate;
use crate::connection::server_url;
use crate::failure::{Failure, chain};

/// The path of the console of a program, unless the URL has a path.
const DEFAULT_PATH: &str = "/debug/informer";

/// The maximum size of an event, and of a history. A hostile target can make the command buffer this much.
/// An event of 2,000 informers, queues and controllers has less than 10 MB, and 13 MB more if each
/// controller has written to 64 kinds.
const MAX_EVENT_BYTES: usize = 32 << 20;

/// The maximum number of bytes of the body of an error that is shown.
const MAX_PROBLEM_BYTES: usize = 300;

/// A program sends an event each second, so a long silence means that the connection is broken.
const SILENCE: Duration = Duration::from_secs(15);

/// The timeout for the response to a request, and for the body of one that is not a stream.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum size of the body of an error.
const MAX_ERROR_BYTES: usize = 64 << 10;

const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of programs in one view. Each page opens a stream of events per program.
const MAX_TARGETS: usize = 16;

/// Selects the consoles of running programs.
#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArguments {
    /// The URL of the console of a running program, for example `http://127.0.0.1:8082`. Without a path, the
    /// path is /debug/informer. `informer console` and `informer graph` accept the option up to 16 times. The
    /// bearer token is sent to each of these programs.
    #[arg(long, value_name = "URL", value_parser = AttachUrl::parse)]
    attach: Vec<AttachUrl>,
    /// A file with the bearer token for the console; the environment variable INFORMER_TOKEN by default.
    #[arg(long, value_name = "FILE", requires = "attach")]
    token_file: Option<PathBuf>,
    /// A file with the CA certificates of the console's server, for https.
    #[arg(long, value_name = "FILE", requires = "attach")]
    certificate_authority: Option<PathBuf>,
}

/// The URL of a console, without a user, a password and a query: no message may contain them, and no request
/// needs them. Contains the error for an invalid URL with an `@`, because the error of an invalid argument
/// would contain the password.
#[derive(Debug, Clone)]
struct AttachUrl(Result<Uri, String>);

impl AttachUrl {
    fn parse(text: &str) -> Result<Self, String> {
        match server_url(text).and_then(|url| without_credentials(&url)) {
            Ok(url) => Ok(Self(Ok(url))),
            Err(problem) if text.contains('@') => Ok(Self(Err(problem))),
            Err(problem) => Err(problem),
        }
    }
}

/// Removes the user, the password and the query of a URL. No request needs them, and a query may contain a
/// token.
fn without_credentials(url: &Uri) -> Result<Uri, String> {
    let mut parts = url.clone().into_parts();
    parts.path_and_query = url.path().parse().ok();
    let authority = parts.authority.as_ref().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_lowercase();
    let unusable = || "the URL has no usable host and port".to_owned();
    parts.authority = Some(host.parse().map_err(|_| unusable())?);
    Uri::from_parts(parts).map_err(|_| unusable())
}

/// The environment variable of the bearer token. An option would show the token in the list of processes.
const TOKEN: &str = "INFORMER_TOKEN";

impl AttachArguments {
    /// Returns a client for the console of each `--attach`; none without this option.
    pub(crate) fn clients(&self) -> Result<Vec<ConsoleClient>, Failure> {
        if self.attach.is_empty() {
            return Ok(Vec::new());
        }
        if self.attach.len() > MAX_TARGETS {
            return Err(Failure::new(format!(
                "attach to {} programs: one view shows at most {MAX_TARGETS}; run the command again for the \
                 others",
                self.attach.len()
            )));
        }
        let token = self.token()?;
        let certificates = self.certificates()?;
        let mut clients: Vec<ConsoleClient> = Vec::new();
        for url in &self.attach {
            let url =
                url.0.as_ref().map_err(|problem| Failure::new(format!("attach to a program: {problem}")))?;
            let client = ConsoleClient::new(url, token.as_deref(), certificates.as_deref())?;
            if clients.iter().any(|other| other.name == client.name) {
                let name = client.name;
                return Err(Failure::new(format!(
                    "attach to {name}: the program is named twice; remove one --attach"
                )));
            }
            clients.push(client);
        }
        Ok(clients)
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let token = match &self.token_file {
            Some(file) => Some(
                fs::read_to_string(file)
                    .map_err(|error| Failure::io(&format!("read {}", file.display()), error))?,
            ),
            None => std::env::var(TOKEN).ok(),
        };
        Ok(token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
    }

    fn certificates(&self) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        let Some(file) = &self.certificate_authority else { return Ok(None) };
        let pem = fs::read(file).map_err(|error| Failure::io(&format!("read {}", file.display()), error))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|error| {
            Failure::caused(format!("cannot use the certificates in {}", file.display()), error)
        })?;
        Ok(Some(certificates.iter().map(|certificate| certificate.to_vec()).collect()))
    }
}

/// Reads the console of a program. Clones share the connections.
#[derive(Clone)]
pub(crate) struct ConsoleClient {
    client: Client,
    /// The path of the console, without a slash at the end.
    path: String,
    /// See [`target_name`].
    name: String,
}

impl ConsoleClient {
    fn new(url: &Uri, token: Option<&str>, certificates: Option<&[Vec<u8>]>) -> Result<Self, Failure> {
        let mut parts = url.clone().into_parts();
        let path = url.path().trim_end_matches('/');
        let path = if path.is_empty() { DEFAULT_PATH } else { path }.to_owned();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let base =
            Uri::from_parts(parts).map_err(|error| Failure::caused(format!("cannot use {url}"), error))?;
        let mut config = Config::new(base);
        if token.is_some() && is_clear_text(url) {
            return Err(Failure::new(format!(
                "attach to {url}: the token would be sent in clear text; use https, or forward the port to \
                 127.0.0.1"
            )));
        }
        config.auth_info.token = token.map(|token| token.to_owned().into());
        config.root_cert = certificates.map(<[Vec<u8>]>::to_vec);
        let name = target_name(url, &path);
        let client = Client::new(config).map_err(|error| Failure::new(chain(&error)))?;
        Ok(Self { client, path, name })
    }

    /// Returns the client of a program that a test simulates.
    #[cfg(test)]
    pub(crate) fn simulated(client: Client, name: &str) -> Self {
        Self { client, path: DEFAULT_PATH.to_owned(), name: name.to_owned() }
    }

    /// Returns the name of the program: its host and port, and the path unless it is the default one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a GET request for a path below that of the console, such as `/v1/events`. The response has any
    /// status.
    pub(crate) async fn get(&self, path: &str) -> Result<Response<ResponseBody>, String> {
        self.send(Method::GET, path, HeaderMap::new(), Bytes::new()).await
    }

    /// Sends a POST request with these headers for a path below that of the console.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, String> {
        self.send(Method::POST, path, headers, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.path)).body(body);
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        let response = timeout(RESPONSE_TIMEOUT, self.client.request(request)).await;
        let response = response.map_err(|_| format!("no response in {} s", RESPONSE_TIMEOUT.as_secs()))?;
        response.map_err(|error| chain(&error))
    }

    /// Reads the state of the program.
    pub(crate) async fn snapshot(&self) -> Result<ConsoleSnapshot, String> {
        self.read("/v1/snapshot").await
    }

    pub(super) async fn history(&self, key: &str) -> Result<KeyHistory, String> {
        self.read(&format!("/v1/history?key={}", percent_encode(key))).await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let response = self.get(path).await?;
        let body = Limited::new(successful(response).await?, MAX_EVENT_BYTES);
        let body =
            timeout(RESPONSE_TIMEOUT, body.collect()).await.map_err(|_| "the response is incomplete")?;
        parse(&body.map_err(|error| too_large(&*error))?.to_bytes())
    }
}

/// Returns the host, the port and a path other than the default one. The default port of https is omitted,
/// and that of http is not, so that the names of different servers differ.
fn target_name(url: &Uri, path: &str) -> String {
    let host = url.host().unwrap_or_default();
    let port = match (url.scheme_str(), url.port_u16()) {
        (Some("https"), None | Some(443)) => String::new(),
        (_, port) => format!(":{}", port.unwrap_or(80)),
    };
    let path = if path == DEFAULT_PATH { "" } else { path };
    format!("{host}{port}{path}")
}

/// Returns true if other machines could read the requests.
fn is_clear_text(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme_str() == Some("http") && !is_loopback
}

fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

async fn successful(response: Response<ResponseBody>) -> Result<ResponseBody, String> {
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response.into_body());
    }
    let body = timeout(RESPONSE_TIMEOUT, Limited::new(response.into_body(), MAX_ERROR_BYTES).collect());
    let body = body.await.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_PROBLEM_BYTES)]).trim().to_owned();
    let remedy = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; set --token-file or INFORMER_TOKEN",
        StatusCode::NOT_FOUND => "; name the URL of the console, such as http://HOST:PORT/debug/informer",
        _ => "",
    };
    Err(format!("status {status}: {text}{remedy}"))
}

/// Returns the error of a body that was not read to its end.
fn too_large(error: &(dyn std::error::Error + 'static)) -> String {
    if error.is::<LengthLimitError>() {
        let limit = MAX_EVENT_BYTES >> 20;
        return format!("the response has more than {limit} MiB; check the URL of --attach");
    }
    error.to_string()
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| {
        // The error can contain a whole value of the response.
        let error: String = error.to_string().chars().take(MAX_PROBLEM_BYTES).collect();
        format!("parse the response of the console: {error}; check the URL of --attach")
    })
}

/// Reads the events of a console and reconnects.
pub(super) struct Attached {
    pub(super) client: ConsoleClient,
    pub(super) sender: mpsc::Sender<LiveUpdate>,
}

impl Attached {
    pub(super) async fn run(self) {
        while !self.sender.is_closed() {
            // A program ends each stream after some minutes, so the end of one is not reported.
            if let Err(problem) = self.read().await
                && self.sender.send(LiveUpdate::Disconnected(problem)).await.is_err()
            {
                return;
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn read(&self) -> Result<(), String> {
        let mut body = successful(self.client.get("/v1/events").await?).await?;
        let (mut buffer, mut received) = (EventBuffer::default(), false);
        loop {
            let frame = timeout(SILENCE, body.frame()).await.map_err(|_| "no event in 15 s".to_owned())?;
            let Some(frame) = frame else {
                let problem = "the stream ended without an event; check the URL of --attach";
                return if received { Ok(()) } else { Err(problem.to_owned()) };
            };
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            for event in buffer.push(&data)? {
                let event: ConsoleEvent = parse(&event)?;
                received = true;
                if self.sender.send(LiveUpdate::Event(Box::new(event))).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Splits a stream of server-sent events.
#[derive(Default)]
struct EventBuffer {
    pending: Vec<u8>,
    /// The bytes at the start of `pending` that contain no end of an event.
    scanned: usize,
}

impl EventBuffer {
    /// Adds bytes of the stream, and returns the data of the events that they complete.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.pending[self.scanned..].windows(2).position(|two| two == b"\n\n") {
            let rest = self.pending.split_off(self.scanned + end + 2);
            let event = std::mem::replace(&mut self.pending, rest);
            self.scanned = 0;
            let data = event.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"data: "));
            events.extend(data.map(<[u8]>::to_vec));
        }
        self.scanned = self.pending.len().saturating_sub(1);
        if self.pending.len() > MAX_EVENT_BYTES {
            let limit = MAX_EVENT_BYTES >> 20;
            return Err(format!("an event has more than {limit} MiB; check the URL of --attach"));
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_at_any_boundary() {
        let stream = b"retry: 1000\n\nevent: snapshot\ndata: {\"a\":1}\n\nevent: snapshot\ndata: {}\n\n";
        for size in 1..stream.len() {
            let mut buffer = EventBuffer::default();
            let events: Vec<Vec<u8>> =
                stream.chunks(size).flat_map(|chunk| buffer.push(chunk).expect("a small event")).collect();
            assert_eq!(events, [b"{\"a\":1}".to_vec(), b"{}".to_vec()], "chunks of {size} bytes");
        }
    }

    fn attached(urls: &[&str]) -> Result<Vec<String>, String> {
        let attach = urls.iter().map(|url| AttachUrl::parse(url)).collect::<Result<_, _>>()?;
        let arguments = AttachArguments { attach, token_file: None, certificate_authority: None };
        let clients = arguments.clients().map_err(|failure| failure.to_string())?;
        Ok(clients.iter().map(|client| client.name().to_owned()).collect())
    }

    #[tokio::test]
    async fn programs_are_named_by_host_port_and_other_path() {
        let urls =
            ["http://127.0.0.1:8082", "http://u:secret@127.0.0.1:8083/", "http://[::1]/a/", "http://a:443"];
        let names = ["127.0.0.1:8082", "127.0.0.1:8083", "[::1]:80/a", "a:443"];
        assert_eq!(attached(&urls).unwrap(), names);
        assert_eq!(attached(&["https://A:443/", "https://a:80"]).unwrap(), ["a", "a:80"]);
    }

    #[tokio::test]
    async fn other_spelling_of_a_url_is_the_same_program() {
        for (first, second) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1/debug/informer/"),
            ("http://localhost:80", "http://LOCALHOST/"),
            ("https://operator.example.com/a", "https://u:p@Operator.Example.com:443/a/"),
        ] {
            let twice = attached(&[first, second]).unwrap_err();
            assert!(twice.contains("the program is named twice"), "{first} {second}: {twice}");
        }
    }

    #[tokio::test]
    async fn password_of_a_url_is_in_no_error() {
        let url = |url: &str| AttachUrl::parse(url).map(|url| format!("{url:?}"));
        for invalid in ["ftp://u:secret@host", "http://u:secret@", "u:secret@host:1", "http://u:sec ret@host"]
        {
            let problem = attached(&[invalid]).unwrap_err();
            assert!(!problem.contains("sec") && problem.contains("attach"), "{invalid}: {problem}");
        }
        assert!(!url("http://u:secret@host").unwrap().contains("secret"));
        let token = ConsoleClient::new(
            AttachUrl::parse("http://u:secret@host.example").unwrap().0.as_ref().unwrap(),
            Some("token"),
            None,
        );
        let problem = token.err().expect("no clear text").to_string();
        assert!(
            problem.contains("attach to http://host.example/") && !problem.contains("secret"),
            "{problem}"
        );
    }

    #[test]
    fn event_beyond_the_limit_is_an_error() {
        let mut buffer = EventBuffer::default();
        let part = vec![b'a'; 1 << 20];
        let problem = (0..64).find_map(|_| buffer.push(&part).err()).expect("an error");
        let limit = MAX_EVENT_BYTES >> 20;
        let expected = format!("an event has more than {limit} MiB; check the URL of --attach");
        assert_eq!(problem, expected);
        assert!(buffer.pending.len() <= MAX_EVENT_BYTES + part.len());
    }

    #[tokio::test]
    async fn duplicate_and_too_many_programs_are_refused() {
        let twice = attached(&["http://127.0.0.1:1", "http://127.0.0.1:1/debug/informer"]).unwrap_err();
        assert!(twice.contains("attach to 127.0.0.1:1: the program is named twice"), "{twice}");
        let urls: Vec<String> = (0..=MAX_TARGETS).map(|port| format!("http://127.0.0.1:{port}")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let many = attached(&urls).unwrap_err();
        assert!(many.contains("attach to 17 programs: one view shows at most 16"), "{many}");
        assert_eq!(attached(&urls[1..]).unwrap().len(), MAX_TARGETS);
    }

    #[test]
    fn key_is_encoded_for_a_query() {
        assert_eq!(percent_encode("default/a&b é"), "default%2Fa%26b%20%C3%A9");
    }
}
