//! Optimistic concurrency: a write that conflicts with another one starts again from its read.

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::registry::storage::Changed;

/// Attempts of a write before it is answered with 409. kube-apiserver tries a patch five times.
pub(crate) const MAX_ATTEMPTS: usize = 16;

/// Repeats an attempt to write one object while other writes change the object.
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
