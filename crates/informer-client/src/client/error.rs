use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use informer_cache::source::SourceErrorKind;
use kube_client::config::{InferConfigError, KubeconfigError};
use rustls::AlertDescription;

use super::BoxError;
use super::credentials::CredentialsError;

/// The error returned when a client could not be created.
#[derive(Debug, thiserror::Error)]
#[error("create a client: {problem}; {remedy}")]
pub struct ClientError {
    problem: Cow<'static, str>,
    remedy: &'static str,
    #[source]
    cause: Option<BoxError>,
}

impl ClientError {
    pub(super) fn new(problem: impl Into<Cow<'static, str>>, remedy: &'static str) -> Self {
        Self { problem: problem.into(), remedy, cause: None }
    }

    pub(super) fn because(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Returns the error for a file of CA certificates that cannot be used.
    pub(super) fn authority(file: &Path) -> Self {
        let problem = format!("there is no valid CA certificate in {}", file.display());
        Self::new(problem, "check that the file is readable and contains only valid PEM")
    }

    /// Returns the error for a missing or invalid configuration. If the CA certificates of the configuration
    /// are invalid, the error names the CA file, whose path `authority` returns.
    pub(super) fn infer(cause: InferConfigError, authority: impl FnOnce() -> Option<PathBuf>) -> Self {
        let kubeconfig = cause.source().and_then(|cause| cause.downcast_ref::<KubeconfigError>());
        let is_authority = matches!(kubeconfig, Some(KubeconfigError::ParseCertificates(_)));
        let error = match is_authority.then(authority).flatten() {
            Some(file) => Self::authority(&file),
            None => {
                let remedy = "set KUBECONFIG to a readable file, or run inside a cluster";
                Self::new("no valid configuration was found", remedy)
            }
        };
        error.because(cause)
    }
}

/// The error of a request that got no response from the server.
#[derive(Debug, thiserror::Error)]
#[error("no response from {address}: {problem}")]
pub struct RequestError {
    kind: SourceErrorKind,
    address: String,
    problem: &'static str,
    #[source]
    cause: BoxError,
}

impl RequestError {
    pub(super) fn new(address: &str, cause: BoxError) -> Self {
        let (kind, problem) = classify(&*cause);
        Self { kind, address: address.to_owned(), problem, cause }
    }

    /// Returns the kind of failure, such as a timeout or a refused connection, so that the caller can decide
    /// how to react.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }
}

const CERTIFICATE_ALERTS: [AlertDescription; 9] = [
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::CertificateRequired,
    AlertDescription::UnknownCA,
    AlertDescription::AccessDenied,
    AlertDescription::DecryptError,
];

/// Returns true if the server rejected the client certificate. With TLS 1.3 the client receives the alert
/// only after it has sent its first request, and the server has not processed that request.
///
/// The function compares messages of errors, because the HTTP/2 library keeps only the message of an I/O
/// error.
pub(super) fn refuses_certificate(error: &(dyn Error + 'static)) -> bool {
    let alerts = CERTIFICATE_ALERTS.map(|alert| rustls::Error::AlertReceived(alert).to_string());
    causes(error).any(|error| alerts.contains(&error.to_string()))
}

/// Returns true if `error` proves that the server did not process the request, so that even a write can be
/// sent again.
///
/// A server that closes a connection gracefully names the last stream that it processes; only requests on
/// later streams fail with its GOAWAY. See [RFC
/// 9113](https://www.rfc-editor.org/rfc/rfc9113.html#section-8.7).
pub(super) fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    causes(error).filter_map(|error| error.downcast_ref::<h2::Error>()).any(|error| {
        error.is_remote()
            && match error.reason() {
                Some(h2::Reason::NO_ERROR) => error.is_go_away(),
                Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
                _ => false,
            }
    })
}

/// Iterates over an error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The error inside an `io::Error` is read with `get_ref`, because `io::Error::source` skips that
        // error and returns the source of that error.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped))
    })
}

fn classify(error: &(dyn Error + 'static)) -> (SourceErrorKind, &'static str) {
    if refuses_certificate(error) {
        return (
            SourceErrorKind::Unauthorized,
            "the server rejected the client certificate; check the user in the kubeconfig",
        );
    }
    for error in causes(error) {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => {
                    return (
                        SourceErrorKind::ConnectionRefused,
                        "the connection was refused; is the server running?",
                    );
                }
                io::ErrorKind::TimedOut => {
                    return (SourceErrorKind::Timeout, "the server did not respond in time");
                }
                _ => {}
            }
        }
        let credentials = matches!(error.downcast_ref(), Some(kube_client::Error::Auth(_)))
            || error.is::<kube_client::client::AuthError>()
            || error.is::<CredentialsError>();
        if credentials {
            return (
                SourceErrorKind::Unauthorized,
                "the credentials could not be obtained; check the user in the kubeconfig",
            );
        }
        if let Some(rustls::Error::AlertReceived(_)) = error.downcast_ref() {
            return (
                SourceErrorKind::Connection,
                "the server aborted the TLS handshake; check the client certificate",
            );
        }
        if error.is::<rustls::Error>() {
            return (SourceErrorKind::Connection, "TLS failed; check the CA certificate and the server name");
        }
    }
    (SourceErrorKind::Connection, "the connection failed")
}
