//! Checks of privileged containers, privilege escalation, host processes and proc mounts.

use serde_json::Value;

use super::{Complaint, Pod};
use crate::admission::plugins::pod_security::messages::{containers, quoted, setters, sorted};

pub(in super::super) fn privileged(pod: &Pod<'_>) -> Option<Complaint> {
    let bad = pod.bad(|container| container["securityContext"]["privileged"] == true);
    let told = setters(false, &bad).map(|who| format!("{who} must not set securityContext.privileged=true"));
    Complaint::about("privileged", told)
}

pub(in super::super) fn escalation(pod: &Pod<'_>) -> Option<Complaint> {
    let bad = pod.bad(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    let told = setters(false, &bad)
        .map(|who| format!("{who} must set securityContext.allowPrivilegeEscalation=false"));
    Complaint::about("allowPrivilegeEscalation != false", told)
}

pub(in super::super) fn escalation_unless_windows(pod: &Pod<'_>) -> Option<Complaint> {
    if pod.is_windows() { None } else { escalation(pod) }
}

pub(in super::super) fn host_process(pod: &Pod<'_>) -> Option<Complaint> {
    let bad = pod.bad(|container| container["securityContext"]["windowsOptions"]["hostProcess"] == true);
    let told = setters(pod.context("windowsOptions")["hostProcess"] == true, &bad)
        .map(|who| format!("{who} must not set securityContext.windowsOptions.hostProcess=true"));
    Complaint::about("hostProcess", told)
}

pub(in super::super) fn proc_mount(pod: &Pod<'_>) -> Option<Complaint> {
    let bad = pod.bad(|container| open_mount(container).is_some());
    let mounts = sorted(pod.containers().filter_map(open_mount));
    let told = (!bad.is_empty()).then(|| {
        format!("{} must not set securityContext.procMount to {}", containers(&bad), quoted(mounts))
    });
    Complaint::about("procMount", told)
}

pub(in super::super) fn proc_mount_unless_own_users(pod: &Pod<'_>) -> Option<Complaint> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

fn open_mount(container: &Value) -> Option<&str> {
    container["securityContext"]["procMount"].as_str().filter(|mount| *mount != "Default")
}
