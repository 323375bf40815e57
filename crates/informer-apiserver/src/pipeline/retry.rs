//! Repeats writes after conflicts with other writes (optimistic concurrency).

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::registry::storage::Changed;

/// Maximum number of attempts before a write fails with 409. In kube-apiserver this number is five for
/// patches.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// The error of one attempt of a write.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Another write changed the object since it was read, so the write must be attempted again.
    Conflict,
    Api(ApiError),
}

impl From<ApiError> for WriteError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<Changed> for WriteError {
    fn from(Changed: Changed) -> Self {
        Self::Conflict
    }
}

/// The error of a creation.
#[derive(Debug)]
pub(crate) enum CreateError {
    /// Another object has the name. Contains the response to a client that creates the object.
    AlreadyExists(ApiError),
    Api(ApiError),
}

impl From<ApiError> for CreateError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::AlreadyExists(error) | CreateError::Api(error) => error,
        }
    }
}

impl WriteError {
    pub(crate) fn warned(self, warnings: Vec<String>) -> Self {
        match self {
            Self::Conflict => Self::Conflict,
            Self::Api(error) => Self::Api(error.warned(warnings)),
        }
    }
}

pub(crate) fn retry<T>(
    kind: &Kind,
    name: &str,
    mut attempt: impl FnMut() -> Result<T, WriteError>,
) -> Result<T, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(WriteError::Conflict) => {}
            Err(WriteError::Api(error)) => return Err(error),
        }
    }
    Err(ApiError::modified(kind, name))
}
