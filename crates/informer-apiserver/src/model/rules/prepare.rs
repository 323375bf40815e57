//! The admission plugins of built-in kinds that are on by default, and what kube-apiserver's strategies set
//! in `PrepareForCreate` and `PrepareForUpdate`.

use serde_json::{Map, Value, json};

use crate::model::kinds::Kind;
use crate::model::rules::path::{get, set};

type Object = Map<String, Value>;

/// How long pods stay on unreachable nodes, as in the DefaultTolerationSeconds plugin.
const TOLERATION_SECONDS: u64 = 300;
const UNREACHABLE_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Adds the default tolerations to a Pod. They are added on creation because otherwise the first update would
/// add them and change the pod spec.
pub(crate) fn add_default_tolerations(kind: &Kind, object: &mut Object) {
    if kind.is("", "Pod") {
        with_value(object, add_tolerations);
    }
}

/// Applies the Priority and DefaultTolerationSeconds plugins to an update.
pub(crate) fn apply_update_plugins(kind: &Kind, old: &Value, object: &mut Object) {
    if kind.is("", "Pod") {
        with_value(object, |pod| {
            keep_priority(old, pod);
            add_tolerations(pod);
        });
    }
}

/// Copies the resolved priority from the old Pod if an update omits it.
fn keep_priority(old: &Value, pod: &mut Value) {
    for path in ["spec.priority", "spec.preemptionPolicy"] {
        if let (None, Some(known)) = (get(pod, path), get(old, path)) {
            set(pod, path, known.clone());
        }
    }
}

/// Sets the fields that depend on the object and its uid.
pub(crate) fn prepare_for_create(kind: &Kind, object: &mut Object, now: &str) {
    match (kind.gvr.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => with_value(object, |pod| {
            set(pod, "status.qosClass", qos(pod).into());
            add_scheduling_gated_condition(pod, now);
        }),
        ("", "PersistentVolume") => {
            with_value(object, |volume| set(volume, "status.lastPhaseTransitionTime", now.into()));
        }
        ("batch", "Job") => with_value(object, generate_job_selector),
        ("apps", "DaemonSet") => with_value(object, |set| template_generation(set, 1)),
        _ => {}
    }
    encode_empty_lists_as_null(kind, object);
}

/// kube-apiserver stores empty lists of these fields as null.
fn encode_empty_lists_as_null(kind: &Kind, object: &mut Object) {
    let list = match (kind.gvr.group.as_str(), kind.kind.as_str()) {
        ("discovery.k8s.io", "EndpointSlice") => "endpoints",
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => "rules",
        _ => return,
    };
    if crate::model::rules::checks::is_missing(object.get(list)) {
        object.insert(list.to_owned(), Value::Null);
    }
}

/// Sets the fields that depend on the change.
pub(crate) fn prepare_for_update(kind: &Kind, old: &Object, object: &mut Object) {
    if kind.is("apps", "DaemonSet") {
        let old = Value::Object(old.clone());
        let known =
            get(&old, "metadata.annotations").and_then(|all| all[TEMPLATE_GENERATION].as_str()?.parse().ok());
        with_value(object, |set| {
            let changed = old["spec"]["template"] != set["spec"]["template"];
            template_generation(set, known.unwrap_or(1) + i64::from(changed));
        });
    }
    encode_empty_lists_as_null(kind, object);
}

pub(crate) fn with_value(object: &mut Object, change: impl FnOnce(&mut Value)) {
    let mut whole = Value::Object(std::mem::take(object));
    change(&mut whole);
    if let Value::Object(changed) = whole {
        *object = changed;
    }
}

fn template_generation(set: &mut Value, generation: i64) {
    let metadata = &mut set["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
}

/// Adds the tolerations of the DefaultTolerationSeconds plugin.
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

pub(crate) fn add_finalizer(object: &mut Value, name: &str) {
    let mut names = get(object, "metadata.finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !names.iter().any(|known| known == name) {
        names.push(name.into());
        set(object, "metadata.finalizers", names.into());
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

/// Generates the selector of a Job from its uid, unless `manualSelector` is set.
fn generate_job_selector(job: &mut Value) {
    if get(job, "spec.manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let none = crate::model::rules::checks::is_missing(get(job, "metadata.labels"));
    for (label, value) in labels {
        let template = &mut job["spec"]["template"]["metadata"]["labels"];
        if !template.is_object() {
            *template = json!({});
        }
        template[label] = value.clone();
    }
    if none {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
}

/// Adds the condition `PodScheduled=False` to a Pod with scheduling gates.
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

/// Returns the QoS class of a Pod.
pub(crate) fn qos(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"];
    let all = || containers.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let asks = |container: &Value, list: &str, name: &str| container["resources"][list].get(name).cloned();
    let counted = ["cpu", "memory"];
    let any = all().any(|container| {
        counted
            .iter()
            .any(|name| asks(container, "limits", name).or(asks(container, "requests", name)).is_some())
    });
    let sure = all().all(|container| {
        counted.iter().all(|name| {
            let limit = asks(container, "limits", name);
            limit.is_some() && limit == asks(container, "requests", name)
        })
    });
    match (any, sure) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
