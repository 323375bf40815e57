use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::rbac::shared::check_rules;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_selector, required};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("rbac.authorization.k8s.io", "v1", "ClusterRole", Traits::UPSERT)
        .bookmark(r#","rules":null"#)
        .name_format(Some(NameFormat::PathSegment))
        .null_list("rules")
        .rules(Rules::new(&[], CHECKS));

pub(crate) const CHECKS: &[Check] =
    &[Check::Call(|at, causes| check_rules(at, false, causes)), Check::Call(check_aggregation)];

fn check_aggregation(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if at.get("aggregationRule").is_none_or(Value::is_null) {
        return;
    }
    let selectors = at.items("aggregationRule.clusterRoleSelectors");
    let field = at.field_path("aggregationRule.clusterRoleSelectors");
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.push(required(&field, why));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let selector = FieldView { value: selector, old: None, path: field.index(index) };
        let before = causes.len();
        check_selector(&selector, causes);
        if causes.len() > before {
            causes.push(Cause::invalid(&selector.path, "null", "invalid label selector."));
        }
    }
}
