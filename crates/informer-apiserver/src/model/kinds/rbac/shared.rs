//! Defaults, validation and table cells that several kinds of the group `rbac.authorization.k8s.io` share.

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{Check, FieldView, NameFormat, is_missing, required, unsupported};
use crate::model::rules::defaults::Default::{self, Fill, In, When};
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use serde_json::{Value, json};

const RBAC_GROUP: &[Default] = &[Fill("apiGroup", "\"rbac.authorization.k8s.io\"")];

pub(crate) const BINDING_DEFAULTS: &[Default] = &[
    In("roleRef", RBAC_GROUP),
    In("subjects[]", &[When("kind", "User", RBAC_GROUP), When("kind", "Group", RBAC_GROUP)]),
];

pub(crate) const BINDING_UPDATE_CHECKS: &[Check] = &[Check::Call(check_binding_change)];
const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn check_rules(at: &FieldView<'_, '_>, namespaced: bool, causes: &mut Causes) {
    for (index, rule) in at.items("rules").iter().enumerate() {
        let rule = FieldView { value: rule, old: None, path: FieldPath::new("rules").index(index) };
        let missing = |name: &str| is_missing(rule.get(name));
        if missing("verbs") {
            causes.push(required(&rule.field_path("verbs"), "verbs must contain at least one value"));
        }
        if let Some(urls) = rule.get("nonResourceURLs").filter(|urls| !is_missing(Some(urls))) {
            let other = !missing("apiGroups") || !missing("resources") || !missing("resourceNames");
            let why = match (namespaced, other) {
                (true, _) => "namespaced rules cannot apply to non-resource URLs",
                (false, true) => "rules cannot apply to both regular resources and non-resource URLs",
                (false, false) => continue,
            };
            causes.push(Cause::invalid(&rule.field_path("nonResourceURLs"), &urls.to_string(), why));
            continue;
        }
        if missing("apiGroups") {
            causes.push(required(
                &rule.field_path("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if missing("resources") {
            causes.push(required(
                &rule.field_path("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

pub(crate) fn check_binding(at: &FieldView<'_, '_>, namespaced: bool, causes: &mut Causes) {
    let role = at.part("roleRef");
    if role.text("apiGroup") != GROUP {
        causes.push(unsupported(&role.field_path("apiGroup"), role.text("apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.text("kind")) {
        causes.push(unsupported(&role.field_path("kind"), role.text("kind"), kinds));
    }
    if role.text("name").is_empty() {
        causes.push(required(&role.field_path("name"), ""));
    }
    for (index, subject) in at.items("subjects").iter().enumerate() {
        let subject = FieldView { value: subject, old: None, path: FieldPath::new("subjects").index(index) };
        let name = subject.text("name");
        if name.is_empty() {
            causes.push(required(&subject.field_path("name"), ""));
        }
        match subject.text("kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    NameFormat::Subdomain.check(&subject.field_path("name"), name, causes);
                }
                if !subject.text("apiGroup").is_empty() {
                    let field = subject.field_path("apiGroup");
                    causes.push(unsupported(&field, subject.text("apiGroup"), &[""]));
                }
                if !namespaced && subject.text("namespace").is_empty() {
                    causes.push(required(&subject.field_path("namespace"), ""));
                }
            }
            "User" | "Group" => {
                if subject.text("apiGroup") != GROUP {
                    let field = subject.field_path("apiGroup");
                    causes.push(unsupported(&field, subject.text("apiGroup"), &[GROUP]));
                }
            }
            other => causes.push(unsupported(
                &subject.field_path("kind"),
                other,
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}

fn check_binding_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let role = at.part("roleRef");
    if role.old.is_some_and(|old| old != role.value) {
        let (group, kind, name) = (role.text("apiGroup"), role.text("kind"), role.text("name"));
        let shown = format!("{{\"APIGroup\":{group:?},\"Kind\":{kind:?},\"Name\":{name:?}}}");
        causes.push_first(Cause::invalid("roleRef", &shown, "cannot change roleRef"));
    }
}

pub(crate) fn binding_cells(row: &TableRow<'_>) -> Vec<Value> {
    let subjects = |kind: &str| -> Vec<String> {
        let subjects = list(&row.object["subjects"]).filter(|subject| subject["kind"] == kind);
        let name = |subject: &Value| match kind {
            "ServiceAccount" => {
                format!("{}/{}", text(&subject["namespace"]), text(&subject["name"]))
            }
            _ => text(&subject["name"]).to_owned(),
        };
        subjects.map(name).collect()
    };
    let role = &row.object["roleRef"];
    vec![
        row.name(),
        json!(format!("{}/{}", text(&role["kind"]), text(&role["name"]))),
        row.age(),
        json!(subjects("User").join(", ")),
        json!(subjects("Group").join(", ")),
        json!(subjects("ServiceAccount").join(", ")),
    ]
}
