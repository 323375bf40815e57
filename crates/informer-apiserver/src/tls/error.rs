//! What can be wrong with certificates.

use rustls::pki_types::pem;
use thiserror::Error;

/// Certificates or keys that cannot be used, or an address that cannot be listened on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// There is no PEM of this kind, or a broken one.
    #[error("cannot read {what} from PEM")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// What was found.
        #[source]
        source: pem::Error,
    },
    /// A key or certificate that cannot be used, or that do not belong together.
    #[error("cannot use the certificate and its key; they must belong together")]
    Key(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Make(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate made here names two groups at most.
    #[error(
        "cannot make a certificate for user {user:?} with {groups} groups; two fit, and tokens have no limit"
    )]
    Groups {
        /// The user.
        user: String,
        /// How many groups they have.
        groups: usize,
    },
    /// Nobody provides the primitives of TLS.
    #[error("no provider of TLS primitives; pass one, or switch on the feature `ring` or `aws-lc-rs`")]
    NoProvider,
    /// The address cannot be listened on.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
}
