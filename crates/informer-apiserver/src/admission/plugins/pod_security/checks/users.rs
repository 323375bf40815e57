//! Pod Security checks of the user that containers run as.

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{containers, setters};

pub(in super::super) fn not_root(pod: &Pod<'_>) -> Option<PodViolation> {
    let reason = "runAsNonRoot != true";
    let own = pod.context("runAsNonRoot");
    let bad = pod.bad(|container| container["securityContext"]["runAsNonRoot"] == false);
    if let Some(who) = setters(*own == false, &bad) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return PodViolation::about(reason, Some(detail));
    }
    let silent = pod.bad(|container| container["securityContext"]["runAsNonRoot"].is_null() && *own != true);
    let detail = (!silent.is_empty())
        .then(|| format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent)));
    PodViolation::about(reason, detail)
}

pub(in super::super) fn not_root_unless_own_users(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.in_user_namespace() { None } else { not_root(pod) }
}

pub(in super::super) fn run_as_user(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = pod.bad(|container| container["securityContext"]["runAsUser"] == 0);
    let who = setters(*pod.context("runAsUser") == 0, &bad);
    PodViolation::about("runAsUser=0", who.map(|who| format!("{who} must not set runAsUser=0")))
}

pub(in super::super) fn run_as_user_unless_own_users(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.in_user_namespace() { None } else { run_as_user(pod) }
}
