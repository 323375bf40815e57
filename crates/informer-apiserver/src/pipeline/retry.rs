//! Repeats writes after conflicts with other writes (optimistic concurrency).

use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::registry::storage::Changed;

/// Maximum number of attempts before a write fails with 409. In kube-apiserver this number is five for
/// patches.
const MAX_ATTEMPTS: usize = 16;

/// The error of one attempt of a write.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Another write changed the object since it was read, so the write must be attempted again.
    Conflict,
    /// A write inside this attempt, such as the deletion of an eviction, failed with 409. The attempt is
    /// retried. After the last one the client receives this error.
    NestedConflict(ApiError),
    Api(ApiError),
}

/// The handling of a conflict with another write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// The write reads the object again and is repeated.
    Retry,
    /// The write fails with 409. Used if the client has set the resourceVersion.
    Fail,
}

impl OnConflict {
    /// Returns the handling for a request in which the client has, or has not, set the resourceVersion.
    pub(crate) fn for_request(sets_version: bool) -> Self {
        if sets_version { Self::Fail } else { Self::Retry }
    }

    fn attempts(self) -> usize {
        match self {
            Self::Retry => MAX_ATTEMPTS,
            Self::Fail => 1,
        }
    }
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
    /// An object with this name exists. Contains the 409 response of a create request.
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
            Self::NestedConflict(error) => Self::NestedConflict(error.warned(warnings)),
            Self::Api(error) => Self::Api(error.warned(warnings)),
        }
    }
}

/// Runs a write, and repeats it after conflicts with other writes. Each attempt reads the object again.
///
/// # Errors
///
/// Returns the error of an attempt that failed for another reason, or a 409 error after the last conflict.
pub(crate) async fn retry<T, F>(
    kind: &KindDefinition,
    name: &str,
    on_conflict: OnConflict,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, WriteError>>,
{
    let mut response = None;
    for _ in 0..on_conflict.attempts() {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(WriteError::Conflict) => response = None,
            Err(WriteError::NestedConflict(error)) => response = Some(error),
            Err(WriteError::Api(error)) => return Err(error),
        }
    }
    Err(response.unwrap_or_else(|| ApiError::modified(kind, name)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{MAX_ATTEMPTS, OnConflict, WriteError, retry};
    use crate::model::error::ApiError;
    use crate::model::kinds::KindDefinition;
    use crate::pipeline::ready::ready;

    /// Returns the number of attempts of a write, and its error.
    fn run(on_conflict: OnConflict, error: impl Fn(usize) -> WriteError) -> (usize, ApiError) {
        let (kind, attempts, error) = (KindDefinition::custom("g", "v1", "Widget"), Cell::new(0), &error);
        let write = retry(&kind, "a", on_conflict, || {
            attempts.set(attempts.get() + 1);
            let attempt = attempts.get();
            async move { Err::<(), _>(error(attempt)) }
        });
        let failed = ready(write).unwrap_err();
        (attempts.get(), failed)
    }

    #[test]
    fn conflict_is_retried_unless_the_client_set_the_version() {
        let (attempts, error) = run(OnConflict::for_request(false), |_| WriteError::Conflict);
        assert_eq!((attempts, error.reason()), (MAX_ATTEMPTS, "Conflict"));
        let (attempts, error) = run(OnConflict::for_request(true), |_| WriteError::Conflict);
        assert_eq!((attempts, error.reason()), (1, "Conflict"));
    }

    #[test]
    fn other_error_is_final() {
        let error = |attempt| match attempt {
            1 => WriteError::Conflict,
            _ => WriteError::Api(ApiError::bad_request("no")),
        };
        let (attempts, error) = run(OnConflict::Retry, error);
        assert_eq!((attempts, error.code), (2, 400));
    }

    #[test]
    fn last_conflict_of_a_nested_write_is_the_response() {
        let nested = |attempt: usize| ApiError::new(409, "Conflict", format!("attempt {attempt}"));
        let error = |attempt| WriteError::NestedConflict(nested(attempt));
        let (attempts, error) = run(OnConflict::Retry, error);
        assert_eq!((attempts, error.message), (MAX_ATTEMPTS, format!("attempt {MAX_ATTEMPTS}")));
    }
}
