//! Tests of credentials that change while a client is in use: tokens and certificates from files and exec
//! plugins.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_client::{Client, ClientOptions};
use kube_client::Config;
use kube_client::config::AuthProviderConfig;
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// Timeout after which a hanging test fails.
const HANGS: Duration = Duration::from_secs(120);

/// A request received by the fake server: method, `Authorization` header and body.
type ReceivedRequest = (Method, String, Bytes);

/// A fake server that responds with 401 unless the token is correct, and keeps watches open.
#[derive(Clone, Default)]
struct Server {
    token: Arc<Mutex<String>>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    peers: Arc<Mutex<Vec<CertificateDer<'static>>>>,
}

impl Server {
    async fn respond(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let header = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let header = header.unwrap_or_default();
        let body = body.collect().await.unwrap().to_bytes();
        self.seen.lock().push((head.method, header.clone(), body));
        let mut response = if head.uri.query() == Some("watch=1") {
            let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"first\n")))]);
            let open = futures_util::StreamExt::chain(first, futures_util::stream::pending());
            Response::new(StreamBody::new(open).boxed_unsync())
        } else {
            Response::new(Full::from("{}").boxed_unsync())
        };
        let expected = self.token.lock().clone();
        if !expected.is_empty() && header != format!("Bearer {expected}") {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        Ok(response)
    }

    /// Accepts connections. Each new connection uses the TLS settings that are current at that time.
    async fn listen(&self, tls: Option<Arc<Mutex<Arc<ServerConfig>>>>) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (server, tls) = (server.clone(), tls.as_ref().map(|tls| Arc::clone(&tls.lock())));
                tokio::spawn(async move {
                    let own = server.clone();
                    let service = service_fn(move |request| own.clone().respond(request));
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let Some(tls) = tls else {
                        let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                        return;
                    };
                    let socket = match TlsAcceptor::from(tls).accept(socket).into_fallible().await {
                        Ok(socket) => socket,
                        Err((_, mut socket)) => {
                            // Read until the client closes the connection. Closing the socket earlier could
                            // cause a TCP reset that discards the TLS alert.
                            let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
                            return;
                        }
                    };
                    let peer = socket.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
                    server.peers.lock().push(peer);
                    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        address
    }

    fn tokens(&self) -> Vec<String> {
        self.seen.lock().iter().map(|(_, token, _)| token.clone()).collect()
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn http2(config: Config) -> Client {
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    Client::with_options(config, options).unwrap()
}

fn plain(address: SocketAddr) -> Config {
    Config::new(format!("http://{address}").parse().unwrap())
}

async fn status(client: &Client, method: Method, body: &'static str) -> StatusCode {
    let request = Request::builder().method(method).uri("/api/v1/pods");
    let response = client.request(request.body(Bytes::from_static(body.as_bytes())).unwrap());
    tokio::time::timeout(HANGS, response).await.expect("a response").unwrap().status()
}

#[tokio::test]
async fn request_rejected_with_401_is_sent_once_more_with_the_new_token_of_the_file() {
    let (server, folder) = (Server::default(), tempfile::tempdir().unwrap());
    let address = server.listen(None).await;
    let file = folder.path().join("token");
    fs::write(&file, "old").unwrap();
    *server.token.lock() = "new".to_owned();
    let mut config = plain(address);
    config.auth_info.token_file = Some(file.display().to_string());
    let client = http2(config);
    fs::write(&file, "new").unwrap();
    assert_eq!(status(&client, Method::POST, "the body").await, StatusCode::OK);
    let sent = |token: &str| (Method::POST, format!("Bearer {token}"), Bytes::from_static(b"the body"));
    assert_eq!(*server.seen.lock(), [sent("old"), sent("new")]);

    // If the refreshed token is the same, the request is not repeated and the caller receives the 401
    // response.
    *server.token.lock() = "unknown".to_owned();
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::UNAUTHORIZED);
    assert_eq!(server.tokens()[2..], ["Bearer new"]);
}

#[tokio::test]
async fn request_rejected_with_401_runs_the_exec_plugin_again_and_is_sent_once_more() {
    let (server, folder) = (Server::default(), tempfile::tempdir().unwrap());
    let address = server.listen(None).await;
    *server.token.lock() = "xx".to_owned();
    let mut config = plain(address);
    let script = format!(
        "printf x >> {runs}; echo '{{\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"'$(cat {runs})'\"}}}}'",
        runs = folder.path().join("runs").display()
    );
    let exec = serde_json::json!({"command": "sh", "args": ["-c", script], "interactiveMode": "Never"});
    config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
    let client = http2(config);
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::OK);
    assert_eq!(server.tokens(), ["Bearer x", "Bearer xx"]);
    assert_eq!(status(&client.with_separate_connections(), Method::GET, "").await, StatusCode::OK);
    assert_eq!(server.tokens()[2..], ["Bearer xx"], "clients share their credentials");
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes the certificate and its key to files in the folder, and returns the certificate.
fn issue(authority: &CertifiedIssuer<'static, KeyPair>, folder: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().signed_by(&key, authority).unwrap();
    fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    certificate.der().clone()
}

/// TLS settings of a server that verifies client certificates against one CA during the handshake.
struct ServerTls {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl ServerTls {
    fn new() -> Self {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Self { certificate: own.cert.der().clone(), key: own.signing_key.serialize_der() }
    }

    fn requiring(&self, authority: &CertifiedIssuer<'static, KeyPair>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_client_cert_verifier(verifier.build().unwrap());
        let key = PrivateKeyDer::try_from(self.key.clone()).unwrap();
        let mut config = config.with_single_cert(vec![self.certificate.clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    fn client(&self, address: SocketAddr, folder: &Path) -> Client {
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.root_cert = Some(vec![self.certificate.to_vec()]);
        config.auth_info.client_certificate = Some(folder.join("tls.crt").display().to_string());
        config.auth_info.client_key = Some(folder.join("tls.key").display().to_string());
        Client::new(config).unwrap()
    }
}

#[tokio::test]
async fn client_certificate_rejected_in_the_handshake_is_read_again() {
    let (server, folder) = (Server::default(), tempfile::tempdir().unwrap());
    let (before, after, tls) = (authority(), authority(), ServerTls::new());
    let settings = Arc::new(Mutex::new(tls.requiring(&before)));
    let address = server.listen(Some(Arc::clone(&settings))).await;
    let old = issue(&before, folder.path());
    let client = tls.client(address, folder.path());
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::OK);

    *settings.lock() = tls.requiring(&after);
    let new = issue(&after, folder.path());
    // A client with separate connections is used, because the certificate is verified only in the handshake
    // of a new connection.
    let client = client.with_separate_connections();
    assert_eq!(status(&client, Method::POST, "body").await, StatusCode::OK);
    assert_eq!(*server.peers.lock(), [old, new]);
    assert_eq!(server.seen.lock().len(), 2, "the server received each request once");
}

#[tokio::test]
async fn new_certificate_uses_new_connections_and_an_open_watch_keeps_the_old_one() {
    let (server, folder) = (Server::default(), tempfile::tempdir().unwrap());
    let (authority, tls) = (authority(), ServerTls::new());
    let settings = Arc::new(Mutex::new(tls.requiring(&authority)));
    let address = server.listen(Some(settings)).await;
    let old = issue(&authority, folder.path());
    let client = tls.client(address, folder.path());
    let watch = Request::get("/api/v1/pods?watch=1").body(Bytes::new()).unwrap();
    let mut watch = client.request(watch).await.unwrap().into_body();
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "first\n");
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::OK);
    assert_eq!(server.peers.lock().as_slice(), std::slice::from_ref(&old));

    let new = issue(&authority, folder.path());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::OK);
    assert_eq!(status(&client, Method::GET, "").await, StatusCode::OK);
    assert_eq!(*server.peers.lock(), [old, new]);
    let next = futures_util::FutureExt::now_or_never(watch.frame());
    assert!(next.is_none(), "the watch is open: {next:?}");
}

#[tokio::test]
async fn rejected_client_certificate_is_reported_as_the_cause() {
    let (server, folder, tls) = (Server::default(), tempfile::tempdir().unwrap(), ServerTls::new());
    let address = server.listen(Some(Arc::new(Mutex::new(tls.requiring(&authority()))))).await;
    issue(&authority(), folder.path());
    let client = tls.client(address, folder.path());
    let error = client.request(Request::get("/api/v1/pods").body(Bytes::new()).unwrap()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("the server rejected the client certificate; check the user in the kubeconfig"),
        "{text}"
    );
    assert!(server.seen.lock().is_empty());
}

/// Returns the configuration of a user with the auth provider `oidc`, whose token has this payload.
fn oidc(address: SocketAddr, payload: &str, more: &[(&str, &str)]) -> (Config, String) {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let token = format!("{}.{}.signature", encode("{}"), encode(payload));
    let settings = [("id-token", &*token)].into_iter().chain(more.iter().copied());
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut config = plain(address);
    config.auth_info.auth_provider = Some(AuthProviderConfig {
        name: "oidc".to_owned(),
        config: settings,
        ..AuthProviderConfig::default()
    });
    (config, token)
}

#[tokio::test]
async fn id_token_of_an_oidc_provider_is_sent() {
    let server = Server::default();
    let address = server.listen(None).await;
    // The token is valid until the year 9999.
    let (config, token) = oidc(address, r#"{"exp":253402000000}"#, &[]);
    let client = Client::new(config).unwrap();
    let response = client.request(Request::get("/api").body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(server.tokens(), [format!("Bearer {token}")]);
}

#[tokio::test]
async fn expired_id_token_is_not_sent_if_it_cannot_be_refreshed() {
    let server = Server::default();
    let address = server.listen(None).await;
    let (config, _) = oidc(address, r#"{"exp":1000000000}"#, &[("idp-issuer-url", "https://127.0.0.1:1")]);
    // kube refreshes the token when the client is created, or with the first request.
    let failure = match Client::new(config) {
        Ok(client) => {
            let sent = client.request(Request::get("/api").body(Bytes::new()).unwrap()).await;
            causes(&sent.err().unwrap())
        }
        Err(error) => causes(&error),
    };
    assert!(failure.contains("ID token expired"), "{failure}");
    assert!(server.tokens().is_empty());
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
