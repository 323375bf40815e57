//! Definitions in the groups of the Kubernetes community, which need the annotation
//! `api-approved.kubernetes.io`.

use serde_json::Value;

use super::text;
use crate::model::cause::{Cause, Causes};
use crate::model::net;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn approval(definition: &Value) -> (Approval, String) {
    let annotation = text(&definition["metadata"]["annotations"], ANNOTATION);
    let (scheme, host) = net::scheme_and_host(annotation);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation {ANNOTATION:?}");
    if annotation.is_empty() {
        (Approval::Missing, format!("{must}, {see}"))
    } else if annotation.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {annotation:?}"))
    } else if net::is_request_uri(annotation) && !scheme.is_empty() && !host.is_empty() {
        (Approval::Approved, format!("approved in {annotation}"))
    } else {
        let either = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("{must} {either}, {see}"))
    }
}

pub(super) fn check(definition: &Value, old: Option<&Value>, causes: &mut Causes) {
    if !is_protected(text(&definition["spec"], "group")) {
        return;
    }
    let (state, why) = approval(definition);
    // An update may keep the state, so that a controller of the spec is not rejected.
    if old.is_some_and(|old| approval(old).0 == state) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match state {
        Approval::Invalid => {
            let shown = definition["metadata"]["annotations"][ANNOTATION].to_string();
            causes.push(Cause::invalid(&field, &shown, &why));
        }
        Approval::Missing => causes.push(Cause::required(&field, &why)),
        Approval::Approved | Approval::Bypassed => {}
    }
}

/// The state of the condition `KubernetesAPIApprovalPolicyConformant`.
pub(crate) struct ApprovalCondition {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Returns the condition about the approval of a definition in a protected group.
pub(crate) fn approval_condition(definition: &Value) -> Option<ApprovalCondition> {
    if !is_protected(text(&definition["spec"], "group")) {
        return None;
    }
    let (state, message) = approval(definition);
    let (status, reason) = match state {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some(ApprovalCondition { status, reason, message })
}
