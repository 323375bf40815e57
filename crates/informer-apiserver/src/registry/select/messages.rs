//! Error messages of invalid selectors, as in kube-apiserver.

use informer_core::{FieldSelectorProblem, LabelOperator, ParseFieldSelectorError, ParseLabelSelectorError};

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::model::labels::label_value_problems;
use crate::model::rules::qualified_problems;
use crate::registry::select::resolve;

/// Errors about these tokens do not name the requirement, as in `k8s.io/apimachinery`.
const WITHOUT_REQUIREMENT: [&str; 3] =
    ["!, identifier, or 'end of string'", "identifier after ','", "',' or 'end of string'"];

/// Returns the message for an invalid label selector.
pub(crate) fn label_selector_error(error: &ParseLabelSelectorError) -> String {
    let detail = match error {
        ParseLabelSelectorError::Unexpected { found, expected, .. } => {
            // `k8s.io/apimachinery` has no comma in this message.
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

/// Returns the message for invalid values of a requirement. The integer check comes before the label value
/// check.
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

/// Returns the error for an invalid field selector.
pub(crate) fn field_selector_error(kind: &Kind, error: &ParseFieldSelectorError) -> ApiError {
    let (selector, term) = (error.selector(), error.term());
    ApiError::bad_request(match error.problem() {
        FieldSelectorProblem::Escape { sequence } => {
            format!("invalid field selector: invalid escape sequence: {sequence}")
        }
        // kube-apiserver prints the code point of the character.
        FieldSelectorProblem::Unescaped { character } => {
            format!("invalid field selector: unescaped character in value: {}", u32::from(*character))
        }
        problem => match resolve(kind, "") {
            // kube-apiserver looks up the empty field name.
            Err(unknown) if *problem == FieldSelectorProblem::NoField => return unknown,
            _ => format!("invalid selector: '{selector}'; can't understand '{term}'"),
        },
    })
}

#[cfg(test)]
mod tests;
