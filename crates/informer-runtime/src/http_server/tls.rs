//! TLS certificates of an HTTP server, which are read from files and reloaded when the files change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
#[cfg(feature = "prometheus")]
use prometheus_client::{metrics::counter::Counter, registry::Registry};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::BoxError;

/// The interval between two reads of a server's certificate files, as in controller-runtime. It is short,
/// because certificates are usually replaced hours before they expire.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// A certificate chain and its key in PEM files. The files are reloaded every 10 s, so a certificate that
/// cert-manager or a mounted Secret replaces is used for the next connection. While the files cannot be read
/// or do not match, the previous pair stays in use, and a warning states the reason.
#[derive(Clone)]
#[must_use = "pass it to a server"]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    authorities: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    #[cfg(feature = "prometheus")]
    reads: Option<CertificateReads>,
}

/// Counts how often the servers of a manager have read their certificate files, under the names of these
/// metrics in controller-runtime.
#[cfg(feature = "prometheus")]
#[derive(Clone, Default)]
pub(crate) struct CertificateReads {
    all: Counter,
    failed: Counter,
}

#[cfg(feature = "prometheus")]
impl CertificateReads {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let reads = Self::default();
        let name = "certwatcher_read_certificate";
        registry.register(name, "Reads of certificates", reads.all.clone());
        registry.register(
            format!("{name}_errors"),
            "Reads of certificates that failed",
            reads.failed.clone(),
        );
        reads
    }
}

impl Tls {
    /// Creates the TLS configuration of a server from two PEM files and a provider of TLS primitives. The
    /// provider that is installed for the process is not used.
    pub fn files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        provider: impl Into<Arc<CryptoProvider>>,
    ) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            authorities: None,
            provider: provider.into(),
            #[cfg(feature = "prometheus")]
            reads: None,
        }
    }

    /// Creates the TLS configuration of a server from two PEM files. It uses the provider of TLS primitives
    /// that is installed for the process, or else that of the feature `ring` or `aws-lc-rs`.
    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    pub fn pem_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
        use rustls::crypto::aws_lc_rs as ours;
        #[cfg(feature = "ring")]
        use rustls::crypto::ring as ours;
        let provider = CryptoProvider::get_default().cloned();
        Self::files(certificate, key, provider.unwrap_or_else(|| Arc::new(ours::default_provider())))
    }

    /// Accepts only clients whose certificate was issued by one of the certificate authorities in this PEM
    /// file, for webhooks that only the API server may call. The file is reloaded together with the
    /// certificate and the key. The API server needs a client certificate for such webhooks
    /// (`--admission-control-config-file`).
    pub fn client_authority(mut self, authorities: impl Into<PathBuf>) -> Self {
        self.authorities = Some(authorities.into());
        self
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn counted(self, reads: CertificateReads) -> Self {
        Self { reads: Some(reads), ..self }
    }

    fn count<T>(&self, read: Result<T, TlsError>) -> Result<T, TlsError> {
        #[cfg(feature = "prometheus")]
        if let Some(reads) = &self.reads {
            reads.all.inc();
            reads.failed.inc_by(u64::from(read.is_err()));
        }
        read
    }

    pub(super) async fn load(self) -> Result<Acceptor, TlsError> {
        let read = self.read().await.and_then(|files| Ok((self.configure(&files)?, files)));
        let (config, files) = self.count(read)?;
        Ok(Acceptor { tls: self, files: RwLock::new(files), config: RwLock::new(config) })
    }

    async fn read(&self) -> Result<Files, TlsError> {
        let (certificate, key, authorities) =
            (self.certificate.clone(), self.key.clone(), self.authorities.clone());
        let read = move || {
            let authorities = authorities.map(read_file).transpose()?;
            Ok(Files { certificate: read_file(certificate)?, key: read_file(key)?, authorities })
        };
        let read: Result<Result<Files, (PathBuf, std::io::Error)>, _> =
            tokio::task::spawn_blocking(read).await;
        match read {
            Ok(Ok(files)) => Ok(files),
            Ok(Err((path, error))) => {
                Err(self.error(format!("the file {} cannot be read", path.display()), error))
            }
            Err(error) => Err(self.error("the files cannot be read", error)),
        }
    }

    fn configure(&self, files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.error("the provider supports no version of TLS", error))?;
        let config = match self.authorities.as_deref().zip(files.authorities.as_deref()) {
            Some((path, authorities)) => config.with_client_cert_verifier(self.verifier(path, authorities)?),
            None => config.with_no_client_auth(),
        };
        let resolver = Arc::new(SingleCertAndKey::from(self.parse(files)?));
        let mut config = config.with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Creates the verifier of client certificates from the certificate authorities that were read from the
    /// file at `path`.
    fn verifier(&self, path: &Path, authorities: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let problem = |problem: &str| format!("{problem} in {}", path.display());
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities) {
            let added = authority.map_err(BoxError::from).and_then(|authority| Ok(roots.add(authority)?));
            added.map_err(|error| self.error(problem("there is an invalid client CA"), error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&self.provider));
        verifier.build().map_err(|error| self.error(problem("there is no client CA"), error))
    }

    fn parse(&self, Files { certificate, key, .. }: &Files) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(|error| self.error("the certificate is not PEM", error))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| self.error("the key is not PEM", error))?;
        let pair = CertifiedKey::from_der(chain, key, &self.provider);
        pair.map_err(|error| self.error("the key does not match the certificate", error))
    }

    fn error(&self, problem: impl Into<String>, cause: impl Into<BoxError>) -> TlsError {
        TlsError {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            problem: problem.into(),
            cause: cause.into(),
        }
    }
}

fn read_file(path: PathBuf) -> Result<Vec<u8>, (PathBuf, std::io::Error)> {
    std::fs::read(&path).map_err(|error| (path, error))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (certificate, key): (&Path, &Path) = (&self.certificate, &self.key);
        f.debug_struct("Tls").field("certificate", &certificate).field("key", &key).finish_non_exhaustive()
    }
}

/// The error for a certificate that a server cannot use, or for invalid client CAs.
#[derive(Debug, thiserror::Error)]
#[error("serve {} with {}: {problem}", .certificate.display(), .key.display())]
pub struct TlsError {
    certificate: PathBuf,
    key: PathBuf,
    problem: String,
    #[source]
    cause: BoxError,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

/// Accepts TLS connections with the certificate that was read last, and reloads the certificate files
/// periodically.
pub(super) struct Acceptor {
    tls: Tls,
    files: RwLock<Files>,
    config: RwLock<Arc<ServerConfig>>,
}

impl Acceptor {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.read()))
    }

    /// Reloads the certificate files periodically. The future never resolves, so the server polls it together
    /// with the loop that accepts connections.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            match self.renew().await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(certificate = %self.tls.certificate.display(), "loaded a new certificate")
                }
                Err(error) => {
                    let certificate = self.tls.certificate.display();
                    tracing::warn!(%certificate, error = &error as &dyn std::error::Error, "cannot load the new certificate; the old one stays in use");
                }
            }
        }
    }

    pub(super) async fn renew(&self) -> Result<bool, TlsError> {
        let read = self.tls.read().await.and_then(|files| self.changed(files));
        let Some((config, files)) = self.tls.count(read)? else { return Ok(false) };
        *self.config.write() = config;
        *self.files.write() = files;
        Ok(true)
    }

    fn changed(&self, files: Files) -> Result<Option<(Arc<ServerConfig>, Files)>, TlsError> {
        if *self.files.read() == files {
            return Ok(None);
        }
        Ok(Some((self.tls.configure(&files)?, files)))
    }
}
