use std::error::Error;

use informer_core::Gvr;

/// A write or a read of a [`TestServer`](super::TestServer) that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt} an object of {gvr} on the test server")]
pub struct TestServerError {
    attempt: &'static str,
    gvr: Gvr,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

impl TestServerError {
    pub(super) fn of(
        attempt: &'static str,
        gvr: &Gvr,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { attempt, gvr: gvr.clone(), cause: cause.into() }
    }
}
