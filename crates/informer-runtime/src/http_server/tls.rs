//! Certificates of a server, read from files and read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::BoxError;

/// How often the files are looked at, as upstream does beside its notifications: certificates are replaced hours before they expire.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// A certificate with its chain and its key, in PEM files that are read again every 10 s: what cert-manager or a mounted Secret
/// replaces is used for the next connection. While the files cannot be read or do not belong together, the old pair stays, and a
/// warning says why.
#[derive(Clone)]
#[must_use = "it is given to a server"]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
}

impl Tls {
    /// The files, and the provider of TLS primitives: nothing process-wide is asked for one.
    pub fn files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        provider: impl Into<Arc<CryptoProvider>>,
    ) -> Self {
        Self { certificate: certificate.into(), key: key.into(), provider: provider.into() }
    }

    pub(super) async fn load(self) -> Result<Acceptor, TlsError> {
        let pair = self.read().await?;
        let key = self.parse(&pair)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.error("the provider speaks no version of TLS", error))?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Acceptor { tls: self, pair: RwLock::new(pair), current, config: Arc::new(config) })
    }

    async fn read(&self) -> Result<Pair, TlsError> {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let read = move || Ok((std::fs::read(certificate)?, std::fs::read(key)?));
        let read: Result<std::io::Result<Pair>, _> = tokio::task::spawn_blocking(read).await;
        match read {
            Ok(Ok(pair)) => Ok(pair),
            Ok(Err(error)) => Err(self.error("a file cannot be read", error)),
            Err(error) => Err(self.error("a file cannot be read", error)),
        }
    }

    fn parse(&self, (certificate, key): &Pair) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(|error| self.error("the certificate is no PEM", error))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| self.error("the key is no PEM", error))?;
        let pair = CertifiedKey::from_der(chain, key, &self.provider);
        pair.map_err(|error| self.error("certificate and key do not make a pair", error))
    }

    fn error(&self, problem: &'static str, cause: impl Into<BoxError>) -> TlsError {
        TlsError {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            problem,
            cause: cause.into(),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (certificate, key): (&Path, &Path) = (&self.certificate, &self.key);
        f.debug_struct("Tls").field("certificate", &certificate).field("key", &key).finish_non_exhaustive()
    }
}

/// A certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve {} with {}: {problem}", .certificate.display(), .key.display())]
pub struct TlsError {
    certificate: PathBuf,
    key: PathBuf,
    problem: &'static str,
    #[source]
    cause: BoxError,
}

/// The bytes of both files.
type Pair = (Vec<u8>, Vec<u8>);

/// What serves TLS, and keeps its certificate new.
pub(super) struct Acceptor {
    tls: Tls,
    pair: RwLock<Pair>,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

impl Acceptor {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Reads the files again and again. Never returns.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(READ_AGAIN).await;
            match self.renew().await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(certificate = %self.tls.certificate.display(), "a new certificate is served")
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the old certificate stays");
                }
            }
        }
    }

    pub(super) async fn renew(&self) -> Result<bool, TlsError> {
        let pair = self.tls.read().await?;
        if *self.pair.read() == pair {
            return Ok(false);
        }
        let key = self.tls.parse(&pair)?;
        *self.current.0.write() = Arc::new(key);
        *self.pair.write() = pair;
        Ok(true)
    }
}

/// The pair that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}
