//! Validation of fields that contradict the operating system in `os.name`.

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, required, unsupported};

use super::all_containers;

pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match at.get("os").map(|_| at.text("os.name")) {
        None => {}
        Some("") => causes.push(required(&at.field_path("os.name"), "")),
        Some("linux") => check_linux(at, causes),
        Some("windows") => check_windows(at, causes),
        Some(other) => causes.push(unsupported(&at.field_path("os"), other, &["linux", "windows"])),
    }
}

pub(super) fn is_windows(spec: &FieldView<'_, '_>) -> bool {
    spec.text("os.name") == "windows"
}

fn check_linux(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let why = "windows options cannot be set for a linux pod";
    let mut check = |context: &FieldView<'_, '_>| {
        if context.get("windowsOptions").is_some() {
            causes.push(Cause::forbidden(&context.field_path("windowsOptions"), why));
        }
    };
    check(&at.part("securityContext"));
    all_containers(at).for_each(|container| check(&container.part("securityContext")));
}

const WINDOWS: &str = "cannot be set for a windows pod";

/// The fields of a pod that a Windows pod must not have. Booleans in [`LINUX_POD_FLAGS`] may be false.
const LINUX_POD_FIELDS: [&str; 15] = [
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];
const LINUX_POD_FLAGS: [&str; 2] = ["hostPID", "hostIPC"];
const LINUX_CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn check_windows(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for name in LINUX_POD_FIELDS {
        let given = at.get(name).is_some_and(|value| match value {
            Value::Array(items) => !items.is_empty(),
            Value::Bool(false) => !LINUX_POD_FLAGS.contains(&name),
            _ => true,
        });
        causes.extend(given.then(|| Cause::forbidden(&at.field_path(name), WINDOWS)));
    }
    for container in all_containers(at) {
        let context = container.part("securityContext");
        let given = LINUX_CONTAINER_FIELDS.iter().filter(|name| context.get(name).is_some());
        causes.extend(given.map(|name| Cause::forbidden(&context.field_path(name), WINDOWS)));
    }
}
