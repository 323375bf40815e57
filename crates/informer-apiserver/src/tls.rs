//! TLS: the server certificate, and authentication with client certificates.
//!
//! The crypto provider is the one that the caller passes, else the default of the process, else the one of
//! the features `ring` and `aws-lc-rs`. This crate installs no process default.

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod authority;
mod error;
mod subject;
mod verify;

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_http::{TlsConfig, certified_key, server_config};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, RootCertStore};

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
pub use authority::CertificateAuthority;
pub use error::TlsError;
pub(crate) use informer_http::default_provider;
pub(crate) use subject::requested_groups;
pub(crate) use verify::{ClientVerifier, PeerCertificate};

/// The ALPN protocols, by preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate chain and its private key, as PEM. It identifies a server or a user.
#[derive(Clone)]
pub struct Certificate {
    chain: String,
    key: String,
}

impl Certificate {
    /// Creates a certificate from the contents of two PEM files.
    ///
    /// `chain` begins with the leaf certificate. `key` is a PKCS#8, PKCS#1 or SEC 1 key. Invalid contents are
    /// reported when the certificate is used.
    pub fn from_pem(chain: impl Into<String>, key: impl Into<String>) -> Self {
        Self { chain: chain.into(), key: key.into() }
    }

    /// Returns the chain as PEM, with the leaf certificate first.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Returns the private key as PEM.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

/// The TLS configuration of a server: its certificate and crypto provider; see
/// [`ApiServer::listen_tls`](crate::ApiServer::listen_tls).
///
/// ```
/// use informer_apiserver::{ApiServer, CertificateAuthority, Tls, User};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let users = CertificateAuthority::new("users")?;
/// let server = ApiServer::builder().client_ca(users.certificate().parse()?).build();
/// let listening = server.listen_tls("127.0.0.1:0", Tls::self_signed()?).await?;
/// let admin = users.issue_to(&User::new("admin").groups(["system:masters"]))?;
/// std::fs::write(
///     # std::env::temp_dir().join(format!("informer-doc-{}", std::process::id())),
///     # /*
///     "kubeconfig",
///     # */
///     listening.kubeconfig_of(&admin),
/// )?;
/// # std::fs::remove_file(std::env::temp_dir().join(format!("informer-doc-{}", std::process::id())))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tls {
    certified: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
    trusted: String,
}

impl Tls {
    /// Creates a TLS configuration from a server certificate and the default crypto provider. The default is
    /// the provider that the process has installed, else the one of this crate's features.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate or key is invalid, if the key does not belong to the certificate,
    /// or if there is no provider.
    pub fn new(certificate: &Certificate) -> Result<Self, TlsError> {
        Self::with_provider(certificate, default_provider().ok_or(TlsError::NoProvider)?)
    }

    /// Creates a TLS configuration from a server certificate and a crypto provider.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate or key is invalid, or if the key does not belong to the
    /// certificate.
    pub fn with_provider(certificate: &Certificate, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let Certificate { chain, key } = certificate;
        let certified = certified_key(chain.as_bytes(), key.as_bytes(), &provider)?;
        let trusted = certificate.chain.clone();
        Ok(Self { certified: Arc::new(certified), provider, trusted })
    }

    /// Generates a CA and a server certificate for `localhost` and the loopback addresses. Kubeconfigs of the
    /// server contain this CA.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be generated.
    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    pub fn self_signed() -> Result<Self, TlsError> {
        let authority = CertificateAuthority::new("informer-apiserver")?;
        let certificate = authority.issue_for(["localhost", "127.0.0.1", "::1"])?;
        Ok(Self::new(&certificate)?.trusted(authority.certificate()))
    }

    /// Sets the CA certificates (PEM) that kubeconfigs of the server contain. Defaults to the chain of the
    /// server certificate.
    #[must_use]
    pub fn trusted(mut self, pem: impl Into<String>) -> Self {
        self.trusted = pem.into();
        self
    }

    /// Returns the CA certificates (PEM) that kubeconfigs of the server contain.
    #[must_use]
    pub fn authorities(&self) -> &str {
        &self.trusted
    }

    /// Returns the TLS configuration of a listener. The listener requests client certificates if there is a
    /// client CA.
    pub(crate) fn configure(&self, clients: Option<&ClientCa>) -> Result<ListenerTls, TlsError> {
        let client_verifier =
            clients.map(|clients| ClientVerifier::new(clients, &self.provider)).transpose()?;
        let accepted = client_verifier.as_ref().map(ClientVerifier::accept_any);
        let provider = Arc::new(aes128_first(&self.provider));
        let mut config = server_config(provider, Arc::clone(&self.certified), accepted, &PROTOCOLS)
            .map_err(|error| TlsError::Key(Box::new(error)))?;
        config.ignore_client_order = true;
        Ok(ListenerTls { config: config.into(), client_verifier })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ListenerTls {
    pub(crate) config: TlsConfig,
    /// Verifies client certificates; `None` without a client CA.
    pub(crate) client_verifier: Option<ClientVerifier>,
}

/// CA certificates for client authentication, parsed from PEM; see
/// [`ApiServerBuilder::client_ca`](crate::ApiServerBuilder::client_ca).
#[derive(Debug, Clone)]
pub struct ClientCa {
    roots: Arc<RootCertStore>,
    /// Only the certificates: the text that they were parsed from may contain private keys and comments.
    pem: Arc<str>,
}

impl ClientCa {
    pub(crate) fn pem(&self) -> &Arc<str> {
        &self.pem
    }
}

impl std::str::FromStr for ClientCa {
    type Err = TlsError;

    fn from_str(pem: &str) -> Result<Self, TlsError> {
        let roots = Arc::new(informer_http::authorities(pem.as_bytes())?);
        Ok(Self { roots, pem: certificates_of(pem).into() })
    }
}

/// Returns the certificates of a PEM text, without other blocks and without comments.
fn certificates_of(pem: &str) -> String {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    certificates.map(|certificate| pem_of(&certificate)).collect()
}

fn pem_of(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.extend([line, "\n"]);
        rest = more;
    }
    pem + "-----END CERTIFICATE-----\n"
}

/// Returns the crypto provider with the AES-128 cipher suites first, because they are faster. The order of
/// the other suites is unchanged. kube-apiserver also prefers AES-128, regardless of the client's order.
fn aes128_first(provider: &CryptoProvider) -> CryptoProvider {
    let mut provider = provider.clone();
    provider.cipher_suites.sort_by_key(|suite| {
        let quick = matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        );
        (suite.tls13().is_none(), !quick)
    });
    provider
}
