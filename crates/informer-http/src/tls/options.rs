use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2, the oldest version that is supported.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        })
    }
}

/// The versions of TLS and the cipher suites that a server accepts. By default these are TLS 1.2 and 1.3 with
/// all suites of the provider.
///
/// Upstream: `TLSOpts`, and the flags `--tls-min-version` and `--tls-cipher-suites` of Kubernetes components.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "pass it to a server"]
pub struct TlsOptions {
    min_version: TlsVersion,
    cipher_suites: Option<Vec<String>>,
}

/// The error for TLS options that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsOptionsError {
    /// The crypto provider has no TLS 1.2 suite with this name.
    #[error(
        "use the cipher suite {name}: the crypto provider does not have it for TLS 1.2; choose another one"
    )]
    UnknownCipherSuite {
        /// The name of the suite.
        name: String,
    },
    /// The provider has no suites for the versions.
    #[error(
        "use TLS {version} and newer: the crypto provider does not support it; lower the minimum version"
    )]
    Unsupported {
        /// The oldest accepted version.
        version: TlsVersion,
        /// The error of rustls.
        #[source]
        cause: rustls::Error,
    },
}

impl TlsOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the oldest version of TLS that the server accepts.
    pub fn min_version(self, version: TlsVersion) -> Self {
        Self { min_version: version, ..self }
    }

    /// Sets the cipher suites that the server accepts for TLS 1.2, by their IANA names, such as
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`. The suites of TLS 1.3 cannot be restricted, as in Go. A
    /// name that the provider does not have is an error when the server starts.
    pub fn cipher_suites(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { cipher_suites: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Returns a TLS configuration with one certificate, like [`server_config`](super::server_config).
    ///
    /// # Errors
    ///
    /// Returns an error if the provider lacks a cipher suite or the versions.
    pub fn server_config(
        &self,
        provider: Arc<CryptoProvider>,
        certificate: impl Into<Arc<CertifiedKey>>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
        protocols: &[&[u8]],
    ) -> Result<ServerConfig, TlsOptionsError> {
        let unsupported = |cause| TlsOptionsError::Unsupported { version: self.min_version, cause };
        let config = ServerConfig::builder_with_provider(self.restricted(provider)?)
            .with_protocol_versions(self.versions())
            .map_err(unsupported)?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => config.with_client_cert_verifier(clients),
        };
        let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate.into())));
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self.min_version {
            TlsVersion::Tls12 => &ALL,
            TlsVersion::Tls13 => &ALL[..1],
        }
    }

    fn restricted(&self, provider: Arc<CryptoProvider>) -> Result<Arc<CryptoProvider>, TlsOptionsError> {
        let Some(names) = &self.cipher_suites else { return Ok(provider) };
        let name_of = |suite: &SupportedCipherSuite| suite.suite().as_str().map(str::to_owned);
        let is_tls12 = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls12(_));
        let has = |name: &String| {
            let mut suites = provider.cipher_suites.iter();
            suites.any(|suite| is_tls12(suite) && name_of(suite).as_ref() == Some(name))
        };
        if let Some(name) = names.iter().find(|name| !has(name)) {
            return Err(TlsOptionsError::UnknownCipherSuite { name: name.clone() });
        }
        let mut restricted = CryptoProvider::clone(&provider);
        restricted
            .cipher_suites
            .retain(|suite| !is_tls12(suite) || name_of(suite).is_some_and(|name| names.contains(&name)));
        Ok(Arc::new(restricted))
    }
}
