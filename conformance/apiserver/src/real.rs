//! Starts and stops a real kube-apiserver with its etcd on loopback.
//!
//! # Shutdown
//!
//! Dropping the [`RealServer`] kills both programs and removes their folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use informer_apiserver::ReservedPort;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;
use thiserror::Error;
use tokio::process::{Child, Command};

use crate::target::Target;

/// The file with the users of the embedded and the real server. The token of USER is `USER-token`.
const USERS: &str = "users.csv";
/// Timeout for etcd and kube-apiserver to become ready, which takes about three seconds on two idle cores.
const START_WAIT: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// A running pair of kube-apiserver and etcd.
#[derive(Debug)]
pub struct RealServer {
    /// The target for requests to the kube-apiserver: its port, and a TLS configuration that trusts its
    /// certificate.
    pub target: Target,
    _programs: [Child; 2],
    _folder: TempDir,
}

/// The error of a kube-apiserver or an etcd that did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A program or a file that the servers need is missing.
    #[error("cannot use {}; build the programs with `cargo xtask real build`", path.display())]
    File {
        /// The path of the missing program or file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// No port or folder is available for the servers.
    #[error("cannot reserve a port or create a folder")]
    Prepare(#[from] io::Error),
    /// The keys or certificates of the servers are invalid.
    #[error("cannot create keys, or load the server's certificate: {0}")]
    Keys(String),
    /// The kube-apiserver was not ready in time.
    #[error("kube-apiserver is not ready after {} seconds", START_WAIT.as_secs())]
    Slow,
}

impl RealServer {
    /// Starts etcd and kube-apiserver from a folder that contains the programs `etcd` and `kube-apiserver`.
    ///
    /// # Errors
    ///
    /// When a program is missing, or the servers are not ready in time.
    pub async fn start(programs: &Path) -> Result<Self, StartError> {
        let folder = TempDir::new()?;
        let ports = [ReservedPort::new()?, ReservedPort::new()?, ReservedPort::new()?];
        let [client, peer, port] = ports.each_ref().map(ReservedPort::number);
        write_keys(folder.path())?;
        let url = format!("http://127.0.0.1:{client}");
        let etcd = spawn(
            &programs.join("etcd"),
            &[
                format!("--data-dir={}", folder.path().join("etcd").display()),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                "--unsafe-no-fsync".to_owned(),
            ],
        )?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let users = Path::new(env!("CARGO_MANIFEST_DIR")).join(USERS);
        let server = spawn(
            &programs.join("kube-apiserver"),
            &[
                format!("--etcd-servers={url}"),
                format!("--secure-port={port}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", at("certs")),
                "--service-account-issuer=https://example.local".to_owned(),
                format!("--service-account-key-file={}", at("sa.pub")),
                format!("--service-account-signing-key-file={}", at("sa.key")),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                format!("--token-auth-file={}", users.display()),
                "--authorization-mode=RBAC".to_owned(),
                "--disable-admission-plugins=ServiceAccount".to_owned(),
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
            ],
        )?;
        let certificate = folder.path().join("certs/apiserver.crt");
        let target = tokio::time::timeout(START_WAIT, ready(port, &certificate)).await;
        let target = target.map_err(|_| StartError::Slow)??;
        Ok(Self { target, _programs: [server, etcd], _folder: folder })
    }
}

/// Returns the target for a kube-apiserver that is already running with this package's users, by its port and
/// its certificate.
///
/// # Errors
///
/// When the certificate cannot be read.
pub async fn attach(port: u16, certificate: &Path) -> Result<Target, StartError> {
    tokio::time::timeout(START_WAIT, ready(port, certificate)).await.map_err(|_| StartError::Slow)?
}

fn spawn(program: &Path, arguments: &[String]) -> Result<Child, StartError> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().map_err(|source| StartError::File { path: program.to_owned(), source })
}

fn write_keys(folder: &Path) -> Result<(), StartError> {
    let pair = rcgen::KeyPair::generate().map_err(|error| StartError::Keys(error.to_string()))?;
    std::fs::write(folder.join("sa.key"), pair.serialize_pem())?;
    Ok(std::fs::write(folder.join("sa.pub"), pair.public_key_pem())?)
}

/// Waits until the server reports ready and has created its default roles.
async fn ready(port: u16, certificate: &Path) -> Result<Target, StartError> {
    let target = loop {
        match std::fs::read(certificate) {
            Ok(pem) if pem.ends_with(b"-----END CERTIFICATE-----\n") => {
                break Target::Real { port, tls: trusting(&pem)? };
            }
            _ => tokio::time::sleep(ASK_AGAIN).await,
        }
    };
    for path in ["/readyz", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:public-info-viewer"] {
        loop {
            let request = Request::builder().uri(path).header("authorization", "Bearer admin-token");
            let request = request.body(Full::<Bytes>::default()).expect("the request is valid");
            match target.send(request).await {
                Ok(response) if response.status() == 200 => break,
                _ => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }
    Ok(target)
}

fn trusting(pem: &[u8]) -> Result<Arc<rustls::ClientConfig>, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Keys(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| failed(&error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
