//! Repeats writes after conflicts with other writes (optimistic concurrency).

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::registry::storage::Changed;

/// Maximum number of attempts before a write fails with 409. In kube-apiserver this number is five for
/// patches.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// The result of one attempt of a write. [`Changed`] means that another write changed the object since it was
/// read, so that the write is attempted again.
pub(crate) type Attempt<T> = Result<Result<T, Changed>, ApiError>;

pub(crate) fn retry<T>(
    kind: &Kind,
    name: &str,
    mut attempt: impl FnMut() -> Attempt<T>,
) -> Result<T, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        if let Ok(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(ApiError::modified(kind, name))
}
