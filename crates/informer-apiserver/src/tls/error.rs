//! Errors of TLS configuration.

use rustls::pki_types::pem;
use thiserror::Error;

/// An unusable certificate or key, or a failure to listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The PEM item is missing or malformed.
    #[error("cannot read {what} from PEM")]
    Pem {
        /// The expected item.
        what: &'static str,
        /// The parse error.
        #[source]
        source: pem::Error,
    },
    /// The key or certificate is unusable, or they do not match.
    #[error("the certificate or its key is invalid, or they do not match")]
    Key(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate could not be generated.
    #[error("cannot generate a certificate")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The user has more than two groups.
    #[error(
        "cannot generate a certificate for user {user:?} with {groups} groups: a certificate has at most two; use a token"
    )]
    Groups {
        /// The user.
        user: String,
        /// The number of groups of the user.
        groups: usize,
    },
    /// There is no crypto provider.
    #[error("no TLS crypto provider; pass one, or enable the feature `ring` or `aws-lc-rs`")]
    NoProvider,
    /// The address could not be bound.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
}
