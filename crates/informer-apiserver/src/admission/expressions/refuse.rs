//! A server without CEL: what has expressions cannot be decided, and says so.

use serde_json::Value;

use super::{Asker, Failure, Outcome, Subject};

/// One expression.
pub(in crate::admission) struct Expression {
    text: String,
}

impl Expression {
    pub(in crate::admission) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(in crate::admission) fn making(text: &str) -> Self {
        Self::new(text)
    }

    pub(in crate::admission) fn asks(_: &[Self]) -> bool {
        false
    }

    pub(in crate::admission) fn text(&self) -> &str {
        &self.text
    }
}

/// Expressions over one request.
pub(in crate::admission) struct Run<'a> {
    _of: &'a (),
}

impl<'a> Run<'a> {
    pub(in crate::admission) fn new(_: &Subject<'a>, _: &'a [(String, Expression)]) -> Self {
        Self { _of: &() }
    }

    pub(in crate::admission) fn tell(&mut self, _: &Asker<'_>) {}

    pub(in crate::admission) fn refill(&mut self, _: u64) {}

    #[expect(clippy::unused_self, reason = "as where there is CEL")]
    pub(in crate::admission) fn evaluate(&mut self, expression: &Expression) -> Result<Outcome, Failure> {
        Err(Self::refusal(expression))
    }

    #[expect(clippy::unused_self, reason = "as where there is CEL")]
    pub(in crate::admission) fn make(&mut self, expression: &Expression) -> Result<Value, Failure> {
        Err(Self::refusal(expression))
    }

    fn refusal(expression: &Expression) -> Failure {
        let why = "this server was built without CEL";
        Failure::new(format!("expression '{}' resulted in error: {why}", expression.text()))
    }
}
