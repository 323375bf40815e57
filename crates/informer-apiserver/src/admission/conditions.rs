//! Match conditions: expressions in CEL over the request.

use super::expressions::{Expression, Outcome, Run};

/// What the match conditions of one webhook or policy may cost together, as upstream.
pub(super) const BUDGET: u64 = 2_500_000;

/// Whether all conditions hold; the error says why that cannot be told.
pub(super) fn hold(conditions: &[Expression], fails_open: bool, run: &mut Run<'_>) -> Result<bool, String> {
    let mut errors = Vec::new();
    for condition in conditions {
        match run.evaluate(condition) {
            Ok(Outcome::Bool(true)) => {}
            // One that does not hold settles it, whatever the others come to.
            Ok(Outcome::Bool(false)) => return Ok(false),
            Ok(_) => {
                let why = "cel expression does not evaluate to a bool";
                errors.push(format!("expression '{}' resulted in error: {why}", condition.text()));
            }
            Err(failure) if failure.ends_all => {
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
