//! TLS configurations of servers: certificates from PEM, and the configuration of a listener, which may be
//! replaced while the server runs.

mod files;
mod options;
mod pem;

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use files::{CertificateReloader, Tls, TlsError};
pub use options::{TlsOptions, TlsOptionsError, TlsVersion};
pub use pem::{PemError, authorities, certified_key};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The TLS configuration of a listener. Each connection uses the configuration that is current when it
/// begins.
#[derive(Debug, Clone)]
pub struct TlsConfig(watch::Receiver<Arc<ServerConfig>>);

impl TlsConfig {
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.borrow()))
    }
}

impl From<ServerConfig> for TlsConfig {
    /// Returns a configuration that is never replaced.
    fn from(config: ServerConfig) -> Self {
        Self(watch::channel(Arc::new(config)).1)
    }
}

impl From<watch::Receiver<Arc<ServerConfig>>> for TlsConfig {
    /// Returns the configuration of a channel, whose sender may replace it. It stays valid without the
    /// sender.
    fn from(config: watch::Receiver<Arc<ServerConfig>>) -> Self {
        Self(config)
    }
}

/// Returns a TLS configuration with one certificate. `clients` verifies the certificates of clients; without
/// it, none are requested. `protocols` are those of ALPN, by preference.
///
/// # Errors
///
/// Returns an error if the provider supports no version of TLS.
pub fn server_config(
    provider: Arc<CryptoProvider>,
    certificate: impl Into<Arc<CertifiedKey>>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, TlsOptionsError> {
    TlsOptions::new().server_config(provider, certificate, clients, protocols)
}

/// Returns the crypto provider that the process has installed, or else that of the feature `ring` or
/// `aws-lc-rs`. Returns `None` if there is neither.
pub fn default_provider() -> Option<Arc<CryptoProvider>> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Some(Arc::clone(provider));
    }
    #[cfg(feature = "ring")]
    let ours = Some(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    let ours = Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    let ours = None;
    ours
}

#[cfg(test)]
pub(crate) mod tests;
