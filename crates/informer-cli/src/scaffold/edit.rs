//! Inserts text into files that the user may have changed. The position of each insertion is found in the
//! parsed file, and the text is inserted there, so that comments and formatting are kept.

pub(super) mod manifest;
pub(super) mod rust;
pub(super) mod yaml;

#[cfg(test)]
mod tests;

/// The reason why a file of the project cannot be edited: a part of it is missing or not in the expected
/// form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct EditError(String);

impl EditError {
    fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}
