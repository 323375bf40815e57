//! Replaces the CEL checks in a build without the feature `cel`: all expressions are accepted.

/// The names that a CEL expression may use. It is empty, because no expression is checked without the feature
/// `cel`.
#[derive(Debug, Clone)]
pub(crate) struct Declared;

#[expect(
    clippy::unused_self,
    clippy::needless_pass_by_ref_mut,
    reason = "same signature as with the cel feature"
)]
impl Declared {
    pub(crate) fn new(_: bool) -> Self {
        Self
    }

    pub(crate) fn without_authorizer(self) -> Self {
        self
    }

    pub(crate) fn with_variables(self) -> Self {
        self
    }

    pub(crate) fn with_patches(self) -> Self {
        self
    }

    pub(crate) fn declare(&mut self, _: &str, _: &str) -> Option<String> {
        None
    }

    pub(crate) fn problem(&self, _: &str, _: &[&str]) -> Option<String> {
        None
    }
}
