//! Tests with real sockets on the loopback device: HTTP/1.1, HTTP/2, compression, many watches, and kube's
//! client.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_cache::source::WatchSource as _;
use informer_client::{Client, ClientOptions, KubeListWatch, Lazy};
use k8s_openapi::api::core::v1::Pod;
use kube_client::Config;
use parking_lot::Mutex;

use crate::script::{first_list, list, show, watch_from};

const LIST: &str =
    r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"x"}}]}"#;
const EVENT: &str =
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"8\"}}}\n";

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn gzip(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

/// Responds to a request: a list ends immediately; a watch sends two events and stays open. Responses are
/// compressed if the client accepts gzip, with one gzip member for each event.
fn respond(request: &Request<Incoming>) -> Response<Body> {
    let zipped = request.headers().get("accept-encoding").is_some_and(|value| value == "gzip");
    let text = |text: &str| if zipped { gzip(text) } else { Bytes::copy_from_slice(text.as_bytes()) };
    let body = if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        let events = [text(EVENT), text(EVENT)].map(|event| Ok(Frame::data(event)));
        let open = futures_util::stream::iter(events).chain(futures_util::stream::pending());
        StreamBody::new(open).boxed_unsync()
    } else {
        Full::new(text(LIST)).boxed_unsync()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    if zipped {
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    }
    response
}

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    http2: Arc<AtomicUsize>,
    authorizations: Arc<Mutex<Vec<String>>>,
}

/// Returns a server that allows at most 100 streams per connection, like kube-apiserver.
async fn serve() -> Server {
    serve_over(None).await
}

async fn serve_over(tls: Option<tokio_rustls::TlsAcceptor>) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        connections: Arc::default(),
        http2: Arc::default(),
        authorizations: Arc::default(),
    };
    let (connections, http2) = (Arc::clone(&server.connections), Arc::clone(&server.http2));
    let authorizations = Arc::clone(&server.authorizations);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::SeqCst);
            let (http2, authorizations, tls) = (Arc::clone(&http2), Arc::clone(&authorizations), tls.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    if let Some(value) = request.headers().get("authorization") {
                        authorizations.lock().push(value.to_str().unwrap().to_owned());
                    }
                    http2.fetch_add(usize::from(request.version() == Version::HTTP_2), Ordering::SeqCst);
                    std::future::ready(Ok::<_, Infallible>(respond(&request)))
                });
                let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                builder.http2().max_concurrent_streams(100);
                let _ = match tls {
                    None => builder.serve_connection(TokioIo::new(socket), service).await,
                    Some(tls) => match tls.accept(socket).await {
                        Ok(socket) => builder.serve_connection(TokioIo::new(socket), service).await,
                        Err(_) => return,
                    },
                };
            });
        }
    });
    server
}

fn config(server: &Server) -> Config {
    Config::new(format!("http://{}", server.address).parse().unwrap())
}

async fn first_events(client: &Client) -> Vec<String> {
    let source = KubeListWatch::<Lazy<Pod>>::all(client);
    let mut events = source.watch(watch_from("7")).await.unwrap();
    let two = [events.next().await.unwrap().unwrap(), events.next().await.unwrap().unwrap()];
    two.iter().map(show).collect()
}

#[tokio::test]
async fn lists_and_watches_work_over_http1_and_http2_with_and_without_gzip() {
    for (http2, gzip) in [(false, false), (false, true), (true, false), (true, true)] {
        let server = serve().await;
        let options =
            ClientOptions { gzip: Some(gzip), http2_prior_knowledge: http2, ..ClientOptions::default() };
        let client = Client::with_options(config(&server), options).unwrap();
        let read = list(&KubeListWatch::<Lazy<Pod>>::all(&client), first_list()).await.unwrap();
        assert_eq!(read.keys(), ["x"]);
        assert_eq!(first_events(&client).await, ["Added(x @8)", "Added(x @8)"]);
        assert_eq!(server.http2.load(Ordering::SeqCst), if http2 { 2 } else { 0 });
    }
}

#[tokio::test]
async fn list_is_not_blocked_by_more_watches_than_streams_per_connection() {
    let server = serve().await;
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let client = Client::with_options(config(&server), options).unwrap();
    let source = KubeListWatch::<Lazy<Pod>>::all(&client);
    let mut watches = Vec::new();
    for _ in 0..150 {
        let mut watch = source.watch(watch_from("7")).await.unwrap();
        watch.next().await.unwrap().unwrap();
        watches.push(watch);
    }
    assert_eq!(list(&source, first_list()).await.unwrap().keys(), ["x"]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    drop(watches);
}

#[tokio::test]
async fn client_with_separate_connections_shares_credentials_but_no_connection() {
    let server = serve().await;
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let mut config = config(&server);
    config.auth_info.token = Some("shared".to_owned().into());
    let client = Client::with_options(config, options).unwrap();
    let separate = client.with_separate_connections();
    for (client, connections) in [(&client, 1), (&client.clone(), 1), (&separate, 2), (&separate.clone(), 2)]
    {
        list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
        assert_eq!(server.connections.load(Ordering::SeqCst), connections);
    }
    assert_eq!(*server.authorizations.lock(), ["Bearer shared"; 4]);
}

#[tokio::test]
async fn client_from_kube_client_lists_and_watches() {
    let server = serve().await;
    let kube = kube_client::Client::try_from(config(&server)).unwrap();
    let client = Client::from(kube.clone());
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert_eq!(read.keys(), ["x"]);
    let api: kube_client::Api<Pod> = kube_client::Api::all(kube);
    assert_eq!(first_events(&api.clone().into()).await.len(), 2);
    let source =
        KubeListWatch::<Lazy<Pod>>::from_api(kube_client::Api::<Pod>::namespaced(api.into_client(), "a"));
    assert_eq!(format!("{source:?}").matches("Some(\"a\")").count(), 1, "{source:?}");
}

#[tokio::test]
async fn client_creation_rejects_invalid_proxy_and_ca() {
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    assert!(Client::new(config.clone()).is_ok());
    config.proxy_url = Some("ftp://proxy".parse().unwrap());
    let error = Client::new(config.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "create a client: the scheme of the proxy URL is not supported; use an http, https or socks5 URL"
    );
    config.proxy_url = None;
    config.root_cert = Some(vec![b"not a certificate".to_vec()]);
    let error = Client::new(config.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "create a client: the TLS settings are invalid; check certificates and keys in the kubeconfig"
    );
    // kube represents a CA bundle without a PEM certificate as an empty list of certificates.
    config.root_cert = Some(Vec::new());
    let error = Client::new(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "create a client: the CA bundle contains no certificate; check certificates and keys in the kubeconfig"
    );
}

#[tokio::test]
async fn client_creation_names_an_invalid_ca_file_and_succeeds_once_it_is_replaced() {
    let (server, certificate) = serve_tls(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let mut config = Config::new(format!("https://{}", server.address).parse().unwrap());
    config.root_cert_file = Some(file.clone());
    let pem = |content: &str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
    for content in [None, Some(String::new()), Some("garbage".to_owned()), Some(pem("AAAA")), Some(pem("!"))]
    {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = Client::new(config.clone()).unwrap_err().to_string();
        let named = format!("create a client: there is no valid CA certificate in {}; ", file.display());
        assert!(error.starts_with(&named), "{error}");
    }
    std::fs::write(&file, pem(&STANDARD.encode(certificate))).unwrap();
    let client = Client::new(config).unwrap();
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(&client), first_list()).await.unwrap();
    assert_eq!(read.keys(), ["x"]);
}

/// Returns a TLS server that offers these ALPN protocols, and the server's certificate.
async fn serve_tls(protocols: &[&[u8]]) -> (Server, Vec<u8>) {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    (serve_over(Some(acceptor)).await, own.cert.der().to_vec())
}

fn tls_config(server: &Server, certificate: Vec<u8>) -> Config {
    let mut config = Config::new(format!("https://{}", server.address).parse().unwrap());
    config.root_cert = Some(vec![certificate]);
    config
}

#[tokio::test]
async fn http2_is_used_over_tls_if_the_server_offers_it() {
    for (protocols, http2) in [(&[b"h2".as_slice(), b"http/1.1"][..], 1), (&[b"http/1.1"], 0), (&[], 0)] {
        let (server, certificate) = serve_tls(protocols).await;
        let client = Client::new(tls_config(&server, certificate)).unwrap();
        let read = list(&KubeListWatch::<Lazy<Pod>>::all(&client), first_list()).await.unwrap();
        assert_eq!(read.keys(), ["x"]);
        assert_eq!(server.http2.load(Ordering::SeqCst), http2);
    }
}

#[tokio::test]
async fn unknown_ca_is_reported_as_the_cause() {
    let (server, _) = serve_tls(&[]).await;
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let client = Client::new(tls_config(&server, other.cert.der().to_vec())).unwrap();
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(&client), first_list()).await.unwrap_err();
    assert!(
        error.to_string().ends_with("TLS failed; check the CA certificate and the server name"),
        "{error}"
    );
}

#[tokio::test]
async fn token_and_exec_plugin_authenticate_requests() {
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-the-plugin"}}"#;
    let server = serve().await;
    let mut with_token = config(&server);
    with_token.auth_info.token = Some("of-the-file".to_owned().into());
    let exec = serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [credential],
        "interactiveMode": "Never"});
    let mut with_plugin = config(&server);
    with_plugin.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
    let mut broken = config(&server);
    broken.auth_info.token_file = Some("/nowhere/token".to_owned());
    for config in [with_token, with_plugin] {
        let client = Client::new(config).unwrap();
        list(&KubeListWatch::<Lazy<Pod>>::all(&client), first_list()).await.unwrap();
    }
    assert_eq!(*server.authorizations.lock(), ["Bearer of-the-file", "Bearer of-the-plugin"]);
    let error = Client::new(broken).unwrap_err();
    assert!(error.to_string().contains("check the user in the kubeconfig"), "{error}");
}
