use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::Cause;

/// The error for a certificate chain and its private key.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The chain is malformed, or contains no certificate.
    #[error("the certificate is not PEM")]
    Certificate(#[source] pem::Error),
    /// The key is malformed or missing.
    #[error("the key is not PEM")]
    Key(#[source] pem::Error),
    /// The key is unsupported, or does not belong to the certificate.
    #[error("the key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
}

impl PairError {
    pub(super) fn into_cause(self) -> Cause {
        match self {
            Self::Certificate(cause) | Self::Key(cause) => cause.into(),
            Self::Mismatch(cause) => cause.into(),
        }
    }
}

/// The error for the certificates of certificate authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is no certificate.
    #[error("there is no client CA")]
    Missing(#[source] pem::Error),
    /// The PEM text is malformed.
    #[error("there is an invalid client CA")]
    Pem(#[source] pem::Error),
    /// A certificate is invalid.
    #[error("there is an invalid client CA")]
    Certificate(#[source] rustls::Error),
}

impl AuthorityError {
    pub(super) fn into_cause(self) -> Cause {
        match self {
            Self::Missing(cause) | Self::Pem(cause) => cause.into(),
            Self::Certificate(cause) => cause.into(),
        }
    }
}

/// Parses a certificate chain, with the leaf certificate first, and its private key (PKCS#8, PKCS#1 or SEC 1)
/// from PEM.
///
/// # Errors
///
/// Returns an error if one of them is malformed or missing, or if they do not match.
pub fn certified_key(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, PairError> {
    let chain = certificates(chain).map_err(PairError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
    CertifiedKey::from_der(chain, key, provider).map_err(PairError::Mismatch)
}

/// Parses the certificates of certificate authorities from PEM.
///
/// # Errors
///
/// Returns an error if a certificate is invalid, or if there is none.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, AuthorityError> {
    let certificates = certificates(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => AuthorityError::Missing(error),
        error => AuthorityError::Pem(error),
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(AuthorityError::Certificate)?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
}
