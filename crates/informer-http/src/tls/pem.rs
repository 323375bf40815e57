use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::Cause;

/// The error for an invalid certificate or private key in PEM, or for a pair that does not match.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The PEM text is malformed, or contains no certificate (`NoItemsFound`).
    #[error("the certificate is not PEM")]
    Certificate(#[source] pem::Error),
    /// The key is malformed or missing.
    #[error("the key is not PEM")]
    Key(#[source] pem::Error),
    /// A certificate or a key is valid PEM with invalid content, or they do not match.
    #[error("the certificate or its key is invalid, or they do not match")]
    Rejected(#[source] rustls::Error),
}

impl PemError {
    pub(super) fn into_cause(self) -> Cause {
        match self {
            Self::Certificate(cause) | Self::Key(cause) => cause.into(),
            Self::Rejected(cause) => cause.into(),
        }
    }
}

/// Parses a certificate chain, with the leaf certificate first, and its private key (PKCS#8, PKCS#1 or SEC 1)
/// from PEM.
///
/// # Errors
///
/// Returns an error if one of them is malformed or missing, or if they do not match.
pub fn certified_key(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, PemError> {
    let chain = certificates(chain).map_err(PemError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(PemError::Key)?;
    CertifiedKey::from_der(chain, key, provider).map_err(PemError::Rejected)
}

/// Parses the certificates of certificate authorities from PEM.
///
/// # Errors
///
/// Returns an error if a certificate is invalid, or if there is none.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(PemError::Certificate)? {
        roots.add(certificate).map_err(PemError::Rejected)?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
}
