//! Match conditions: CEL expressions that decide whether a webhook or policy applies to a request.

use super::expressions::{Expression, ExpressionValue, Run};

/// CEL cost limit of all match conditions of one webhook or policy, as in kube-apiserver.
pub(super) const BUDGET: u64 = 2_500_000;

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
