use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use informer_apiserver::{ApiServer, Certificate, CertificateAuthority, User};
use informer_client::Client;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::{HttpServer, Tls, text};
use crate::{Manager, Runnable};

pub(super) struct Running {
    pub(super) address: std::net::SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), crate::BoxError>>,
}

pub(super) async fn run(server: HttpServer) -> Running {
    let (stop, mut bound) = (CancellationToken::new(), server.bound());
    let task = tokio::spawn(Box::new(server).run(stop.clone()));
    let address = bound.wait_for(Option::is_some).await.expect("the server listens").expect("it exists");
    Running { address, stop, task }
}

pub(super) async fn send(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a text response");
    response
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")).await
}

fn here() -> HttpServer {
    HttpServer::at("127.0.0.1:0")
}

#[tokio::test]
async fn exact_paths_and_prefixes_are_routed() {
    let server = here()
        .route("/exact", |_| async { text(StatusCode::OK, "exactly") })
        .route("/below/", |request| async move { text(StatusCode::OK, request.uri().path().to_owned()) });
    let running = run(server).await;
    assert!(get(running.address, "/exact").await.ends_with("\r\n\r\nexactly"));
    assert!(get(running.address, "/below/a/b").await.ends_with("\r\n\r\n/below/a/b"));
    assert!(get(running.address, "/exactly").await.starts_with("HTTP/1.1 404"));
    assert!(get(running.address, "/").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn panicking_handler_returns_500_and_server_continues() {
    let server = here()
        .route("/panics", |_| async { panic!("in the handler") })
        .route("/well", |_| async { text(StatusCode::OK, "well") });
    let running = run(server).await;
    assert!(get(running.address, "/panics").await.starts_with("HTTP/1.1 500"));
    assert!(get(running.address, "/well").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn too_large_body_is_rejected_with_413() {
    let running = run(here().route("/", |_| async { Response::new(Bytes::new()) })).await;
    let body = "x".repeat(super::MAX_BODY_BYTES + 1);
    let head = format!(
        "POST / HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    assert!(send(running.address, &(head + &body)).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn stopping_server_drains_requests_and_accepts_no_more() {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&began), Arc::clone(&go));
    let server = here().route("/slow", move |_| {
        let (began, go) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            began.notify_one();
            go.notified().await;
            text(StatusCode::OK, "done")
        }
    });
    let running = run(server).await;
    let request = tokio::spawn(async move { get(running.address, "/slow").await });
    began.notified().await;
    running.stop.cancel();
    go.notify_one();
    assert!(request.await.expect("no panic").ends_with("done"));
    running.task.await.expect("no panic").expect("a clean stop");
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn port_in_use_stops_the_manager_with_an_error_naming_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("a bound listener").to_string();
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let server = HttpServer::at(address.clone()).named("probes");
    let error = Manager::new(client).add(server).run_until(std::future::pending::<()>()).await;
    let error = error.expect_err("the port is in use");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(
        cause.starts_with(&format!("listen at {address} for probes: the address is not available")),
        "{cause}"
    );
}

/// Writes a self-signed certificate and its key to files. Returns the TLS configuration of a server with this
/// certificate, and the root certificates with which a client trusts the server.
pub(super) fn certificate(folder: &std::path::Path) -> (Tls, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["here".to_owned()]).expect("a valid name");
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).expect("a writable folder");
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("a writable folder");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("it is a certificate");
    (Tls::files(folder.join("tls.crt"), folder.join("tls.key"), default_provider()), roots)
}

pub(crate) fn connector(roots: RootCertStore, certificate: Option<&Certificate>) -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("ring supports TLS");
    let config = config.with_root_certificates(roots);
    let config = match certificate {
        Some(certificate) => {
            let chain = CertificateDer::pem_slice_iter(certificate.chain().as_bytes());
            let chain = chain.collect::<Result<_, _>>().expect("valid PEM");
            let key = PrivateKeyDer::from_pem_slice(certificate.key().as_bytes()).expect("valid PEM");
            config.with_client_auth_cert(chain, key).expect("a matching pair")
        }
        None => config.with_no_client_auth(),
    };
    TlsConnector::from(Arc::new(config))
}

/// Accepts any certificate, like a scraper with `insecure_skip_verify`.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let supported = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Sends a request by one of these versions of TLS, without verifying the certificate of the server.
pub(super) async fn send_over_tls(
    address: std::net::SocketAddr,
    request: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_protocol_versions(versions).expect("ring supports TLS").dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(AnyCertificate)).with_no_client_auth();
    let name = ServerName::try_from("here").expect("a valid name");
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

#[cfg(feature = "prometheus")]
#[tokio::test]
async fn reads_of_the_certificate_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let mut registry = prometheus_client::registry::Registry::default();
    let reads = super::CertificateMetrics::register(&mut registry);
    let _running = run(here().tls(tls.clone()).counted(reads.clone())).await;
    std::fs::remove_file(folder.path().join("tls.key")).expect("it exists");
    let server = Box::new(here().tls(tls).counted(reads));
    server.run(CancellationToken::new()).await.expect_err("a file is missing");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("valid text");
    for line in ["certwatcher_read_certificate_total 2\n", "certwatcher_read_certificate_errors_total 1\n"] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[tokio::test]
async fn invalid_certificate_stops_the_manager_with_an_error_naming_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    std::fs::write(folder.path().join("tls.crt"), "garbage").expect("a writable folder");
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let manager = Manager::new(client).add(here().named("webhooks").tls(tls));
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("nothing can be served");
    assert_eq!(error.to_string(), "the manager ended: webhooks failed");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains("tls.crt") && cause.contains("tls.key"), "{cause}");
    assert!(cause.ends_with("the certificate is not PEM"), "{cause}");
}

#[tokio::test]
async fn invalid_client_authority_at_the_start_stops_the_manager_with_an_error_naming_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, roots) = certificate(folder.path());
    let file = folder.path().join("ca.crt");
    let tls = tls.client_authority(&file);
    let manager = || {
        let server = here().tls(tls.clone());
        let bound = server.bound();
        let client = Client::from_service(ApiServer::builder().build().service(), "default");
        (Manager::new(client).health(server), bound)
    };
    let truncated = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let no_certificate = format!("{truncated}-----END CERTIFICATE-----\n");
    for (content, problem) in [
        (None, "cannot be read"),
        (Some(""), "there is no client CA"),
        (Some("garbage"), "there is no client CA"),
        (Some(truncated), "there is an invalid client CA"),
        (Some(&no_certificate), "there is an invalid client CA"),
    ] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("a writable folder");
        }
        let (manager, mut bound) = manager();
        let ended = tokio::select! {
            ended = manager.run_until(std::future::pending::<()>()) => ended,
            Ok(_) = bound.wait_for(Option::is_some) => panic!("the server listens with {content:?}"),
        };
        let error = ended.expect_err("it is invalid");
        assert_eq!(error.to_string(), "the manager ended: probes failed");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains(problem) && cause.contains(&file.display().to_string()), "{cause}");
    }

    let authority = CertificateAuthority::new("callers").expect("a key can be generated");
    std::fs::write(&file, authority.certificate()).expect("a writable folder");
    let (manager, mut bound) = manager();
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let address = bound.wait_for(Option::is_some).await.expect("the server listens").expect("it exists");
    let user = authority.issue_to(&User::new("caller")).expect("a name");
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let name = ServerName::try_from("here").expect("a valid name");
    let mut stream = connector(roots, Some(&user)).connect(name, stream).await.expect("a handshake");
    let request = "GET /livez HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a text response");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    handle.stop();
    running.await.expect("no panic").expect("a clean stop");
}
