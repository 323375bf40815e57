//! Warnings about Pods and pod templates.

mod ports;
pub(crate) mod volumes;

use std::collections::HashSet;

use serde_json::Value;

use crate::model::labels::label_value_problems;
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::warnings::{
    address_warnings, fraction, fractions, has_annotation, item_address_warnings, list, text, value_warnings,
};

/// Annotations of Pods that have no effect any more, with the field that replaces each.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_IS_OLD: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR_OF_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// The container lists of a pod spec with their paths, in the order in which kube-apiserver reports their
/// warnings.
const CONTAINERS: [(&str, &str); 3] = [
    ("initContainers", "spec.initContainers"),
    ("containers", "spec.containers"),
    ("ephemeralContainers", "spec.ephemeralContainers"),
];

pub(crate) fn deprecated_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

pub(crate) fn of_template(object: &Value, at: &str) -> Vec<String> {
    let template = at.split('.').fold(object, |value, name| &value[name]);
    of(template, &format!("{at}."))
}

/// Returns the warnings for a Pod, or for the pod template at the path `at`, which must end with a dot.
pub(crate) fn of(pod: &Value, at: &str) -> Vec<String> {
    let spec = &pod["spec"];
    let mut warnings = scheduling_labels(spec, at);
    let annotations = |name: &str| format!("{at}metadata.annotations[{name}]");
    let old = DEPRECATED_ANNOTATIONS.iter().filter(|(name, _)| has_annotation(pod, name));
    warnings.extend(old.map(|(name, why)| format!("{}: {why}", annotations(name))));
    warnings.extend(volumes::warnings(spec, at));
    warnings.extend(duplicates(spec, at));
    let overhead = &spec["overhead"];
    warnings.extend(
        ["memory", "ephemeral-storage"]
            .iter()
            .filter_map(|name| fraction(&overhead[name], || format!("{at}spec.overhead[{name}]"))),
    );
    if has_annotation(pod, SECCOMP) && spec["securityContext"]["seccompProfile"].is_null() {
        warnings.push(format!("{}: {SECCOMP_IS_OLD}", annotations(SECCOMP)));
    }
    let template = FieldPath::new(at.trim_end_matches('.'));
    let all: Vec<(FieldPath<'_>, &Value)> = containers(spec, &template).collect();
    all.iter().for_each(|(path, one)| warnings.extend(container(pod, one, (at, path))));
    warnings.extend(ports::of(&all));
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{at}spec.terminationGracePeriodSeconds: {why}"));
    }
    warnings.extend(affinity_terms(spec, at));
    warnings.extend(addresses(spec, at));
    warnings
}

/// Returns the containers of a pod spec with their paths. `at` is the path of the pod or the pod template.
fn containers<'a>(
    spec: &'a Value,
    at: &'a FieldPath<'a>,
) -> impl Iterator<Item = (FieldPath<'a>, &'a Value)> {
    CONTAINERS.into_iter().flat_map(move |(which, path)| {
        list(&spec[which]).enumerate().map(move |(index, one)| (at.field(path).index(index), one))
    })
}

fn scheduling_labels(spec: &Value, at: &str) -> Vec<String> {
    let selected = spec["nodeSelector"].as_object().into_iter().flatten();
    let selected = selected.filter_map(|(label, _)| {
        Some(format!("{at}spec.nodeSelector[{label}]: {}", deprecated_label(label)?))
    });
    let mut warnings: Vec<String> = selected.collect();
    warnings.extend(node_affinity(&spec["affinity"]["nodeAffinity"], at));
    for (index, spread) in list(&spec["topologySpreadConstraints"]).enumerate() {
        let (path, key) =
            (format!("{at}spec.topologySpreadConstraints[{index}]"), text(&spread["topologyKey"]));
        warnings.extend(deprecated_label(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
        if spread["labelSelector"].is_null() {
            warnings.push(format!("{path}.labelSelector: {NO_SELECTOR}"));
        }
    }
    warnings
}

fn node_affinity(affinity: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if affinity.is_null() {
        return warnings;
    }
    let path = format!("{at}spec.affinity.nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(&affinity[required]["nodeSelectorTerms"]).enumerate() {
        warnings.extend(node_term(term, false, &format!("{path}.{required}.nodeSelectorTerms[{index}]")));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(&affinity[preferred]).enumerate() {
        let path = format!("{path}.{preferred}[{index}].preference");
        warnings.extend(node_term(&term["preference"], true, &path));
    }
    warnings
}

/// Returns the warnings for deprecated labels in a node selector term. With `values` it also warns about
/// invalid label values, which validation accepts there.
pub(crate) fn node_term(term: &Value, values: bool, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, expression) in list(&term["matchExpressions"]).enumerate() {
        let (path, key) = (format!("{at}.matchExpressions[{index}]"), text(&expression["key"]));
        warnings.extend(deprecated_label(key).map(|why| format!("{path}.key: {key} is {why}")));
        for (place, value) in list(&expression["values"]).map(text).enumerate().filter(|_| values) {
            let wrong = label_value_problems(value);
            warnings
                .extend(wrong.iter().map(|why| format!("{path}.values[{place}]: {value} is invalid, {why}")));
        }
    }
    warnings
}

/// Returns the warnings for duplicate `hostAliases`, and for duplicate or empty `imagePullSecrets`.
fn duplicates(spec: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for (index, value) in list(&spec[which]).map(|item| text(&item[key])).enumerate() {
            if !seen.insert(value) {
                warnings.push(format!("{at}spec.{which}[{index}].{key}: duplicate {key} {value:?}"));
            }
        }
    }
    for (index, secret) in list(&spec["imagePullSecrets"]).enumerate() {
        if text(&secret["name"]).is_empty() {
            warnings.push(format!("{at}spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    warnings
}

fn container(pod: &Value, container: &Value, (at, path): (&str, &FieldPath<'_>)) -> Vec<String> {
    let (name, security) = (text(&container["name"]), &container["securityContext"]);
    let later = fractions(container, path, &["memory", "ephemeral-storage"]).into_iter();
    let later = later.chain(variables(container, path));
    let mut annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let is_profile =
        |name: &String| name.starts_with(SECCOMP_OF_CONTAINER) || name.starts_with(APP_ARMOR_OF_CONTAINER);
    if !annotations.any(|(name, _)| is_profile(name)) {
        return later.collect();
    }
    let mut warnings = Vec::new();
    let seccomp = format!("{SECCOMP_OF_CONTAINER}{name}");
    if has_annotation(pod, &seccomp) && security["seccompProfile"].is_null() {
        warnings.push(format!("{at}metadata.annotations[{seccomp}]: {SECCOMP_IS_OLD}"));
    }
    let armor = format!("{APP_ARMOR_OF_CONTAINER}{name}");
    let given = pod["metadata"]["annotations"].get(&armor).map(text);
    if let Some(given) = given.filter(|_| security["appArmorProfile"].is_null())
        // The server copies this annotation of a Pod to the field that replaces it, so only pod templates
        // cause the warning.
        && !at.is_empty()
        && !is_same_profile(&pod["spec"]["securityContext"]["appArmorProfile"], given)
    {
        let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        warnings.push(format!("{at}metadata.annotations[{armor}]: {why}"));
    }
    warnings.extend(later);
    warnings
}

/// Returns true if an AppArmor profile field has the same meaning as the profile annotation.
fn is_same_profile(profile: &Value, annotation: &str) -> bool {
    let (kind, of) = (text(&profile["type"]), text(&profile["localhostProfile"]));
    match annotation {
        "runtime/default" => kind == "RuntimeDefault",
        "unconfined" => kind == "Unconfined",
        other => other.strip_prefix("localhost/").is_some_and(|local| kind == "Localhost" && of == local),
    }
}

/// Returns the warnings for environment variables that overwrite an earlier variable without referring to its
/// value.
fn variables(container: &Value, path: &FieldPath<'_>) -> Vec<String> {
    let (mut seen, mut warnings) = (HashSet::new(), Vec::new());
    for (index, variable) in list(&container["env"]).enumerate() {
        let name = text(&variable["name"]);
        if seen.insert(name) {
            continue;
        }
        let (itself, value) = (format!("$({name})"), text(&variable["value"]));
        if variable["valueFrom"].is_object() || value == itself || !value.contains(&itself) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
    warnings
}

fn affinity_terms(spec: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for which in ["podAffinity", "podAntiAffinity"] {
        let affinity = &spec["affinity"][which];
        if affinity.is_null() {
            continue;
        }
        let path = format!("{at}spec.affinity.{which}");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in list(&affinity[required]).enumerate() {
            if term["labelSelector"].is_null() {
                warnings.push(format!("{path}.{required}[{index}].labelSelector: {NO_SELECTOR}"));
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, weighted) in list(&affinity[preferred]).enumerate() {
            if weighted["podAffinityTerm"]["labelSelector"].is_null() {
                warnings.push(format!(
                    "{path}.{preferred}[{index}].podAffinityTerm.labelSelector: {NO_SELECTOR}"
                ));
            }
        }
    }
    warnings
}

/// Returns the warnings for IP addresses in unusual notation in a pod spec.
fn addresses(spec: &Value, at: &str) -> Vec<String> {
    let (servers, aliases) = (&spec["dnsConfig"]["nameservers"], &spec["hostAliases"]);
    let mut warnings = Vec::new();
    if !servers.is_null() {
        warnings.extend(value_warnings(
            servers,
            &format!("{at}spec.dnsConfig.nameservers"),
            address_warnings,
        ));
    }
    if !aliases.is_null() {
        warnings.extend(item_address_warnings(aliases, "ip", &format!("{at}spec.hostAliases")));
    }
    warnings
}

pub(crate) fn of_status(pod: &Value) -> Vec<String> {
    let mut warnings = item_address_warnings(&pod["status"]["podIPs"], "ip", "status.podIPs");
    warnings.extend(item_address_warnings(&pod["status"]["hostIPs"], "ip", "status.hostIPs"));
    warnings
}
