//! Validation of the annotations of pods and pod templates that kube-apiserver reads.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::{Map, Value};

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::FieldView;
use crate::model::rules::scheduling::check_toleration;

use super::volumes::check_relative_path;
use super::{all_containers, os};

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// Validates the annotations of a pod or pod template with this spec.
pub(super) fn check(at: &FieldView<'_, '_>, spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(annotations) = at.value.as_object() else { return };
    let keyed = |name| at.path.key(name);
    if let Some(value) = text(annotations, MIRROR).filter(|_| spec.text("nodeName").is_empty()) {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        causes.push(Cause::invalid(&keyed(MIRROR), &format!("{value:?}"), why));
    }
    check_tolerations(at, text(annotations, TOLERATIONS).unwrap_or_default(), causes);
    let old_cost = at.old.and_then(|old| old.get(DELETION_COST)?.as_str());
    let cost = text(annotations, DELETION_COST).filter(|cost| !is_deletion_cost(cost));
    // An update may keep or replace a cost that was stored without validation.
    if let Some(cost) = cost.filter(|_| old_cost.is_none_or(is_deletion_cost)) {
        let why = "must be a 32bit integer";
        causes.push(Cause::invalid(&keyed(DELETION_COST), &format!("{cost:?}"), why));
    }
    let mut containers = None;
    let given = annotations.iter().filter_map(|(name, value)| Some((&**name, value.as_str()?)));
    for (name, profile) in given {
        if name == POD_SECCOMP || name.starts_with(CONTAINER_SECCOMP) {
            check_seccomp(&at.field_path(name), profile, causes);
        } else if let Some(container) = name.strip_prefix(APP_ARMOR) {
            let field = keyed(name);
            let containers = containers.get_or_insert_with(|| container_names(spec));
            if !containers.contains(container) {
                causes.push(Cause::invalid(&field, &format!("{container:?}"), "container not found"));
            }
            check_app_armor(&field, profile, causes);
        }
    }
}

fn container_names<'a>(spec: &FieldView<'a, '_>) -> HashSet<&'a str> {
    all_containers(spec).map(|container| container.text("name")).collect()
}

fn text<'a>(annotations: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    annotations.get(name).and_then(Value::as_str)
}

/// Validates the JSON list of tolerations in an annotation.
fn check_tolerations(at: &FieldView<'_, '_>, json: &str, causes: &mut Causes) {
    if json.is_empty() {
        return;
    }
    let invalid = |why: &str| Cause::invalid(&at.path, &format!("{TOLERATIONS:?}"), why);
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Null) => {}
        Ok(Value::Array(tolerations)) => {
            for (index, toleration) in tolerations.iter().enumerate() {
                let path = at.field_path(TOLERATIONS).index(index);
                let toleration = with_field_names(toleration);
                check_toleration(&FieldView { value: &toleration, old: None, path }, causes);
            }
        }
        Ok(_) => causes.push(invalid("json: cannot unmarshal into Go value of type []core.Toleration")),
        Err(error) => causes.push(invalid(&error.to_string())),
    }
}

/// Returns a toleration with the field names of the API. Go matches names without regard to their case.
fn with_field_names(toleration: &Value) -> Value {
    const FIELDS: [&str; 5] = ["effect", "key", "operator", "tolerationSeconds", "value"];
    let members = toleration.as_object().into_iter().flatten();
    let named = members.filter_map(|(name, value)| {
        let field = FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(name))?;
        Some((field.to_owned(), value.clone()))
    });
    Value::Object(named.collect())
}

/// Returns true for a 32-bit integer without a plus sign and leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    let starts_well =
        text == "0" || text.starts_with(|first: char| first == '-' || matches!(first, '1'..='9'));
    starts_well && text.parse::<i32>().is_ok()
}

fn check_seccomp(field: &dyn Display, profile: &str, causes: &mut Causes) {
    match (profile, profile.strip_prefix(LOCALHOST)) {
        ("runtime/default" | "docker/default" | "unconfined", _) => {}
        (_, Some(path)) => check_relative_path(field, path, causes),
        (_, None) => {
            let why = "must be a valid seccomp profile";
            causes.push(Cause::invalid(field, &format!("{profile:?}"), why));
        }
    }
}

fn check_app_armor(field: &dyn Display, profile: &str, causes: &mut Causes) {
    if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with(LOCALHOST) {
        let why = format!("invalid AppArmor profile name: {profile:?}");
        causes.push(Cause::invalid(field, &format!("{profile:?}"), &why));
    }
}

/// Rejects profiles in annotations that contradict those in the fields of the spec.
pub(super) fn check_profiles(at: &FieldView<'_, '_>, spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(annotations) = at.value.as_object() else { return };
    let is_profile = |name: &String| {
        name == POD_SECCOMP || name.starts_with(CONTAINER_SECCOMP) || name.starts_with(APP_ARMOR)
    };
    if !annotations.keys().any(is_profile) {
        return;
    }
    let pod = spec.part("securityContext");
    if let Some(annotation) = text(annotations, POD_SECCOMP) {
        check_match(&pod.part("seccompProfile"), annotation, "seccomp", causes);
    }
    for container in all_containers(spec) {
        let name = format!("{CONTAINER_SECCOMP}{}", container.text("name"));
        if let Some(annotation) = text(annotations, &name) {
            check_match(&container.part("securityContext.seccompProfile"), annotation, "seccomp", causes);
        }
    }
    if os::is_windows(spec) {
        return;
    }
    for container in all_containers(spec) {
        let name = format!("{APP_ARMOR}{}", container.text("name"));
        let Some(annotation) = text(annotations, &name) else { continue };
        let mut profile = container.part("securityContext.appArmorProfile");
        if profile.value.is_null() {
            // A container without a profile has that of the pod. The error names the field of the container.
            profile = FieldView { path: profile.path, ..pod.part("appArmorProfile") };
        }
        check_match(&profile, annotation, "apparmor", causes);
    }
}

/// Validates that the profile in an annotation is that of a field. `kind` is the name of the security module
/// in the errors.
fn check_match(profile: &FieldView<'_, '_>, annotation: &str, kind: &str, causes: &mut Causes) {
    let path = annotation.strip_prefix(LOCALHOST);
    let has_type = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (kind == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => path.is_some(),
        _ => return,
    };
    if !has_type {
        let why = format!("{kind} type in annotation and field must match");
        causes.push(Cause::forbidden(&profile.field_path("type"), &why));
    } else if profile.text("type") == "Localhost"
        && profile.get("localhostProfile").and_then(Value::as_str) != path
    {
        let why = format!("{kind} profile in annotation and field must match");
        causes.push(Cause::forbidden(&profile.field_path("localhostProfile"), &why));
    }
}

/// Rejects updates of a pod that change the annotations of AppArmor or of a mirror pod.
pub(super) fn check_changes(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let names = |annotations: Option<&Value>| {
        annotations.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let (before, after): (Vec<String>, Vec<String>) = (names(at.old), names(Some(at.value)));
    let old = |name: &str| at.old.and_then(|old| old.get(name));
    let changed = before.iter().filter(|name| old(name) != at.value.get(&***name));
    let added = after.iter().filter(|name| old(name).is_none());
    let changes = changed.map(|name| (name, "remove or update")).chain(added.map(|name| (name, "add")));
    for (name, change) in changes {
        let shown = match &**name {
            MIRROR => "mirror pod annotation",
            name if name.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => continue,
        };
        let field = format!("{}[{name}]", at.path);
        causes.push(Cause::forbidden(&field, &format!("may not {change} {shown}")));
    }
}
