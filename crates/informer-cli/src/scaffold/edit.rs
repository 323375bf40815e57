//! Insertions into files that the user may have changed. The position is found in the parsed file, and the
//! text is inserted there, so that comments and formatting are kept.

pub(super) mod manifest;
pub(super) mod rust;
pub(super) mod yaml;

#[cfg(test)]
mod tests;

/// The reason why a file cannot be edited: the part of it that is missing or differs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct EditError(String);

impl EditError {
    fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}
