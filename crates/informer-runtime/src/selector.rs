//! Label selectors that are fields of objects, such as `spec.selector` of a Deployment.

use informer_core::{LabelOperator, LabelRequirement, LabelSelector, ParseLabelSelectorError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as SelectorField;

/// The error for a label selector of an object that is not a valid selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelSelectorError {
    /// A requirement has an operator other than `In`, `NotIn`, `Exists` and `DoesNotExist`.
    #[error(
        "read the label selector of an object: the requirement on label {key} has the unknown operator {operator:?}; \
         use In, NotIn, Exists or DoesNotExist"
    )]
    Operator {
        /// The label of the requirement.
        key: String,
        /// The unknown operator.
        operator: String,
    },
    /// A requirement has an invalid label, an invalid value, or the wrong number of values.
    #[error("read the label selector of an object: {0}")]
    Requirement(#[from] ParseLabelSelectorError),
}

/// Converts a label selector that is a field of an object, such as `spec.selector` of a Deployment, into one
/// that lists and listers accept.
///
/// As in Kubernetes, a missing selector selects nothing, and an empty one selects everything.
///
/// ```
/// use informer_runtime::{LabelSelectorError, label_selector};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// # fn example(deployment: &Deployment) -> Result<(), LabelSelectorError> {
/// let pods = label_selector(Some(&deployment.spec.selector))?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Returns an error if an operator is unknown, or a label or a value is invalid.
///
/// Upstream:
/// [`LabelSelectorAsSelector`](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#LabelSelectorAsSelector).
pub fn label_selector(selector: Option<&SelectorField>) -> Result<LabelSelector, LabelSelectorError> {
    let Some(selector) = selector else { return Ok(LabelSelector::nothing()) };
    let mut all = LabelSelector::everything();
    for (key, value) in selector.match_labels.iter().flatten() {
        all = all.and(LabelRequirement::new(key, LabelOperator::Equals, [value])?);
    }
    for requirement in selector.match_expressions.iter().flatten() {
        let operator = match requirement.operator.as_str() {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            unknown => {
                let (key, operator) = (requirement.key.clone(), unknown.to_owned());
                return Err(LabelSelectorError::Operator { key, operator });
            }
        };
        let values = requirement.values.iter().flatten();
        all = all.and(LabelRequirement::new(&requirement.key, operator, values)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> Result<String, String> {
        let selector: SelectorField = serde_json::from_value(selector).unwrap();
        label_selector(Some(&selector))
            .map(|selector| selector.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn labels_and_expressions_are_all_required() {
        let selector = json!({
            "matchLabels": {"app": "web", "tier": ""},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["b", "a"]},
                {"key": "track", "operator": "NotIn", "values": ["canary"]},
                {"key": "owner", "operator": "Exists"},
                {"key": "legacy", "operator": "DoesNotExist", "values": []},
            ],
        });
        let parsed: LabelSelector =
            "app=web,tier=,zone in (a,b),track notin (canary),owner,!legacy".parse().unwrap();
        assert_eq!(read(selector), Ok(parsed.to_string()));
    }

    #[test]
    fn missing_selector_selects_nothing_and_empty_one_everything() {
        assert!(label_selector(None).unwrap().is_nothing());
        assert!(label_selector(Some(&SelectorField::default())).unwrap().is_everything());
    }

    #[test]
    fn invalid_requirements_are_rejected_with_their_label() {
        for (requirement, problem) in [
            (json!({"key": "zone", "operator": "Like", "values": ["a"]}), "unknown operator \"Like\""),
            (json!({"key": "zone", "operator": "In"}), "label zone needs"),
            (json!({"key": "zone", "operator": "Exists", "values": ["a"]}), "label zone needs"),
            (json!({"key": "zo ne", "operator": "Exists"}), "\"zo ne\" is not a label name"),
            (json!({"key": "zone", "operator": "In", "values": ["-"]}), "value for label zone"),
        ] {
            let error = read(json!({"matchExpressions": [requirement]})).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let error = read(json!({"matchLabels": {"app": "a b"}})).unwrap_err();
        assert!(error.contains("value for label app"), "{error}");
    }
}
