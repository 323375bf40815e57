//! Error messages for invalid selectors, as in kube-apiserver.

use informer_core::{FieldSelectorProblem, LabelOperator, ParseFieldSelectorError, ParseLabelSelectorError};

use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::labels::label_value_problems;
use crate::model::rules::qualified_problems;
use crate::registry::select::resolve;

/// Expected tokens whose error message does not contain the requirement, as in `k8s.io/apimachinery`.
const WITHOUT_REQUIREMENT: [&str; 3] =
    ["!, identifier, or 'end of string'", "identifier after ','", "',' or 'end of string'"];

pub(crate) fn label_selector_error(error: &ParseLabelSelectorError) -> String {
    let detail = match error {
        ParseLabelSelectorError::Unexpected { found, expected, .. } => {
            // In `k8s.io/apimachinery`, only the message for an expected `(` has no comma.
            let comma = if *expected == "'('" { "" } else { "," };
            let unexpected = format!("found '{found}'{comma} expected: {expected}");
            if WITHOUT_REQUIREMENT.contains(expected) {
                return unexpected;
            }
            unexpected
        }
        ParseLabelSelectorError::Key { key, .. } => {
            format!("<nil>: Invalid value: {key:?}: {}", qualified_problems(key).join("; "))
        }
        ParseLabelSelectorError::Value { key, operator, values, .. } => {
            label_values_error(key, *operator, values)
        }
        error => error.to_string(),
    };
    format!("unable to parse requirement: {detail}")
}

/// Returns the error message for invalid values of a label requirement. Operators that need integers are
/// checked before the syntax of label values.
fn label_values_error(key: &str, operator: LabelOperator, values: &[String]) -> String {
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

pub(crate) fn field_selector_error(kind: &KindDefinition, error: &ParseFieldSelectorError) -> ApiError {
    let (selector, term) = (error.selector(), error.term());
    ApiError::bad_request(match error.problem() {
        FieldSelectorProblem::Escape { sequence } => {
            format!("invalid field selector: invalid escape sequence: {sequence}")
        }
        // In this message kube-apiserver prints the code point of the character as a number.
        FieldSelectorProblem::Unescaped { character } => {
            format!("invalid field selector: unescaped character in value: {}", u32::from(*character))
        }
        problem => match resolve(kind, "") {
            // For a requirement without a field name, kube-apiserver returns the error for the unknown field
            // with an empty name.
            Err(unknown) if *problem == FieldSelectorProblem::NoField => return unknown,
            _ => format!("invalid selector: '{selector}'; can't understand '{term}'"),
        },
    })
}

#[cfg(test)]
mod tests;
