//! Pod Security checks of privileged containers, privilege escalation, Windows host processes and proc
//! mounts.

use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{containers, quoted, setters, sorted};

pub(in super::super) fn privileged(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = pod.bad(|container| container["securityContext"]["privileged"] == true);
    let detail =
        setters(false, &bad).map(|who| format!("{who} must not set securityContext.privileged=true"));
    PodViolation::about("privileged", detail)
}

pub(in super::super) fn escalation(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = pod.bad(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    let detail = setters(false, &bad)
        .map(|who| format!("{who} must set securityContext.allowPrivilegeEscalation=false"));
    PodViolation::about("allowPrivilegeEscalation != false", detail)
}

pub(in super::super) fn escalation_unless_windows(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.is_windows() { None } else { escalation(pod) }
}

pub(in super::super) fn host_process(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = pod.bad(|container| container["securityContext"]["windowsOptions"]["hostProcess"] == true);
    let detail = setters(pod.context("windowsOptions")["hostProcess"] == true, &bad)
        .map(|who| format!("{who} must not set securityContext.windowsOptions.hostProcess=true"));
    PodViolation::about("hostProcess", detail)
}

pub(in super::super) fn proc_mount(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = pod.bad(|container| open_mount(container).is_some());
    let mounts = sorted(pod.containers().filter_map(open_mount));
    let detail = (!bad.is_empty()).then(|| {
        format!("{} must not set securityContext.procMount to {}", containers(&bad), quoted(mounts))
    });
    PodViolation::about("procMount", detail)
}

pub(in super::super) fn proc_mount_unless_own_users(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.in_user_namespace() { None } else { proc_mount(pod) }
}

fn open_mount(container: &Value) -> Option<&str> {
    container["securityContext"]["procMount"].as_str().filter(|mount| *mount != "Default")
}
