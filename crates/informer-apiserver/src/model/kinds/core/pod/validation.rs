//! Validation of Pods and pod templates, mostly in the order of kube-apiserver.

mod affinity;
mod annotations;
mod changes;
mod containers;
mod environment;
mod ephemeral;
mod host;
mod os;
mod probes;
mod projected;
mod resize;
mod resources;
mod security;
mod volumes;

use std::collections::HashSet;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::object_meta::annotation_causes;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_labels, duplicate, is_missing, is_subdomain_with_underscores,
    required, run, unsupported,
};
use crate::model::rules::ranges::check_address;
use crate::model::rules::scheduling::check_toleration;
use crate::model::rules::warnings::has_annotation;

pub(crate) const POD: &[Check] = &[Check::Call(pod)];
pub(crate) const CREATED: &[Check] = &[Check::Call(created)];
pub(crate) const CHANGES: &[Check] = &[Check::Call(changes::check)];
pub(crate) const STATUS_CHANGES: &[Check] = &[Check::Call(changes::check_annotations)];
pub(crate) const EPHEMERAL_CONTAINERS: &[Check] = &[Check::Call(pod), Check::Call(ephemeral::check)];
pub(crate) const RESIZE: &[Check] = &[Check::Call(pod), Check::Call(resize::check)];
const RESTART: &[&str] = &["Always", "OnFailure", "Never"];
const DNS: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

fn pod(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    annotations::check(&at.part("metadata.annotations"), &spec, causes);
    check_spec(&spec, SpecOwner::Pod, causes);
}

fn created(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if !spec.items("ephemeralContainers").is_empty() {
        let why = "cannot be set on create";
        causes.push(Cause::forbidden(&spec.field_path("ephemeralContainers"), why));
    }
    if !spec.items("schedulingGates").is_empty() && !spec.text("nodeName").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden(&spec.field_path("nodeName"), why));
    }
    annotations::check_profiles(&at.part("metadata.annotations"), &spec, causes);
}

pub(crate) fn check_template(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_labels(&at.field_path("labels"), at.get("metadata.labels"), causes);
    let annotations = FieldView { path: at.field_path("annotations"), ..at.part("metadata.annotations") };
    causes.extend(annotation_causes(&annotations.path, at.get("metadata.annotations")));
    let spec = at.part("spec");
    annotations::check(&annotations, &spec, causes);
    check_spec(&spec, SpecOwner::Template, causes);
    annotations::check_profiles(&annotations, &spec, causes);
    if !spec.items("ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        causes.push(Cause::forbidden(&spec.field_path("ephemeralContainers"), why));
    }
}

/// Validates the fields of a new pod spec whose rules depend on feature gates. Objects that the embedding
/// program loads skip it: they may come from clusters with other feature gates.
pub(crate) fn check_disabled_fields(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    security::check_disabled_change_policy(&spec.part("securityContext"), causes);
    host::check_disabled_combinations(spec, causes);
}

/// Returns true if a pod is the mirror of a static pod.
fn is_static(pod: &Value) -> bool {
    has_annotation(pod, annotations::MIRROR)
}

pub(crate) fn shown_labels(at: &FieldView<'_, '_>) -> String {
    match at.get("metadata.labels") {
        Some(labels) if !is_missing(Some(labels)) => labels.to_string(),
        _ => "null".to_owned(),
    }
}

/// The parts of a pod that the rules of its containers need.
struct PodParts<'a> {
    owner: SpecOwner,
    /// The valid volumes by name.
    volumes: volumes::Volumes<'a>,
    /// The names of the resource claims.
    claims: HashSet<&'a str>,
    restart_policy: &'a str,
    grace_period: i64,
    shares_host_users: bool,
    /// Whether a quantity of huge pages must be a multiple of the page size.
    checks_page_size: bool,
}

/// The owner of a pod spec. Some rules apply only to pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpecOwner {
    Pod,
    Template,
}

fn check_spec(at: &FieldView<'_, '_>, owner: SpecOwner, causes: &mut Causes) {
    let pod = PodParts {
        owner,
        volumes: volumes::check(at, owner, causes),
        claims: check_resource_claims(at, causes),
        restart_policy: at.text("restartPolicy"),
        grace_period: at.number("terminationGracePeriodSeconds").unwrap_or_default(),
        shares_host_users: at.get("hostUsers") != Some(&Value::Bool(false)),
        checks_page_size: !resources::had_indivisible_huge_pages(at),
    };
    containers::check(at, &pod, causes);
    resources::check_pod(at, &pod, causes);
    host::check_ports(at, owner, causes);
    run(at, &[Check::OneOf("restartPolicy", RESTART), Check::OneOf("dnsPolicy", DNS)], causes);
    check_labels(&at.field_path("nodeSelector"), at.get("nodeSelector"), causes);
    security::check_pod(at, causes);
    affinity::check(&at.part("affinity"), causes);
    check_dns(at, causes);
    for gate in at.elements("readinessGates") {
        NameFormat::Qualified.check(&gate.field_path("conditionType"), gate.text("conditionType"), causes);
    }
    check_scheduling_gates(at, causes);
    affinity::check_spread_constraints(at, causes);
    host::check_host_process(at, causes);
    host::check_users(at, causes);
    host::check_hostname(at, causes);
    check_names(at, causes);
    for toleration in at.elements("tolerations") {
        check_toleration(&toleration, causes);
    }
    check_host_aliases(at, causes);
    run(at, &[Check::NameFormat("priorityClassName", NameFormat::Subdomain)], causes);
    if at.get("runtimeClassName").is_some() {
        let (field, name) = (at.field_path("runtimeClassName"), at.text("runtimeClassName"));
        NameFormat::Subdomain.check(&field, name, causes);
    }
    match at.get("preemptionPolicy").and_then(Value::as_str) {
        None | Some("Never" | "PreemptLowerPriority") => {}
        Some("") => causes.push(required(&at.field_path("preemptionPolicy"), "")),
        Some(other) => {
            let known = ["Never", "PreemptLowerPriority"];
            causes.push(unsupported(&at.field_path("preemptionPolicy"), other, &known));
        }
    }
    resources::check_overhead(at, &pod, causes);
    os::check(at, causes);
    environment::check_file_volumes(at, causes);
}

/// Returns all containers of a pod in the order in which kube-apiserver visits them.
fn all_containers<'v, 'p>(spec: &'p FieldView<'v, '_>) -> impl Iterator<Item = FieldView<'v, 'p>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.map(|list| spec.elements(list)).into_iter().flatten()
}

/// Validates the resource claims. Returns their names.
fn check_resource_claims<'a>(at: &FieldView<'a, '_>, causes: &mut Causes) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for claim in at.elements("resourceClaims") {
        let (field, name) = (claim.field_path("name"), claim.text("name"));
        if name.is_empty() {
            causes.push(required(&field, ""));
        } else if names.contains(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        } else {
            NameFormat::Label.check(&field, name, causes);
            names.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let why = match sources.iter().filter(|source| claim.get(source).is_some()).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        causes.extend(why.map(|why| Cause::invalid(&claim.path, &claim.value.to_string(), why)));
        for source in sources.into_iter().filter(|source| claim.get(source).is_some()) {
            NameFormat::Subdomain.check(&claim.field_path(source), claim.text(source), causes);
        }
    }
    at.items("resourceClaims").iter().filter_map(|claim| claim["name"].as_str()).collect()
}

/// The limits of the resolver configuration in kube-apiserver.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_BYTES: usize = 2_048;

fn check_dns(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let config = at.part("dnsConfig");
    if at.text("dnsPolicy") == "None" {
        if config.value.is_null() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            return causes.push(required(&config.path, why));
        }
        if config.items("nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return causes.push(required(&config.field_path("nameservers"), why));
        }
    }
    let shown = |list: &str| Value::from(config.items(list)).to_string();
    if config.items("nameservers").len() > MAX_NAMESERVERS {
        let why = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        causes.push(Cause::invalid(&config.field_path("nameservers"), &shown("nameservers"), &why));
    }
    for server in config.elements("nameservers") {
        check_address(&server.path, server.value.as_str().unwrap_or_default(), causes);
    }
    let searches = config.items("searches");
    if searches.len() > MAX_SEARCH_PATHS {
        let why = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        causes.push(Cause::invalid(&config.field_path("searches"), &shown("searches"), &why));
    }
    let bytes: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    if bytes > MAX_SEARCH_BYTES + 1 {
        let why = format!(
            "must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list"
        );
        causes.push(Cause::invalid(&config.field_path("searches"), &shown("searches"), &why));
    }
    for search in config.elements("searches") {
        let text = search.value.as_str().unwrap_or_default();
        let name = text.strip_suffix('.').unwrap_or(text);
        if text != "." && !is_subdomain_with_underscores(name) {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
                       '-' or '.', and must start and end with an alphanumeric character";
            causes.push(Cause::invalid(&search.path, &format!("{name:?}"), why));
        }
    }
    for option in config.elements("options").filter(|option| option.text("name").is_empty()) {
        causes.push(required(&option.path, "must not be empty"));
    }
}

fn check_scheduling_gates(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for gate in at.elements("schedulingGates") {
        let name = gate.text("name");
        NameFormat::Qualified.check(&gate.path, name, causes);
        if !seen.insert(name) {
            causes.push(duplicate(&gate.path, &format!("{name:?}")));
        }
    }
}

/// Validates the names of the service account, the node and the host, and `activeDeadlineSeconds`, in the
/// order of kube-apiserver.
fn check_names(at: &FieldView<'_, '_>, causes: &mut Causes) {
    run(
        at,
        &[
            Check::NameFormat("serviceAccountName", NameFormat::Subdomain),
            Check::NameFormat("nodeName", NameFormat::Subdomain),
        ],
        causes,
    );
    if let Some(seconds) = at.number("activeDeadlineSeconds").filter(|seconds| !is_positive(*seconds)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(&at.field_path("activeDeadlineSeconds"), &seconds.to_string(), why));
    }
    run(
        at,
        &[
            Check::NameFormat("hostname", NameFormat::Label),
            Check::NameFormat("subdomain", NameFormat::Label),
        ],
        causes,
    );
}

fn is_positive(number: i64) -> bool {
    (1..=i64::from(i32::MAX)).contains(&number)
}

fn check_host_aliases(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for alias in at.elements("hostAliases") {
        check_address(&alias.field_path("ip"), alias.text("ip"), causes);
        for name in alias.elements("hostnames") {
            NameFormat::Subdomain.check(&name.path, name.value.as_str().unwrap_or_default(), causes);
        }
    }
}
