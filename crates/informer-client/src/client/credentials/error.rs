use std::fmt;
use std::sync::Arc;

use super::BoxError;
use crate::client::ClientError;

/// The error returned when the client could not obtain credentials. The error contains no secret.
#[derive(Clone)]
pub(crate) struct CredentialsError {
    problem: String,
    remedy: &'static str,
    cause: Option<Arc<BoxError>>,
}

impl CredentialsError {
    pub(super) fn new(problem: impl Into<String>, remedy: &'static str) -> Self {
        Self { problem: problem.into(), remedy, cause: None }
    }

    pub(super) fn because(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(Arc::new(cause.into()));
        self
    }
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl fmt::Debug for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialsError").field(&self.to_string()).finish()
    }
}

impl std::error::Error for CredentialsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &***cause as &(dyn std::error::Error + 'static))
    }
}

impl From<CredentialsError> for ClientError {
    fn from(error: CredentialsError) -> Self {
        Self::new("the credentials could not be loaded", "check the user in the kubeconfig").because(error)
    }
}
