//! Replacement for `evaluate.rs` in builds without the `cel` feature: each evaluation of an expression
//! returns an error.

use serde_json::Value;

use crate::admission::expressions::{AuthorizerInput, BoundVariables, EvaluationError, ExpressionValue};

/// A CEL expression that a build without the `cel` feature cannot evaluate.
pub(crate) struct Expression {
    text: String,
}

impl Expression {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(crate) fn with_patch_types(text: &str) -> Self {
        Self::new(text)
    }

    pub(crate) fn uses_authorizer(_: &[Self]) -> bool {
        false
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

pub(crate) struct Run<'a> {
    _of: &'a (),
}

impl<'a> Run<'a> {
    pub(crate) fn new(_: &BoundVariables<'a>, _: &'a [(String, Expression)]) -> Self {
        Self { _of: &() }
    }

    pub(crate) fn bind_authorizer(&mut self, _: &AuthorizerInput<'_>) {}

    pub(crate) fn set_budget(&mut self, _: u64) {}

    #[expect(clippy::unused_self, reason = "same signature as with the cel feature")]
    pub(crate) fn evaluate(&mut self, expression: &Expression) -> Result<ExpressionValue, EvaluationError> {
        Err(Self::refusal(expression))
    }

    #[expect(clippy::unused_self, reason = "same signature as with the cel feature")]
    pub(crate) fn evaluate_to_json(&mut self, expression: &Expression) -> Result<Value, EvaluationError> {
        Err(Self::refusal(expression))
    }

    fn refusal(expression: &Expression) -> EvaluationError {
        let why = "this server was built without CEL";
        EvaluationError::new(format!("expression '{}' resulted in error: {why}", expression.text()))
    }
}
