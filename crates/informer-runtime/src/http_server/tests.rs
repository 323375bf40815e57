use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use informer_apiserver::{ApiServer, Certificate, CertificateAuthority, User};
use informer_client::Client;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::{HttpServer, Tls, text};
use crate::{Manager, Runnable};

/// A server that runs, and where.
pub(super) struct Running {
    pub(super) address: std::net::SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), crate::BoxError>>,
}

pub(super) async fn run(server: HttpServer) -> Running {
    let (stop, mut bound) = (CancellationToken::new(), server.bound());
    let task = tokio::spawn(Box::new(server).run(stop.clone()));
    let address = bound.wait_for(Option::is_some).await.expect("it listens").expect("it is there");
    Running { address, stop, task }
}

/// Sends a request, and reads the answer to its end.
pub(super) async fn send(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers text");
    answer
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")).await
}

fn here() -> HttpServer {
    HttpServer::at("127.0.0.1:0")
}

#[tokio::test]
async fn paths_are_answered_and_what_is_below_a_slash() {
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
async fn a_handler_that_panics_is_answered_for_and_the_server_goes_on() {
    let server = here()
        .route("/panics", |_| async { panic!("in the handler") })
        .route("/well", |_| async { text(StatusCode::OK, "well") });
    let running = run(server).await;
    assert!(get(running.address, "/panics").await.starts_with("HTTP/1.1 500"));
    assert!(get(running.address, "/well").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let running = run(here().route("/", |_| async { Response::new(Bytes::new()) })).await;
    let body = "x".repeat(super::MAX_BODY_BYTES + 1);
    let head = format!(
        "POST / HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    assert!(send(running.address, &(head + &body)).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn a_server_that_stops_lets_requests_end_and_takes_no_more() {
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
    running.task.await.expect("no panic").expect("it was asked to end");
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_port_in_use_ends_the_manager_with_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let server = HttpServer::at(address.clone()).named("probes");
    let error = Manager::new(client).add(server).run_until(std::future::pending::<()>()).await;
    let error = error.expect_err("the port is in use");
    let cause = std::error::Error::source(&error).expect("it has a cause").to_string();
    assert!(
        cause.starts_with(&format!("listen at {address} for probes: the address is not available")),
        "{cause}"
    );
}

/// A certificate of its own authority in files, and what trusts it.
pub(super) fn certificate(folder: &std::path::Path) -> (Tls, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["here".to_owned()]).expect("a valid name");
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).expect("the folder is ours");
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("the folder is ours");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("it is a certificate");
    (Tls::files(folder.join("tls.crt"), folder.join("tls.key"), default_provider()), roots)
}

/// Whether a client that trusts `roots` gets through to the server.
async fn shakes_hands(acceptor: &super::tls::Acceptor, roots: &RootCertStore) -> bool {
    shake_hands(acceptor, roots, None).await.0
}

/// A client that trusts these roots, and has a certificate of its own or none.
pub(crate) fn connector(roots: RootCertStore, certificate: Option<&Certificate>) -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("ring speaks TLS");
    let config = config.with_root_certificates(roots);
    let config = match certificate {
        Some(certificate) => {
            let chain = CertificateDer::pem_slice_iter(certificate.chain().as_bytes());
            let chain = chain.collect::<Result<_, _>>().expect("it is PEM");
            let key = PrivateKeyDer::from_pem_slice(certificate.key().as_bytes()).expect("it is PEM");
            config.with_client_auth_cert(chain, key).expect("they are a pair")
        }
        None => config.with_no_client_auth(),
    };
    TlsConnector::from(Arc::new(config))
}

/// Whether the client and the server are content, the client having this certificate.
async fn shake_hands(
    acceptor: &super::tls::Acceptor,
    roots: &RootCertStore,
    certificate: Option<&Certificate>,
) -> (bool, bool) {
    let (client, server) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from("here").expect("a valid name");
    let connector = connector(roots.clone(), certificate);
    let (client, server) = tokio::join!(connector.connect(name, client), acceptor.acceptor().accept(server));
    (client.is_ok(), server.is_ok())
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, first) = certificate(folder.path());
    #[cfg(feature = "prometheus")]
    let mut registry = prometheus_client::registry::Registry::default();
    #[cfg(feature = "prometheus")]
    let tls = tls.counted(super::CertificateReads::register(&mut registry));
    let acceptor = tls.load().await.expect("a valid pair");
    assert!(shakes_hands(&acceptor, &first).await);
    assert!(!acceptor.renew().await.expect("nothing has changed"));

    let key = folder.path().join("tls.key");
    std::fs::write(&key, "garbage").expect("the folder is ours");
    let error = acceptor.renew().await.expect_err("the key is broken").to_string();
    assert!(error.ends_with("the key is not PEM"), "{error}");
    assert!(shakes_hands(&acceptor, &first).await, "the old pair stays");

    let (_, second) = certificate(folder.path());
    assert!(acceptor.renew().await.expect("a valid pair"));
    assert!(shakes_hands(&acceptor, &second).await);
    assert!(!shakes_hands(&acceptor, &first).await);

    #[cfg(feature = "prometheus")]
    {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("it is text");
        for line in
            ["certwatcher_read_certificate_total 4\n", "certwatcher_read_certificate_errors_total 1\n"]
        {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}

#[tokio::test]
async fn a_pair_that_does_not_belong_together_is_refused() {
    let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let _ = (certificate(one.path()), certificate(other.path()));
    let tls = Tls::files(one.path().join("tls.crt"), other.path().join("tls.key"), default_provider());
    let error = tls.load().await.err().expect("they are no pair").to_string();
    assert!(error.ends_with("certificate and key do not make a pair"), "{error}");
}

#[tokio::test]
async fn a_broken_certificate_ends_the_manager_with_an_error_that_names_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    std::fs::write(folder.path().join("tls.crt"), "garbage").expect("the folder is ours");
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let manager = Manager::new(client).add(here().named("webhooks").tls(tls));
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("nothing can be served");
    assert_eq!(error.to_string(), "the manager ended: webhooks failed");
    let cause = std::error::Error::source(&error).expect("it has a cause").to_string();
    assert!(cause.contains("tls.crt") && cause.contains("tls.key"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn files_are_read_again_every_ten_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let acceptor = tls.load().await.expect("a valid pair");
    let (_, second) = certificate(folder.path());
    tokio::select! {
        () = acceptor.watch() => {}
        () = tokio::time::sleep(Duration::from_secs(25)) => {}
    }
    assert!(shakes_hands(&acceptor, &second).await);
}

#[tokio::test]
async fn a_client_authority_that_is_replaced_counts_for_the_next_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, roots) = certificate(folder.path());
    let write = |text: &str| {
        std::fs::write(folder.path().join("ca.crt"), text).expect("the folder is ours");
        folder.path().join("ca.crt")
    };
    let authority = |name: &str| CertificateAuthority::new(name).expect("a key can be made");
    let (before, after) = (authority("before"), authority("after"));
    let user = |authority: &CertificateAuthority| authority.issue_to(&User::new("caller")).expect("a name");
    let (old, new) = (user(&before), user(&after));
    let acceptor = tls.client_authority(write(before.certificate())).load().await.expect("valid files");
    let taken = async |certificate: Option<&Certificate>| shake_hands(&acceptor, &roots, certificate).await.1;
    assert!(taken(Some(&old)).await && !taken(Some(&new)).await && !taken(None).await);

    write("garbage");
    let error = acceptor.renew().await.expect_err("nobody could be let in").to_string();
    assert!(error.ends_with("there is no client authority"), "{error}");
    assert!(taken(Some(&old)).await, "the old one stays");

    write(after.certificate());
    assert!(acceptor.renew().await.expect("valid files"));
    assert!(taken(Some(&new)).await && !taken(Some(&old)).await && !taken(None).await);
}

/// A certificate in a folder of its own below another one, as a version of a mounted Secret.
fn version(folder: &std::path::Path, name: &str) -> RootCertStore {
    let version = folder.join(name);
    std::fs::create_dir(&version).expect("the folder is ours");
    certificate(&version).1
}

#[tokio::test]
async fn certificate_is_reloaded_after_the_symlink_swap_of_a_mounted_secret() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let swap = |name: &str| {
        symlink(name, path("..data_tmp")).expect("the folder is ours");
        std::fs::rename(path("..data_tmp"), path("..data")).expect("the folder is ours");
    };
    let first = version(folder.path(), "..1");
    swap("..1");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), path(name)).expect("the folder is ours");
    }
    let tls = Tls::files(path("tls.crt"), path("tls.key"), default_provider());
    let acceptor = tls.load().await.expect("a valid pair");
    assert!(shakes_hands(&acceptor, &first).await);

    let second = version(folder.path(), "..2");
    assert!(!acceptor.renew().await.expect("nothing has changed"));
    swap("..2");
    std::fs::remove_dir_all(path("..1")).expect("the folder is ours");
    assert!(acceptor.renew().await.expect("a valid pair"));
    assert!(shakes_hands(&acceptor, &second).await);
    assert!(!shakes_hands(&acceptor, &first).await);
}

#[tokio::test]
async fn certificate_is_reloaded_after_files_are_renamed_over_it_or_removed_and_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (tls, first) = certificate(folder.path());
    let acceptor = tls.load().await.expect("a valid pair");

    let second = version(folder.path(), "2");
    std::fs::rename(path("2/tls.crt"), path("tls.crt")).expect("the folder is ours");
    let error = acceptor.renew().await.expect_err("half of a pair").to_string();
    assert!(error.ends_with("certificate and key do not make a pair"), "{error}");
    assert!(shakes_hands(&acceptor, &first).await, "the old pair stays");
    std::fs::rename(path("2/tls.key"), path("tls.key")).expect("the folder is ours");
    assert!(acceptor.renew().await.expect("a valid pair"));
    assert!(shakes_hands(&acceptor, &second).await);

    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(path(name)).expect("it exists");
        let error = acceptor.renew().await.expect_err("a file is missing").to_string();
        assert!(error.ends_with("a file cannot be read"), "{error}");
        assert!(shakes_hands(&acceptor, &second).await, "the old pair stays");
    }
    let (_, third) = certificate(folder.path());
    assert!(acceptor.renew().await.expect("a valid pair"));
    assert!(shakes_hands(&acceptor, &third).await && !shakes_hands(&acceptor, &second).await);
}
