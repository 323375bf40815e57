use std::collections::HashSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::UNREACHABLE_TAINTS;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, duplicate, required, unsupported};
use crate::model::rules::defaults::Default::{self, Call};
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::path::{get, set};
use crate::model::rules::ranges::{range, range_problem};
use crate::model::rules::warnings::{list, range_warnings, text, value_warnings};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, UNKNOWN, joined, or};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "",
    "v1",
    "Node",
    Traits::STATUS_METADATA
        .with(Traits::OWN_FIELDS)
        .with(Traits::NO_NAMESPACE_FIELD)
        .with(Traits::STATUS_ON_CREATE),
)
.selectable(&["spec.unschedulable"])
.initial_status(INITIAL_STATUS)
.rules(Rules::new(DEFAULTS, CHECKS).changes(UPDATE_CHECKS).status(STATUS_CHECKS))
.warnings(|node, _| warn(node))
.cells(cells);

const INITIAL_STATUS: &str = r#"{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#;

const DEFAULTS: &[Default] = &[Call(default_allocatable), Call(sync_pod_cidrs)];

fn default_allocatable(node: &mut Value) {
    let capacity = get(node, "status.capacity").cloned();
    if let Some(capacity) = capacity.filter(|_| get(node, "status.allocatable").is_none()) {
        node["status"]["allocatable"] = capacity;
    }
}

/// Synchronizes `podCIDR` and `podCIDRs` of a Node. If they differ, `podCIDR` takes precedence.
fn sync_pod_cidrs(node: &mut Value) {
    let one = get(node, "spec.podCIDR").filter(|one| **one != "").cloned();
    let first = get(node, "spec.podCIDRs").and_then(|all| all.get(0)).cloned();
    match (one, first) {
        (None, Some(first)) => node["spec"]["podCIDR"] = first,
        (Some(one), first) if first.as_ref() != Some(&one) => node["spec"]["podCIDRs"] = json!([one]),
        _ => {}
    }
}

pub(crate) const CHECKS: &[Check] =
    &[Check::Call(taints), Check::Call(check_quantities), Check::Call(check_pod_cidrs)];

// Additional checks of Node updates. kube-apiserver validates the taints twice on update, and reports each
// error twice.
pub(crate) const UPDATE_CHECKS: &[Check] = &[
    Check::Call(addresses),
    Check::Call(check_assigned_fields),
    Check::Call(taints),
    Check::Call(check_external_id),
];

pub(crate) const STATUS_CHECKS: &[Check] = &[Check::Call(check_quantities), Check::Call(addresses)];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn taints(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for (index, taint) in at.items("spec.taints").iter().enumerate() {
        // The error path of a taint begins with `metadata` instead of `spec`, as in kube-apiserver.
        let taint =
            FieldView { value: taint, old: None, path: FieldPath::new("metadata.taints").index(index) };
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        NameFormat::Qualified.check(&taint.field_path("key"), key, causes);
        let problems = crate::model::labels::label_value_problems(value);
        if !problems.is_empty() {
            causes.push(Cause::invalid(
                &taint.field_path("value"),
                &format!("{value:?}"),
                &problems.join(";"),
            ));
        }
        if effect.is_empty() {
            causes.push(required(&taint.field_path("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            causes.push(unsupported(&taint.field_path("effect"), effect, EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let time = taint.get("timeAdded").unwrap_or(&Value::Null);
            let shown =
                format!("{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":{time}}}");
            let mut cause = duplicate(&taint.path, &shown);
            cause.message += ": taints must be unique by key and effect pair";
            causes.push(cause);
        }
    }
}

/// Rejects negative resource quantities of a Node, and fractional quantities of resources that must be
/// integers.
fn check_quantities(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for part in ["status.capacity", "status.allocatable"] {
        for (name, amount) in at.get(part).and_then(Value::as_object).into_iter().flatten() {
            let Some(amount) = amount.as_str() else { continue };
            let Some(billionths) = crate::model::quantity::read(amount) else { continue };
            let mut report = |why| {
                causes.push(Cause::invalid(&format!("{part}.{name}"), &format!("{amount:?}"), why));
            };
            if billionths < 0 {
                report("must be greater than or equal to 0");
            }
            if must_be_integer(name) && (billionths + 999_999).div_euclid(1_000_000) % 1000 != 0 {
                report("must be an integer");
            }
        }
    }
}

/// Returns true if quantities of the resource must be integers, which applies to pods, objects and extended
/// resources.
fn must_be_integer(name: &str) -> bool {
    const COUNTED_RESOURCES: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let own = !name.contains('/') || name.contains("kubernetes.io/") || name.starts_with("requests.");
    COUNTED_RESOURCES.contains(&name) || !own && NameFormat::Qualified.is_valid(&format!("requests.{name}"))
}

/// Validates `podCIDRs` of a Node: at most one for each IP family.
fn check_pod_cidrs(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let field = "spec.podCIDRs";
    let all: Vec<&str> = at.items(field).iter().map(|range| range.as_str().unwrap_or_default()).collect();
    for (index, range) in all.iter().enumerate() {
        if let Some(why) = range_problem(range) {
            causes.push(Cause::invalid(&format!("{field}[{index}]"), &format!("{range:?}"), why));
        }
    }
    if all.len() < 2 {
        return;
    }
    let read: Vec<_> = all.iter().map(|text| range(text)).collect();
    if let Some(index) = read.iter().position(Option::is_none) {
        let why = format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {})", all[index]);
        causes.push(Cause {
            reason: "InternalError",
            message: format!(
                "Internal error: invalid PodCIDRs. failed to check with dual stack with error:{why}"
            ),
            field: field.to_owned(),
        });
    }
    let families: HashSet<bool> = read.iter().flatten().map(|(address, _)| address.is_ipv4()).collect();
    if all.len() > 2 || families.len() < 2 || read.iter().any(Option::is_none) {
        let why = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid(field, &json!(all).to_string(), why));
    }
}

fn addresses(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for (index, address) in at.items("status.addresses").iter().enumerate() {
        let text = |name: &str| address[name].as_str().unwrap_or_default();
        let (kind, address) = (text("type"), text("address"));
        if !seen.insert((kind, address)) {
            let shown = format!("{{\"Type\":{kind:?},\"Address\":{address:?}}}");
            causes.push(duplicate(&format!("status.addresses[{index}]"), &shown));
        }
    }
}

/// Rejects changes of `podCIDRs` and `providerID` of a Node after they were set.
fn check_assigned_fields(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = at.old else { return };
    let (before, now) = (FieldView::root(old, None), at);
    let (had, has) = (before.items("spec.podCIDRs"), now.items("spec.podCIDRs"));
    let why = "node updates may not change podCIDR except from \"\" to valid";
    if !had.is_empty() && had.len() != has.len() {
        causes.push(Cause::forbidden("spec.podCIDRs", why));
    } else {
        let changed = had.iter().zip(has).filter(|(had, has)| had != has);
        causes.extend(changed.map(|_| Cause::forbidden("spec.podCIDRs", why)));
    }
    let provider = before.text("spec.providerID");
    if !provider.is_empty() && provider != now.text("spec.providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.push(Cause::forbidden("spec.providerID", why));
    }
}

fn check_external_id(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let before = at.old.and_then(|old| old["spec"]["externalID"].as_str()).unwrap_or_default();
    if before != at.text("spec.externalID") {
        causes.push(Cause::forbidden("spec.externalID", "may not be updated"));
    }
}

/// Adds the `not-ready` taint, which keeps pods off a new Node until it is marked as ready.
pub(crate) fn taint_new_node(node: &mut Value) {
    let mut taints = get(node, "spec.taints").and_then(Value::as_array).cloned().unwrap_or_default();
    if !taints.iter().any(|taint| taint["key"] == UNREACHABLE_TAINTS[0] && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": UNREACHABLE_TAINTS[0], "effect": "NoSchedule"}));
        set(node, "spec.taints", taints.into());
    }
}

fn warn(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let mut warnings = Vec::new();
    if spec["configSource"].is_object() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings.extend(value_warnings(&spec["podCIDRs"], "spec.podCIDRs", range_warnings));
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    let object = row.object;
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    let ready = list(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut state = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(name, _)| name.strip_prefix(ROLE));
    let address = |kind: &str| {
        let found = list(&status["addresses"]).find(|address| address["type"] == kind);
        found.map_or(NONE, |address| text(&address["address"])).to_owned()
    };
    vec![
        row.name(),
        json!(state),
        json!(joined(roles, NONE)),
        row.age(),
        json!(text(&info["kubeletVersion"])),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(or(&info["osImage"], UNKNOWN)),
        json!(or(&info["kernelVersion"], UNKNOWN)),
        json!(or(&info["containerRuntimeVersion"], UNKNOWN)),
    ]
}
