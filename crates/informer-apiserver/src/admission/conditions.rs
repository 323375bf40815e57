//! Match conditions: CEL expressions that decide whether a webhook or policy applies to a request.

use serde::Deserialize;
use serde_json::Value;

use super::expressions::{AuthorizerInput, Expression, ExpressionValue, Run};
use super::write::{Invocation, Write};
use super::{Object, review};
use crate::admission::Admission;
use crate::model::error::ApiError;

/// CEL cost limit of all match conditions of one webhook or policy, as in kube-apiserver.
pub(super) const BUDGET: u64 = 2_500_000;

#[derive(Debug, Deserialize)]
pub(super) struct MatchConditionSpec {
    #[serde(default)]
    pub(super) expression: String,
}

impl MatchConditionSpec {
    pub(super) fn read(&self) -> Expression {
        Expression::new(&self.expression)
    }
}

impl Admission {
    /// Evaluates the match conditions of a webhook. The objects of the write must already be in the version
    /// of `invocation`.
    pub(super) fn conditions_hold(
        &self,
        conditions: &[Expression],
        fails_open: bool,
        write: &Write<'_>,
        invocation: &Invocation,
    ) -> Result<bool, ApiError> {
        let object = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
        let (new, old) = (object(write.object), object(write.old));
        let request = review::request(write, invocation);
        let mut run = Run::new(&[("object", &new), ("oldObject", &old), ("request", &request)], &[]);
        if Expression::uses_authorizer(conditions) {
            run.bind_authorizer(&AuthorizerInput::of(write, self.permissions()));
        }
        run.set_budget(BUDGET);
        all_true(conditions, fails_open, &mut run).map_err(|why| self.forbidden(write, &why))
    }
}

/// Returns true if all match conditions evaluate to true. Returns an error if no condition is false and one
/// cannot be evaluated.
pub(super) fn all_true(
    conditions: &[Expression],
    fails_open: bool,
    run: &mut Run<'_>,
) -> Result<bool, String> {
    let mut errors = Vec::new();
    for condition in conditions {
        match run.evaluate(condition) {
            Ok(ExpressionValue::Bool(true)) => {}
            // One false condition excludes the webhook or policy, even if other conditions fail.
            Ok(ExpressionValue::Bool(false)) => return Ok(false),
            Ok(_) => {
                let why = "cel expression does not evaluate to a bool";
                errors.push(format!("expression '{}' resulted in error: {why}", condition.text()));
            }
            Err(failure) if failure.budget_exhausted => {
                errors = vec![failure.why];
                break;
            }
            Err(failure) => errors.push(failure.why),
        }
    }
    match (errors.len(), fails_open) {
        (0, _) => Ok(true),
        (_, true) => Ok(false),
        (1, false) => Err(errors.remove(0)),
        (_, false) => Err(format!("[{}]", errors.join(", "))),
    }
}
