//! Checks of the user that containers run as.

use super::{Complaint, Pod};
use crate::admission::plugins::pod_security::messages::{containers, setters};

pub(in super::super) fn not_root(pod: &Pod<'_>) -> Option<Complaint> {
    let reason = "runAsNonRoot != true";
    let own = pod.context("runAsNonRoot");
    let bad = pod.bad(|container| container["securityContext"]["runAsNonRoot"] == false);
    if let Some(who) = setters(*own == false, &bad) {
        let told = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Complaint::about(reason, Some(told));
    }
    let silent = pod.bad(|container| container["securityContext"]["runAsNonRoot"].is_null() && *own != true);
    let told = (!silent.is_empty())
        .then(|| format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent)));
    Complaint::about(reason, told)
}

pub(in super::super) fn not_root_unless_own(pod: &Pod<'_>) -> Option<Complaint> {
    if pod.has_own_users() { None } else { not_root(pod) }
}

pub(in super::super) fn by_number(pod: &Pod<'_>) -> Option<Complaint> {
    let bad = pod.bad(|container| container["securityContext"]["runAsUser"] == 0);
    let who = setters(*pod.context("runAsUser") == 0, &bad);
    Complaint::about("runAsUser=0", who.map(|who| format!("{who} must not set runAsUser=0")))
}

pub(in super::super) fn by_number_unless_own(pod: &Pod<'_>) -> Option<Complaint> {
    if pod.has_own_users() { None } else { by_number(pod) }
}
