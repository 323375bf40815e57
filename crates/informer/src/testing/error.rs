use std::error::Error;
use std::fmt;

use informer_core::Gvr;

/// The cause of an error.
pub(super) type Problem = Box<dyn Error + Send + Sync>;

/// The error of a failed operation of a [`TestServer`](super::TestServer) or test environment.
#[derive(Debug)]
pub struct TestServerError {
    attempt: String,
    gvr: Option<Gvr>,
    cause: Problem,
}

impl TestServerError {
    pub(super) fn of(attempt: &'static str, gvr: &Gvr, cause: impl Into<Problem>) -> Self {
        Self { attempt: attempt.to_owned(), gvr: Some(gvr.clone()), cause: cause.into() }
    }

    /// Returns the error of an operation on the test environment as a whole, such as choosing, preparing or
    /// cleaning up its server. It names no resource.
    pub(super) fn environment(attempt: impl Into<String>, cause: impl Into<Problem>) -> Self {
        Self { attempt: attempt.into(), gvr: None, cause: cause.into() }
    }
}

impl fmt::Display for TestServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gvr {
            Some(gvr) => write!(f, "cannot {} an object of {gvr} on the test server", self.attempt),
            None => write!(f, "cannot {}", self.attempt),
        }
    }
}

impl Error for TestServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}
