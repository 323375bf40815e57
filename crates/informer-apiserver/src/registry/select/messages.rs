//! What is wrong with a selector, in upstream's words.

use informer_core::{FieldSelectorProblem, LabelOperator, ParseFieldSelectorError, ParseLabelSelectorError};

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::model::labels::label_value_problems;
use crate::model::rules::qualified_problems;
use crate::registry::select::resolve;

/// What upstream expects between requirements: it tells of these without naming a requirement.
const BETWEEN: [&str; 3] =
    ["!, identifier, or 'end of string'", "identifier after ','", "',' or 'end of string'"];

/// What is wrong with a label selector.
pub(crate) fn of_labels(error: &ParseLabelSelectorError) -> String {
    let detail = match error {
        ParseLabelSelectorError::Unexpected { found, expected, .. } => {
            // This one has no comma upstream.
            let comma = if *expected == "'('" { "" } else { "," };
            let unexpected = format!("found '{found}'{comma} expected: {expected}");
            if BETWEEN.contains(expected) {
                return unexpected;
            }
            unexpected
        }
        ParseLabelSelectorError::Key { key, .. } => {
            format!("<nil>: Invalid value: {key:?}: {}", qualified_problems(key).join("; "))
        }
        ParseLabelSelectorError::Value { key, operator, values, .. } => of_values(key, *operator, values),
        error => error.to_string(),
    };
    format!("unable to parse requirement: {detail}")
}

/// What is wrong with the values of a requirement: with each of them as a number first, then as the value of a label.
fn of_values(key: &str, operator: LabelOperator, values: &[String]) -> String {
    let compares = matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan);
    let each = || values.iter().enumerate();
    let numbers = each().filter(|(_, value)| compares && value.parse::<i64>().is_err()).map(|(index, value)| {
        format!("values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
    });
    let labels = each().map(|(index, value)| (index, value, label_value_problems(value)));
    let labels = labels.filter(|(.., problems)| !problems.is_empty()).map(|(index, value, problems)| {
        format!("values[{index}][{key}]: Invalid value: {value:?}: {}", problems.join("; "))
    });
    match &numbers.chain(labels).collect::<Vec<_>>()[..] {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// What is wrong with a field selector.
pub(crate) fn of_fields(kind: &Kind, error: &ParseFieldSelectorError) -> ApiError {
    let (selector, term) = (error.selector(), error.term());
    ApiError::bad_request(match error.problem() {
        FieldSelectorProblem::Escape { sequence } => {
            format!("invalid field selector: invalid escape sequence: {sequence}")
        }
        // Upstream shows the number of the sign.
        FieldSelectorProblem::Unescaped { character } => {
            format!("invalid field selector: unescaped character in value: {}", u32::from(*character))
        }
        problem => match resolve(kind, "") {
            // Upstream looks for the field without a name.
            Err(unknown) if *problem == FieldSelectorProblem::NoField => return unknown,
            _ => format!("invalid selector: '{selector}'; can't understand '{term}'"),
        },
    })
}

#[cfg(test)]
mod tests;
