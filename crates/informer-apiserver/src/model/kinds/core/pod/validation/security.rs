//! Validation of the security contexts of pods and containers.

use std::collections::HashSet;
use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{Check, FieldView, NameFormat, duplicate, required, run, unsupported};

use super::host;
use super::volumes::check_relative_path;

const ID_RULE: &str = "must be between 0 and 2147483647, inclusive";

fn check_id(field: &dyn Display, id: Option<i64>, causes: &mut Causes) {
    if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        causes.push(Cause::invalid(field, &id.to_string(), ID_RULE));
    }
}

/// Validates the security context of a pod.
pub(super) fn check_pod(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let at = spec.part("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(&at.field_path(name), at.number(name), causes);
    }
    for group in at.elements("supplementalGroups") {
        check_id(&group.path, group.value.as_i64(), causes);
    }
    if spec.is_true("shareProcessNamespace") && spec.is_true("hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(Cause::invalid(&at.field_path("shareProcessNamespace"), "true", why));
    }
    check_sysctls(spec, &at, causes);
    run(&at, &[Check::OneOf("fsGroupChangePolicy", &["Always", "OnRootMismatch"])], causes);
    check_seccomp(&at.part("seccompProfile"), causes);
    check_windows(&at.part("windowsOptions"), causes);
    check_app_armor(&at.part("appArmorProfile"), causes);
    run(&at, &[Check::OneOf("supplementalGroupsPolicy", &["Merge", "Strict"])], causes);
    let policy = at.text(CHANGE_POLICY);
    if at.get(CHANGE_POLICY).is_some() && !CHANGE_POLICIES.contains(&policy) {
        let supported = if has_change_policy(&at) { CHANGE_POLICIES } else { DEFAULT_CHANGE_POLICIES };
        causes.push(unsupported(&at.field_path(CHANGE_POLICY), policy, supported));
    }
    if spec.old.is_some() {
        check_disabled_change_policy(&at, causes);
    }
}

const CHANGE_POLICY: &str = "seLinuxChangePolicy";
const CHANGE_POLICIES: &[&str] = &["MountOption", "Recursive"];
/// The policies that are supported if the feature gate SELinuxMount is off, as by default.
const DEFAULT_CHANGE_POLICIES: &[&str] = &["Recursive"];

/// Rejects the policy `MountOption` unless the stored object has a `seLinuxChangePolicy`.
pub(super) fn check_disabled_change_policy(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let policy = at.text(CHANGE_POLICY);
    if policy == "MountOption" && !has_change_policy(at) {
        causes.push(unsupported(&at.field_path(CHANGE_POLICY), policy, DEFAULT_CHANGE_POLICIES));
    }
}

/// Returns true if the stored security context has a `seLinuxChangePolicy`.
fn has_change_policy(at: &FieldView<'_, '_>) -> bool {
    at.old.is_some_and(|old| old[CHANGE_POLICY].is_string())
}

const MAX_SYSCTL_BYTES: usize = 253;

fn check_sysctls(spec: &FieldView<'_, '_>, at: &FieldView<'_, '_>, causes: &mut Causes) {
    // An update may keep sysctls that were stored without validation.
    let had_invalid = host::stored(spec).is_some_and(|old| {
        let sysctls = old.items("securityContext.sysctls");
        sysctls.iter().any(|sysctl| {
            let name = sysctl["name"].as_str().unwrap_or_default();
            host::sysctl_problem(&old, name).is_some()
        })
    });
    let mut seen = HashSet::new();
    for sysctl in at.elements("sysctls") {
        let (field, name) = (sysctl.field_path("name"), sysctl.text("name"));
        if name.is_empty() {
            causes.push(required(&field, ""));
        } else if !is_sysctl(name) {
            let why = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.push(Cause::invalid(&field, &format!("{name:?}"), why));
        } else if !seen.insert(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        }
        let why = host::sysctl_problem(spec, name).filter(|_| !had_invalid);
        causes.extend(why.map(|why| Cause::invalid(&field, &format!("{name:?}"), why)));
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && part.bytes().last().is_some_and(is_outer)
            && part.bytes().all(|byte| is_outer(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= MAX_SYSCTL_BYTES && name.split(['.', '/']).all(is_part)
}

fn check_seccomp(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if at.value.is_null() {
        return;
    }
    let field = at.field_path("type");
    match at.text("type") {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => causes.push(required(&field, "type is required when seccompProfile is set")),
        other => causes.push(unsupported(&field, other, &["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    let field = at.field_path("localhostProfile");
    let profile = at.get("localhostProfile").and_then(Value::as_str);
    match (at.text("type"), profile) {
        ("Localhost", None) => {
            causes.push(required(&field, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(profile)) => check_relative_path(&field, profile, causes),
        (kind, Some(profile)) => {
            let shown = format!("{{\"Type\":{kind:?},\"LocalhostProfile\":{profile:?}}}");
            causes.push(Cause::invalid(&field, &shown, "can only be set when seccomp type is Localhost"));
        }
        (_, None) => {}
    }
}

const MAX_PROFILE_BYTES: usize = 4_095;

fn check_app_armor(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if at.value.is_null() {
        return;
    }
    let field = at.field_path("localhostProfile");
    let profile = at.get("localhostProfile").and_then(Value::as_str);
    match (at.text("type"), profile) {
        ("Localhost", profile) if profile.is_none_or(str::is_empty) => {
            causes.push(required(&field, "must be set when AppArmor type is Localhost"));
        }
        ("Localhost", Some(profile)) => {
            if profile.trim() != profile {
                let why = "must not be padded with whitespace";
                causes.push(Cause::invalid(&field, &format!("{profile:?}"), why));
            }
            if profile.len() > MAX_PROFILE_BYTES {
                causes.push(Cause::too_long(&field, MAX_PROFILE_BYTES));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(profile)) => {
            let why = "can only be set when AppArmor type is Localhost";
            causes.push(Cause::invalid(&field, &format!("{profile:?}"), why));
        }
        ("Localhost" | "RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            causes.push(required(&at.field_path("type"), "type is required when appArmorProfile is set"));
        }
        (other, _) => {
            let known = ["Localhost", "RuntimeDefault", "Unconfined"];
            causes.push(unsupported(&at.field_path("type"), other, &known));
        }
    }
}

const MAX_CREDENTIAL_SPEC_BYTES: usize = 64 << 10;
const MAX_DOMAIN_BYTES: usize = 256;
const MAX_USER_BYTES: usize = 104;

fn check_windows(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let text = |name: &str| at.get(name).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        NameFormat::Subdomain.check(&at.field_path("gmsaCredentialSpecName"), name, causes);
    }
    let why = match text("gmsaCredentialSpec") {
        Some("") => Some("gmsaCredentialSpec cannot be an empty string".to_owned()),
        Some(spec) if spec.len() > MAX_CREDENTIAL_SPEC_BYTES => {
            Some("gmsaCredentialSpec size must be under 64 KiB".to_owned())
        }
        _ => None,
    };
    let shown = |name: &str| format!("{:?}", text(name).unwrap_or_default());
    causes.extend(
        why.map(|why| {
            Cause::invalid(&at.field_path("gmsaCredentialSpec"), &shown("gmsaCredentialSpec"), &why)
        }),
    );
    let problems = text("runAsUserName").map(user_name_problems).unwrap_or_default();
    causes.extend(
        problems
            .into_iter()
            .map(|why| Cause::invalid(&at.field_path("runAsUserName"), &shown("runAsUserName"), why)),
    );
}

fn user_name_problems(name: &str) -> Vec<&'static str> {
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match *parts {
        _ if name.is_empty() => return vec!["runAsUserName cannot be an empty string"],
        _ if name.bytes().any(|byte| byte.is_ascii_control()) => {
            return vec!["runAsUserName cannot contain control characters"];
        }
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut problems = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN_BYTES) {
        problems.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_domain(domain)) {
        problems.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        problems.push("runAsUserName's User cannot be empty");
    } else if user.len() > MAX_USER_BYTES {
        problems.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|char| matches!(char, '.' | ' ')) {
        problems.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        problems.push(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
    problems
}

/// The maximum length of a NetBIOS name in characters.
const MAX_NETBIOS_CHARS: usize = 15;

fn is_domain(domain: &str) -> bool {
    let is_netbios = !domain.is_empty()
        && domain.chars().count() <= MAX_NETBIOS_CHARS
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
    let is_dns_label = |label: &str| {
        let is_outer = |byte: u8| byte.is_ascii_alphanumeric();
        label.bytes().next().is_some_and(is_outer)
            && label.bytes().last().is_some_and(is_outer)
            && label.bytes().all(|byte| is_outer(byte) || byte == b'-')
    };
    is_netbios || domain.split('.').all(is_dns_label)
}

/// Validates the security context of a container.
pub(super) fn check_container(at: &FieldView<'_, '_>, shares_host_users: bool, causes: &mut Causes) {
    for name in ["runAsUser", "runAsGroup"] {
        check_id(&at.field_path(name), at.number(name), causes);
    }
    match at.get("procMount").and_then(Value::as_str) {
        None | Some("Default") => {}
        Some("Unmasked") if shares_host_users => {
            let why = "`hostUsers` must be false to use `Unmasked`";
            causes.push(Cause::invalid(&at.field_path("procMount"), "\"Unmasked\"", why));
        }
        Some("Unmasked") => {}
        Some(other) => {
            causes.push(unsupported(&at.field_path("procMount"), other, &["Default", "Unmasked"]));
        }
    }
    check_seccomp(&at.part("seccompProfile"), causes);
    if at.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let added = at.items("capabilities.add").iter().any(|capability| capability == "CAP_SYS_ADMIN");
        let reasons = [
            (at.get("privileged") == Some(&Value::Bool(true)), "`privileged` to true"),
            (added, "`capabilities.Add` CAP_SYS_ADMIN"),
        ];
        for (_, other) in reasons.iter().filter(|(holds, _)| *holds) {
            let why = format!("cannot set `allowPrivilegeEscalation` to false and {other}");
            causes.push(Cause::invalid(&at.path, &at.value.to_string(), &why));
        }
    }
    check_windows(&at.part("windowsOptions"), causes);
    check_app_armor(&at.part("appArmorProfile"), causes);
}
