use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::quantity::read;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, duplicate, required};
use crate::model::rules::defaults::Default::Call;
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::resources::{check_container_resource_name, check_resource_name, each_quantity};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "LimitRange", Traits::UPSERT)
    .with_traits(Traits::REVALIDATES_METADATA)
    .bookmark(r#","spec":{"limits":null}"#)
    .rules(Rules::new(&[Call(limit_range_defaults)], &[Check::Call(validate)]));

/// Sets missing values of a `Container` item: `default` from `max`, and `defaultRequest` from `default` or
/// `min`.
fn limit_range_defaults(range: &mut Value) {
    for item in range["spec"]["limits"].as_array_mut().into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let known = item[from].as_object().cloned().unwrap_or_default();
            for (name, value) in known {
                if item[to].get(&name).is_none() {
                    item[to][name] = value;
                }
            }
        }
    }
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let mut types = HashSet::new();
    for (index, limit) in spec.items("limits").iter().enumerate() {
        let limit = FieldView { value: limit, old: None, path: FieldPath::new("spec.limits").index(index) };
        let of = limit.text("type");
        check_type(&limit.field_path("type"), of, causes);
        if !types.insert(of) {
            causes.push(duplicate(&limit.field_path("type"), &format!("{of:?}")));
        }
        let check_name = if matches!(of, "Pod" | "Container") {
            check_container_resource_name
        } else {
            check_resource_name
        };
        let mut names = BTreeSet::new();
        for map in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if of == "Pod" && map.starts_with("default") {
                if limit.get(map).and_then(Value::as_object).is_some_and(|map| !map.is_empty()) {
                    let why = "may not be specified when `type` is 'Pod'";
                    causes.push(Cause::forbidden(&limit.field_path(map), why));
                }
                continue;
            }
            each_quantity(&limit, map, &mut |field, name, _| {
                check_name(field, name, causes);
                names.insert(name.to_owned());
            });
        }
        let has_storage = |map: &str| limit.value[map].get("storage").is_some();
        if of == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            causes.push(required(&limit.field_path("limits"), why));
        }
        names.iter().for_each(|name| check_order(&limit, name, causes));
    }
}

fn check_type(field: &dyn Display, of: &str, causes: &mut Causes) {
    let known = causes.len();
    NameFormat::Qualified.check(field, of, causes);
    if causes.len() == known
        && !of.contains('/')
        && !["Pod", "Container", "PersistentVolumeClaim"].contains(&of)
    {
        let why = "must be a standard limit type or fully qualified";
        causes.push(Cause::invalid(field, &format!("{of:?}"), why));
    }
}

/// Validates that the limits of one resource do not contradict each other.
fn check_order(limit: &FieldView<'_, '_>, name: &str, causes: &mut Causes) {
    let value = |map: &str| {
        let shown = limit.value[map].get(name)?.as_str()?;
        Some((shown, read(shown)?))
    };
    // For each pair, the first quantity must not be greater than the second. An error names the third field.
    let pairs = [
        ("min", "max", "min", "min value", "max value"),
        ("min", "defaultRequest", "defaultRequest", "min value", "default request value"),
        ("defaultRequest", "max", "defaultRequest", "default request value", "max value"),
        ("defaultRequest", "default", "defaultRequest", "default request value", "default limit value"),
        ("min", "default", "default", "min value", "default value"),
        ("default", "max", "default", "default value", "max value"),
    ];
    for (low, high, named, low_name, high_name) in pairs {
        let (Some((low, low_value)), Some((high, high_value))) = (value(low), value(high)) else { continue };
        if low_value > high_value {
            let field = limit.field_path(named).key(name);
            let why = format!("{low_name} {low} is greater than {high_name} {high}");
            causes.push(Cause::invalid(&field, &format!("{low:?}"), &why));
        }
    }
    let Some((shown, ratio)) = value("maxLimitRequestRatio") else { return };
    let field = limit.field_path("maxLimitRequestRatio").key(name);
    if ratio < 1_000_000_000 {
        causes.push(Cause::invalid(&field, &format!("{shown:?}"), &format!("ratio {shown} is less than 1")));
    }
    if let (Some((_, least)), Some((_, most))) = (value("min"), value("max"))
        && least > 0
    {
        // Quantities are in billionths.
        let allowed = most as f64 / least as f64;
        if ratio as f64 / 1e9 > allowed {
            let why = format!("ratio {shown} is greater than max/min = {allowed:.6}");
            causes.push(Cause::invalid(&field, &format!("{shown:?}"), &why));
        }
    }
}
