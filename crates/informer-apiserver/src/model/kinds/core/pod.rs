pub(crate) mod defaults;
pub(crate) mod disabled_fields;
mod label_keys;
pub(crate) mod resources;
mod subresources;
mod table;
pub(crate) mod validation;
pub(crate) mod warnings;

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::name_warnings;
use crate::model::quantity::Amount;
use crate::model::rules::Rules;
use crate::model::rules::path::{get, set};
use crate::model::write_options::WriteMode;
use resources::{List, quantity};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "",
    "v1",
    "Pod",
    Traits::SPEC_STATUS_METADATA
        .with(Traits::RETURNS_DELETED)
        .with(Traits::OWN_FIELDS)
        .with(Traits::GRACEFUL),
)
.selectable(&[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
])
.field_aliases(&[("spec.host", "spec.nodeName")])
.bookmark(r#","spec":{"containers":null},"status":{}"#)
.initial_status(r#"{"phase":"Pending"}"#)
.status_reset_fields(&["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"])
.subresources(&[subresources::EPHEMERAL_CONTAINERS, subresources::RESIZE])
.pod_template(&[])
.rules(
    Rules::new(defaults::POD, validation::POD)
        .created(validation::CREATED)
        .changes(validation::CHANGES)
        .status_changes(validation::STATUS_CHANGES),
)
.prepare_for_create(prepare_for_create)
.admit_loaded(add_tolerations)
.admit_update(admit_update)
.warnings(warn)
.status_warnings(warnings::of_status)
.cells(table::cells);

fn prepare_for_create(pod: &mut Value, now: &str, mode: WriteMode) {
    set(pod, "status.qosClass", qos(pod).into());
    add_scheduling_gated_condition(pod, now);
    label_keys::apply(pod, mode);
}

/// Applies the admission plugins Priority and DefaultTolerationSeconds to a Pod update.
fn admit_update(old: &Value, pod: &mut Value) {
    keep_priority(old, pod);
    add_tolerations(pod);
}

fn warn(pod: &Value, old: Option<&Value>) -> Vec<String> {
    match old {
        Some(_) => Vec::new(),
        None => name_warnings(pod, "the Pod's hostname").chain(warnings::of(pod, "")).collect(),
    }
}

/// Seconds for which a Pod stays on an unreachable node, as in the admission plugin DefaultTolerationSeconds.
const TOLERATION_SECONDS: u64 = 300;

pub(crate) const UNREACHABLE_TAINTS: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Copies the priority of the stored Pod if an update omits it.
fn keep_priority(old: &Value, pod: &mut Value) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if let (None, Some(known)) = (get(pod, path), get(old, path)) {
            set(pod, path, known.clone());
        }
    }
}

pub(crate) fn add_tolerations(pod: &mut Value) {
    let given = get(pod, "spec.tolerations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let missing = UNREACHABLE_TAINTS.map(|key| {
        let tolerated = given.iter().any(|toleration| {
            let text = |name: &str| toleration[name].as_str().unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "" | "NoExecute")
        });
        (!tolerated).then_some(key)
    });
    let missing = missing.into_iter().flatten().map(|key| {
        json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
        })
    });
    if get(pod, "spec.tolerations").is_none_or(|held| !held.is_array()) {
        set(pod, "spec.tolerations", Value::Array(Vec::new()));
    }
    if let Some(Value::Array(held)) = pod["spec"].get_mut("tolerations") {
        held.extend(missing);
    }
}

fn add_scheduling_gated_condition(pod: &mut Value, now: &str) {
    let list = |path: &str| get(pod, path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has_condition = list("status.conditions").iter().any(|condition| condition["type"] == "PodScheduled");
    if has_condition || list("spec.schedulingGates").is_empty() {
        return;
    }
    let mut conditions = list("status.conditions").to_vec();
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null, "lastTransitionTime": now,
    }));
    set(pod, "status.conditions", conditions.into());
}

/// Returns the quality of service class of a pod, like `ComputePodQOS` of kube-apiserver. The pod-level
/// resources replace those of the containers.
pub(crate) fn qos(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let containers = ["containers", "initContainers"];
    let holders: Vec<&Value> = if spec["resources"].is_object() {
        vec![spec]
    } else {
        containers.iter().flat_map(|list| spec[list].as_array().into_iter().flatten()).collect()
    };
    let (mut requests, mut limits) = (QosAmounts::default(), QosAmounts::default());
    let mut has_all_limits = true;
    for holder in holders {
        has_all_limits &= add_qos_resources(&mut limits, holder, List::Limits) == QOS_RESOURCES.len();
        add_qos_resources(&mut requests, holder, List::Requests);
    }
    match () {
        () if requests == [None; 2] && limits == [None; 2] => "BestEffort",
        () if has_all_limits && requests == limits => "Guaranteed",
        () => "Burstable",
    }
}

/// The resources that decide the quality of service class.
const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The sums of the quantities of [`QOS_RESOURCES`].
type QosAmounts = [Option<Amount>; 2];

/// Adds the positive quantities of a container or a pod to the sums. Returns their number.
fn add_qos_resources(sums: &mut QosAmounts, holder: &Value, list: List) -> usize {
    let list = &holder["resources"][list.name()];
    let mut count = 0;
    for (sum, name) in sums.iter_mut().zip(QOS_RESOURCES) {
        let amount = quantity(&list[name]).filter(|amount| !amount.is_zero() && !amount.is_negative());
        if let Some(amount) = amount {
            *sum = Some(sum.map_or(amount, |sum| sum.plus(amount)));
            count += 1;
        }
    }
    count
}
