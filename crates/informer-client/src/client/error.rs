use std::error::Error;
use std::io;

use informer_cache::source::SourceErrorKind;

use super::BoxError;

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

fn classify(error: &(dyn Error + 'static)) -> (SourceErrorKind, &'static str) {
    let mut next = Some(error);
    while let Some(error) = next {
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
        if let Some(kube_client::Error::Auth(_)) = error.downcast_ref() {
            return (
                SourceErrorKind::Unauthorized,
                "no credentials could be obtained; check the user of the kubeconfig",
            );
        }
        if error.is::<kube_client::client::AuthError>() {
            return (
                SourceErrorKind::Unauthorized,
                "no credentials could be obtained; check the user of the kubeconfig",
            );
        }
        if error.is::<rustls::Error>() {
            return (SourceErrorKind::Connection, "TLS failed; check certificate authority and server name");
        }
        // An I/O error passes over the error that it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped));
    }
    (SourceErrorKind::Connection, "the connection broke or could not be made")
}
