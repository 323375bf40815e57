//! Tests a webhook server that accepts only clients with a certificate of one certificate authority, over
//! real TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_apiserver::{ApiServer, Certificate, CertificateAuthority, User};
use informer_client::Client;
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::{AdmissionRequest, Allowed, WebhookServer};
use super::{ConfigMap, review};
use crate::http_server::tests::connector;
use crate::{Manager, Tls};

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name).expect("a key can be generated")
}

fn user(authority: &CertificateAuthority) -> Certificate {
    authority.issue_to(&User::new("kube-apiserver")).expect("a valid name")
}

/// Writes a server certificate that the authority `own` has issued, its key, and the client authority to
/// files. Returns the TLS configuration of a server that accepts only clients with a certificate of the
/// authority `clients`.
fn files(folder: &Path, own: &CertificateAuthority, clients: &CertificateAuthority) -> Tls {
    let certificate = own.issue_for(["localhost"]).expect("a valid name");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("a writable folder");
        folder.join(name)
    };
    let (chain, key) = (write("tls.crt", certificate.chain()), write("tls.key", certificate.key()));
    Tls::files(chain, key, default_provider()).client_authority(write("ca.crt", clients.certificate()))
}

fn roots(authority: &CertificateAuthority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).expect("valid PEM");
    roots.add(root).expect("it is a certificate");
    roots
}

/// Sends a review to a webhook server over TLS and returns the response. A TLS 1.3 client completes its
/// handshake before the server verifies the client's certificate, so a rejection may appear as an error of
/// the first read.
async fn ask(address: SocketAddr, connector: TlsConnector) -> io::Result<String> {
    let name = ServerName::try_from("localhost").expect("a valid name");
    let mut stream = connector.connect(name, TcpStream::connect(address).await?).await?;
    let body = review("ConfigMap", "CREATE", json!({})).to_string();
    let head = format!(
        "POST /validate--v1-configmap HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_authority_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, callers, others) = (authority("webhooks"), authority("callers"), authority("others"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let webhooks = WebhookServer::at("127.0.0.1:0", files(folder.path(), &own, &callers)).validate(
        move |_: AdmissionRequest<ConfigMap>| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(Allowed::new()) }
        },
    );
    let mut bound = webhooks.bound();
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let manager = Manager::new(client).add(webhooks);
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let address = bound.wait_for(Option::is_some).await.expect("the server listens").expect("it exists");

    let of_a_server = callers.issue_for(["localhost"]).expect("a valid name");
    for certificate in [None, Some(user(&others)), Some(user(&own)), Some(of_a_server)] {
        let refused = ask(address, connector(roots(&own), certificate.as_ref())).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "the webhook was not called");
    }
    let served =
        ask(address, connector(roots(&own), Some(&user(&callers)))).await.expect("the kind is served");
    assert!(served.starts_with("HTTP/1.1 200 OK") && served.contains(r#""allowed":true"#), "{served}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    handle.stop();
    running.await.expect("no panic").expect("a clean stop");
}

#[tokio::test]
async fn webhook_server_with_an_invalid_client_authority_stops_the_manager_with_an_error_naming_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = files(folder.path(), &authority("webhooks"), &authority("callers"));
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, "garbage").expect("a writable folder");
    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let manager = Manager::new(client).add(WebhookServer::at("127.0.0.1:0", tls));
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("it cannot verify clients");
    assert_eq!(error.to_string(), "the manager ended: webhooks failed");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    let problem = format!("there is no client CA in {}", file.display());
    assert!(cause.ends_with(&problem), "{cause}");
}
