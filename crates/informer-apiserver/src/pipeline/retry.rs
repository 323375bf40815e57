//! Retries of writes after conflicts (optimistic concurrency).

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::registry::storage::Changed;

/// Maximum number of attempts before a write fails with 409. kube-apiserver tries a patch five times.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// Retries a write of one object while it conflicts with other writes.
pub(crate) fn retry<T>(
    kind: &Kind,
    name: &str,
    mut attempt: impl FnMut() -> Result<Result<T, Changed>, ApiError>,
) -> Result<T, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        if let Ok(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(ApiError::modified(kind, name))
}
