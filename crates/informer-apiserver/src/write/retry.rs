//! Writes that meet others.

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::storage::Changed;

/// A write that meets others tries again so often before it answers 409; upstream's patch does five times.
const TRIES_MAX: usize = 16;

/// Tries a write of one object anew for as long as others change the object under it.
pub(super) fn retry<T>(
    kind: &Kind,
    name: &str,
    mut attempt: impl FnMut() -> Result<Result<T, Changed>, ApiError>,
) -> Result<T, ApiError> {
    for _ in 0..TRIES_MAX {
        if let Ok(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(ApiError::modified(kind, name))
}
