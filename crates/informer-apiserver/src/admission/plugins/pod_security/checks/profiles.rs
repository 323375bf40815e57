//! Pod Security checks of AppArmor and seccomp profiles.

use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{containers, plural, quoted, setters, sorted};
use crate::admission::plugins::pod_security::pod::name;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";

pub(in super::super) fn app_armor(pod: &Pod<'_>) -> Option<PodViolation> {
    let own = bad_type(pod.context("appArmorProfile"));
    let of = |container| bad_type(member(container, "appArmorProfile"));
    let bad = pod.bad(|container| of(container).is_some());
    let types = sorted(own.into_iter().chain(pod.containers().filter_map(of)));
    let mut annotations: Vec<_> = pod
        .annotations()
        .filter(|(name, value)| name.starts_with(APP_ARMOR) && !is_harmless(value))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    annotations.sort();
    let noted =
        (!annotations.is_empty()).then(|| plural("annotation", "annotations", annotations.len()).to_owned());
    let who: Vec<_> = setters(own.is_some(), &bad).into_iter().chain(noted).collect();
    let values: Vec<_> = types.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = (!who.is_empty())
        .then(|| format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)));
    PodViolation::about(reason, detail)
}

fn is_harmless(annotation: &str) -> bool {
    annotation.is_empty() || annotation == "runtime/default" || annotation.starts_with("localhost/")
}

/// Checks the seccomp annotations of a pod, which Kubernetes used before the `seccompProfile` fields.
pub(in super::super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<PodViolation> {
    let harmless = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let names = pod.containers().map(|container| format!("{SECCOMP}{}", name(container)));
    let names = std::iter::once(SECCOMP_POD.to_owned()).chain(names);
    let bad = names.filter_map(|name| {
        let value = pod.annotation(&name).filter(|value| !harmless(value))?;
        Some(format!("{name}={value:?}"))
    });
    let bad: Vec<_> = bad.collect();
    let bad: Vec<_> = sorted(bad.iter().map(String::as_str)).into_iter().collect();
    let detail = (!bad.is_empty())
        .then(|| format!("forbidden {} {}", plural("annotation", "annotations", bad.len()), bad.join(", ")));
    PodViolation::about("seccompProfile", detail)
}

pub(in super::super) fn seccomp(pod: &Pod<'_>) -> Option<PodViolation> {
    let own = bad_type(pod.context("seccompProfile"));
    let of = |container| bad_type(member(container, "seccompProfile"));
    let bad = pod.bad(|container| of(container).is_some());
    let types = sorted(own.into_iter().chain(pod.containers().filter_map(of)));
    let detail = setters(own.is_some(), &bad)
        .map(|who| format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(types)));
    PodViolation::about("seccompProfile", detail)
}

pub(in super::super) fn seccomp_set(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad = seccomp(pod);
    if bad.is_some() || pod.context("seccompProfile").is_object() {
        return bad;
    }
    let without = pod.bad(|container| !member(container, "seccompProfile").is_object());
    let detail = (!without.is_empty()).then(|| {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&without)
        )
    });
    PodViolation::about("seccompProfile", detail)
}

pub(in super::super) fn seccomp_set_unless_windows(pod: &Pod<'_>) -> Option<PodViolation> {
    if pod.is_windows() { None } else { seccomp_set(pod) }
}

fn member<'a>(container: &'a Value, name: &str) -> &'a Value {
    &container["securityContext"][name]
}

/// Returns the type of a seccomp or AppArmor profile if Pod Security does not allow it.
fn bad_type(profile: &Value) -> Option<&str> {
    let named = profile.as_object()?.get("type").and_then(Value::as_str).unwrap_or_default();
    (!matches!(named, "RuntimeDefault" | "Localhost")).then_some(named)
}
