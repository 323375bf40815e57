use std::error::Error;
use std::io;

use informer_cache::source::SourceErrorKind;
use rustls::AlertDescription;

use super::BoxError;
use super::credentials::CredentialsError;

/// A client that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a client: {problem}; {advice}")]
pub struct ClientError {
    problem: &'static str,
    advice: &'static str,
    #[source]
    cause: Option<BoxError>,
}

impl ClientError {
    pub(super) fn new(problem: &'static str, advice: &'static str) -> Self {
        Self { problem, advice, cause: None }
    }

    pub(super) fn because(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(super) fn infer(cause: kube_client::config::InferConfigError) -> Self {
        let advice = "set KUBECONFIG to a file that can be read, or run inside a cluster";
        Self::new("no usable configuration was found", advice).because(cause)
    }
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer from {address}: {problem}")]
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

    /// What kind of failure it was.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }
}

/// The alerts by which a server refuses a client certificate during the handshake.
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

/// Returns true if the server has refused the client certificate. With TLS 1.3 a client learns that only
/// after it has sent its first request, which the server does not read then.
///
/// It compares text, since HTTP/2 keeps only the text of an I/O error.
pub(super) fn refuses_certificate(error: &(dyn Error + 'static)) -> bool {
    let alerts = CERTIFICATE_ALERTS.map(|alert| rustls::Error::AlertReceived(alert).to_string());
    causes(error).any(|error| alerts.contains(&error.to_string()))
}

/// Returns an error and what caused it, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The source of an I/O error is the source of the error that it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped))
    })
}

fn classify(error: &(dyn Error + 'static)) -> (SourceErrorKind, &'static str) {
    if refuses_certificate(error) {
        return (
            SourceErrorKind::Unauthorized,
            "the server refuses the client certificate; check the user of the kubeconfig",
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
                "no credentials could be obtained; check the user of the kubeconfig",
            );
        }
        if let Some(rustls::Error::AlertReceived(_)) = error.downcast_ref() {
            return (
                SourceErrorKind::Connection,
                "the server ended the TLS handshake; check the client certificate",
            );
        }
        if error.is::<rustls::Error>() {
            return (SourceErrorKind::Connection, "TLS failed; check certificate authority and server name");
        }
    }
    (SourceErrorKind::Connection, "the connection broke or could not be made")
}
