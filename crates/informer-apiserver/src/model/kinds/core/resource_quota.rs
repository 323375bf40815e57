//! The kind ResourceQuota. `admission/quota.rs` updates the usage with each write and rejects writes that
//! exceed a quota.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, IMMUTABLE, format_value, required, short_value};
use crate::model::rules::resources::{
    check_quota_resource_name, check_resource_quantity, each_quantity, is_standard_quota_resource,
};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::or;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ResourceQuota", Traits::STATUS_METADATA.with(Traits::RETURNS_DELETED))
        .bookmark(r#","spec":{},"status":{}"#)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .cells(cells);

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const UNSUPPORTED: &str = "unsupported scope";
const WRONG_RESOURCE: &str = "unsupported scope applied to resource";

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let mut limited = Vec::new();
    each_quantity(&spec, "hard", &mut |field, name, quantity| {
        check_quota_resource_name(field, name, causes);
        check_resource_quantity(field, name, quantity, causes);
        limited.push(name.to_owned());
    });
    limited.retain(|name| is_standard_quota_resource(name));
    check_scopes(&spec, &limited, causes);
    check_scope_selector(&spec.part("scopeSelector"), &limited, causes);
    let Some(old) = spec.old else { return };
    let set = |list: &[Value]| list.iter().map(text).map(str::to_owned).collect::<BTreeSet<_>>();
    if set(spec.items("scopes")) != set(old["scopes"].as_array().map_or(&[], Vec::as_slice)) {
        let shown = format_value(spec.get("scopes"));
        causes.push(Cause::invalid("spec.scopes", &shown, IMMUTABLE));
    }
}

fn check_scopes(spec: &FieldView<'_, '_>, limited: &[String], causes: &mut Causes) {
    let names: Vec<&str> = spec.items("scopes").iter().map(text).collect();
    let shown = short_value(spec.get("scopes"));
    let invalid = |why: &str| Cause::invalid("spec.scopes", &shown, why);
    for scope in &names {
        if causes.is_full() {
            return;
        }
        causes.extend((!SCOPES.contains(scope)).then(|| invalid(UNSUPPORTED)));
        let wrong = limited.iter().filter(|resource| !applies(scope, resource));
        causes.extend(wrong.map(|_| invalid(WRONG_RESOURCE)));
    }
    let conflicts = CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| names.contains(scope)));
    causes.extend(conflicts.map(|_| invalid("conflicting scopes")));
}

fn check_scope_selector(selector: &FieldView<'_, '_>, limited: &[String], causes: &mut Causes) {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let shown = short_value(Some(selector.value));
    let mut names = Vec::new();
    for requirement in selector.items("matchExpressions") {
        if causes.is_full() {
            return;
        }
        let (scope, operator) = (text(&requirement["scopeName"]), text(&requirement["operator"]));
        let has_values = requirement["values"].as_array().is_some_and(|values| !values.is_empty());
        let invalid = |name: &str, value: &str, why: &str| {
            Cause::invalid(&format!("{FIELD}.{name}"), &format!("{value:?}"), why)
        };
        names.push(scope);
        if !SCOPES.contains(&scope) {
            causes.push(invalid("scopeName", scope, UNSUPPORTED));
        }
        let wrong = limited.iter().filter(|resource| !applies(scope, resource));
        causes.extend(wrong.map(|_| Cause::invalid(FIELD, &shown, WRONG_RESOURCE)));
        let exists_only =
            SCOPES.contains(&scope) && !["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        if exists_only && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                       ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            causes.push(invalid("operator", operator, why));
        }
        match operator {
            "In" | "NotIn" if !has_values => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(required(&format!("{FIELD}.values"), why));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                let shown = requirement["values"].to_string();
                causes.push(Cause::invalid(&format!("{FIELD}.values"), &shown, why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => causes.push(invalid("operator", other, "not a valid selector operator")),
        }
    }
    let conflicts = CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| names.contains(scope)));
    causes.extend(conflicts.map(|_| Cause::invalid(FIELD, &shown, "conflicting scopes")));
}

/// Returns true if a quota of a resource can have a scope.
fn applies(scope: &str, resource: &str) -> bool {
    let of_pods = ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        scope if SCOPES.contains(&scope) => of_pods.contains(&resource),
        _ => true,
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let status = row.status();
    let mut hard: Vec<(&String, &Value)> = status["hard"].as_object().into_iter().flatten().collect();
    hard.sort_unstable_by_key(|(name, _)| *name);
    let usage = |limits: bool| -> String {
        let named = hard.iter().filter(|(name, _)| name.starts_with("limits.") == limits);
        let usage = named.map(|(name, hard)| {
            format!("{name}: {}/{}", or(&status["used"][name.as_str()], "0"), text(hard))
        });
        usage.collect::<Vec<_>>().join(", ")
    };
    vec![row.name(), json!(usage(false)), json!(usage(true)), row.age()]
}
