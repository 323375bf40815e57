use informer_http::PemError;
use rustls::pki_types::pem;
use thiserror::Error;

/// The error for an invalid certificate or key, or for an address on which the server cannot listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The PEM text does not contain the required item, or is malformed.
    #[error("cannot read {what} from PEM")]
    Pem {
        /// The expected item.
        what: &'static str,
        /// The parse error.
        #[source]
        source: pem::Error,
    },
    /// The key or certificate is invalid, or the key does not belong to the certificate.
    #[error("the certificate or its key is invalid, or they do not match")]
    Key(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate could not be generated.
    #[error("cannot generate a certificate")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The user has more than two groups, which the certificate generator does not support.
    #[error(
        "cannot generate a certificate for user {user:?} with {groups} groups: a certificate has at most two; use a token"
    )]
    Groups {
        /// The user.
        user: String,
        /// The number of the user's groups.
        groups: usize,
    },
    /// There is no crypto provider.
    #[error("no TLS crypto provider; pass one, or enable the feature `ring` or `aws-lc-rs`")]
    NoProvider,
    /// The server could not bind the address.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
}

impl From<PemError> for TlsError {
    fn from(error: PemError) -> Self {
        match error {
            PemError::Certificate(source) => Self::Pem { what: "a certificate", source },
            PemError::Key(source) => Self::Pem { what: "a private key", source },
            PemError::Rejected(cause) => Self::Key(Box::new(cause)),
        }
    }
}
