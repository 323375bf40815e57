//! Evaluates the selectors of an informer on the object in the response to a write, to decide whether
//! the informer will receive the object.

use std::borrow::Cow;

use informer_core::{FieldOperator, FieldPath, FieldRequirement, Header, ObjectKey};
use serde_json::Value;

use super::OwnWrite;
use super::pending::Selection;
use crate::cache::InformerSelectors;

/// Field selectors of built-in kinds that are not paths of the object. Only the server can evaluate them.
const FIELD_ALIASES: [&str; 2] = ["status.successful", "source"];

/// The values with which a field selector may match an absent field. Depending on the type of the field, the
/// server compares the selector with an empty string, `false` or `0`.
const ABSENT_VALUES: [&str; 3] = ["", "false", "0"];

impl InformerSelectors {
    /// Returns whether the informer caches the object after a write. `None` if the response does not contain
    /// the object, and the write cannot change whether it is cached.
    pub(super) fn evaluate_write(&self, write: &OwnWrite<'_>, same_version: bool) -> Option<Selection> {
        match write.object {
            Some(object) => Some(self.evaluate(&write.key, object, same_version)),
            // Responses without the object are those of scales, evictions and other subresources. They change
            // no labels or fields of selectors, but a filter may read any field.
            None => self.has_filter.then_some(Selection::Unknown),
        }
    }

    /// Returns whether the informer caches this object. `same_version` is false if the object has another
    /// API version than the informer. Fields may then have other names, so selectors of fields other than
    /// name and namespace are not evaluated.
    pub(in crate::cache) fn evaluate(
        &self,
        key: &ObjectKey,
        object: &Value,
        same_version: bool,
    ) -> Selection {
        let metadata = &object["metadata"];
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect();
        let uid = metadata["uid"].as_str().unwrap_or_default();
        let in_share =
            |shares: &informer_client::HashShares| shares.contains(&Header::new(key.clone()).with_uid(uid));
        if !self.labels.matches(&labels) || !self.shares.as_ref().is_none_or(in_share) {
            return Selection::Unselected;
        }
        let object = same_version.then_some(object);
        let results =
            self.fields.requirements().iter().map(|requirement| field_holds(requirement, key, object));
        // The filter takes the decoded object, which the response to a write does not provide.
        let undecided = if self.has_filter { Selection::Unknown } else { Selection::Selected };
        results.fold(undecided, |all, holds| match (all, holds) {
            (_, Some(false)) | (Selection::Unselected, _) => Selection::Unselected,
            (_, None) => Selection::Unknown,
            (all, Some(true)) => all,
        })
    }
}

/// Returns whether an object meets a requirement of a field selector; `None` if only the server can tell.
fn field_holds(requirement: &FieldRequirement, key: &ObjectKey, object: Option<&Value>) -> Option<bool> {
    let holds =
        |value: &str| (value == requirement.value()) == (requirement.operator() == FieldOperator::Equals);
    match requirement.field() {
        "metadata.name" => return Some(holds(key.name())),
        "metadata.namespace" => return Some(holds(key.namespace().unwrap_or_default())),
        alias if FIELD_ALIASES.contains(&alias) => return None,
        _ => {}
    }
    let path: FieldPath = requirement.field().parse().ok()?;
    let value = path.segments().try_fold(object?, |value, segment| value.get(segment));
    let value: Cow<'_, str> = match value {
        Some(Value::String(text)) => text.into(),
        Some(Value::Bool(flag)) => flag.to_string().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        Some(Value::Array(_) | Value::Object(_)) => return None,
        None | Some(Value::Null) => {
            let first = holds(ABSENT_VALUES[0]);
            return ABSENT_VALUES.iter().all(|value| holds(value) == first).then_some(first);
        }
    };
    Some(holds(&value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selectors(labels: &str, fields: &str) -> InformerSelectors {
        let (labels, fields) = (labels.parse().unwrap(), fields.parse().unwrap());
        InformerSelectors { labels, fields, ..InformerSelectors::default() }
    }

    fn evaluate(selectors: &InformerSelectors, object: &Value) -> Selection {
        selectors.evaluate(&"ns/a".parse().unwrap(), object, true)
    }

    #[test]
    fn field_selectors_are_evaluated_if_the_response_has_the_field() {
        let object = json!({
            "metadata": {"labels": {"app": "web"}, "uid": "u"},
            "spec": {"nodeName": "n1", "unschedulable": true, "tolerations": []},
        });
        let cases = [
            ("metadata.name=a", Selection::Selected),
            ("metadata.name!=a", Selection::Unselected),
            ("metadata.namespace=ns,spec.nodeName=n1", Selection::Selected),
            ("metadata.namespace=other,spec.tolerations=x", Selection::Unselected),
            ("spec.tolerations=x,metadata.namespace=other", Selection::Unselected),
            ("spec.nodeName!=n1", Selection::Unselected),
            ("spec.unschedulable=true", Selection::Selected),
            ("spec.tolerations=x", Selection::Unknown),
            // The next cases select fields that the object does not have. A server may select an absent field
            // by an empty value, `false` or `0`, depending on the type of the field.
            ("status.phase=Running", Selection::Unselected),
            ("status.phase!=Running", Selection::Selected),
            ("status.phase=", Selection::Unknown),
            ("spec.hostNetwork=false", Selection::Unknown),
            ("status.successful=1", Selection::Unknown),
            ("source=kubelet", Selection::Unknown),
        ];
        for (fields, expected) in cases {
            assert_eq!(evaluate(&selectors("", fields), &object), expected, "{fields}");
            assert_eq!(evaluate(&selectors("app=db", fields), &object), Selection::Unselected, "{fields}");
        }
    }

    #[test]
    fn informer_with_a_filter_may_lack_every_object_that_its_selectors_match() {
        let filtered = InformerSelectors { has_filter: true, ..selectors("app=web", "metadata.name=a") };
        let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
        assert_eq!(evaluate(&filtered, &labelled("web")), Selection::Unknown);
        assert_eq!(evaluate(&filtered, &labelled("db")), Selection::Unselected);
    }

    #[test]
    fn fields_of_another_api_version_are_unknown_and_labels_are_not() {
        let (key, object) = ("ns/a".parse().unwrap(), json!({"spec": {"nodeName": "n1"}}));
        let evaluate = |labels, fields| selectors(labels, fields).evaluate(&key, &object, false);
        assert_eq!(evaluate("", "spec.nodeName=n1"), Selection::Unknown);
        assert_eq!(evaluate("", "metadata.name=a"), Selection::Selected);
        assert_eq!(evaluate("app=web", ""), Selection::Unselected);
    }
}
