//! TLS: how the server proves itself, and whose certificates it takes for users.
//!
//! The primitives come from a provider that is passed, or that the features `ring` and `aws-lc-rs` bring; none is
//! installed for the process.

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod authority;
mod error;
mod subject;
mod verify;

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CipherSuite, RootCertStore, ServerConfig};

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
pub use authority::CertificateAuthority;
pub use error::TlsError;
pub(crate) use verify::PeerCertificate;
use verify::Witness;

/// The protocols that are offered, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate with its key, both as PEM: of a server or of a user.
#[derive(Clone)]
pub struct Certificate {
    chain: String,
    key: String,
}

impl Certificate {
    /// A certificate from two files: the chain with the certificate itself first, and the key as PKCS#8, PKCS#1 or
    /// SEC 1. They are read when they are used.
    pub fn from_pem(chain: impl Into<String>, key: impl Into<String>) -> Self {
        Self { chain: chain.into(), key: key.into() }
    }

    /// The chain, the certificate itself first.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The private key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

/// How a server proves itself; see [`ApiServer::listen_tls`](crate::ApiServer::listen_tls).
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
    /// Proves the server by a certificate. The primitives are those of the process, where it has installed some, or
    /// those of this crate's features.
    ///
    /// # Errors
    ///
    /// When certificate or key cannot be read, do not belong together, or there is no provider.
    pub fn new(certificate: &Certificate) -> Result<Self, TlsError> {
        Self::with_provider(certificate, default_provider().ok_or(TlsError::NoProvider)?)
    }

    /// The same with a provider of the caller's choice.
    ///
    /// # Errors
    ///
    /// When certificate or key cannot be read, or do not belong together.
    pub fn with_provider(certificate: &Certificate, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let chain = certificates(&certificate.chain)?;
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())
            .map_err(|error| TlsError::Pem { what: "a private key", source: error })?;
        let certified =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| TlsError::Key(Box::new(error)))?;
        let trusted = certificate.chain.clone();
        Ok(Self { certified: Arc::new(certified), provider, trusted })
    }

    /// Proves the server by a certificate for `localhost` and the loopback addresses, made now by an authority of its
    /// own, which kubeconfigs name.
    ///
    /// # Errors
    ///
    /// When no certificate can be made.
    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    pub fn self_signed() -> Result<Self, TlsError> {
        let authority = CertificateAuthority::new("informer-apiserver")?;
        let certificate = authority.issue_for(["localhost", "127.0.0.1", "::1"])?;
        Ok(Self::new(&certificate)?.trusted(authority.certificate()))
    }

    /// What clients have to trust, as PEM, for kubeconfigs: the certificate's own chain by default.
    #[must_use]
    pub fn trusted(mut self, pem: impl Into<String>) -> Self {
        self.trusted = pem.into();
        self
    }

    pub(crate) fn authorities(&self) -> &str {
        &self.trusted
    }

    /// What a listener needs. Client certificates are asked for where there is an authority for them.
    pub(crate) fn configure(&self, clients: Option<&ClientCa>) -> Result<Accepting, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(quick_first(&self.provider)))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Key(Box::new(error)))?;
        let witness = clients.map(|clients| Witness::new(clients, &self.provider)).transpose()?;
        let resolver = Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified)));
        let mut config = match &witness {
            None => builder.with_no_client_auth().with_cert_resolver(resolver),
            Some(witness) => builder.with_client_cert_verifier(witness.asking()).with_cert_resolver(resolver),
        };
        config.ignore_client_order = true;
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        Ok(Accepting { config: Arc::new(config), witness })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// How connections are accepted over TLS.
#[derive(Debug, Clone)]
pub(crate) struct Accepting {
    pub(crate) config: Arc<ServerConfig>,
    /// Says what a client's certificate is worth.
    pub(crate) witness: Option<Witness>,
}

/// The authorities whose certificates stand for users; see
/// [`ApiServerBuilder::client_ca`](crate::ApiServerBuilder::client_ca). It is parsed from PEM.
#[derive(Debug, Clone)]
pub struct ClientCa {
    roots: Arc<RootCertStore>,
}

impl std::str::FromStr for ClientCa {
    type Err = TlsError;

    fn from_str(pem: &str) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots.add(certificate).map_err(|error| TlsError::Key(Box::new(error)))?;
        }
        Ok(Self { roots: Arc::new(roots) })
    }
}

/// The provider with AES of 128 bits before what takes more time, as upstream's server chooses whatever order its client has. The others
/// keep theirs.
fn quick_first(provider: &CryptoProvider) -> CryptoProvider {
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

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let read = read.map_err(|source| TlsError::Pem { what: "a certificate", source })?;
    match read.is_empty() {
        true => {
            Err(TlsError::Pem { what: "a certificate", source: rustls::pki_types::pem::Error::NoItemsFound })
        }
        false => Ok(read),
    }
}

/// The provider of the process, or of this crate's features.
pub(crate) fn default_provider() -> Option<Arc<CryptoProvider>> {
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
