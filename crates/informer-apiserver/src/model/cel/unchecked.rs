//! The replacement of the CEL checks without the feature `cel`: all expressions are accepted unchecked.

/// The declarations for an expression; the `cel` feature gives it its content.
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
