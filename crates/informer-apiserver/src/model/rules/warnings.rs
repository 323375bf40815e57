//! API warnings: problems of valid objects that kube-apiserver reports in `Warning` headers.

mod addresses;
mod pods;
mod ports;
mod secrets;
mod volumes;

use serde_json::Value;

use super::checks::label_problems;
use crate::model::kinds::Kind;
use crate::model::quantity::Amount;
use crate::model::write_options::WriteMode;
use pods::of_template;

/// Indexed Jobs above both limits may lose track of completed indexes.
const COMPLETIONS: i64 = 100_000;
const PARALLELISM: i64 = 10_000;
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the warnings for a write of a valid object. `old` is the existing object of an update.
pub(crate) fn object_warnings(
    kind: &Kind,
    object: &Value,
    old: Option<&Value>,
    mode: WriteMode,
) -> Vec<String> {
    if kind.is_custom() {
        return Vec::new();
    }
    let name = (kind.gvr.group.as_str(), kind.kind.as_str());
    match mode {
        WriteMode::Main => of_whole(name, object, old),
        WriteMode::Status => of_status(name, object),
        WriteMode::Finalize | WriteMode::Scale | WriteMode::Whole | WriteMode::Raw => Vec::new(),
    }
}

fn of_whole(kind: (&str, &str), object: &Value, old: Option<&Value>) -> Vec<String> {
    match kind {
        ("", "Pod") if old.is_some() => Vec::new(),
        ("", "Pod") => name_warnings(object, "the Pod's hostname").chain(pods::of(object, "")).collect(),
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") => {
            let template = changed(object, old).then(|| of_template(object, "spec.template"));
            pod_name_warnings(object, old).chain(template.into_iter().flatten()).collect()
        }
        ("apps", "StatefulSet") => stateful_set(object, old),
        ("apps", "DaemonSet") => {
            let changed = old.is_none_or(|old| old["spec"]["template"] != object["spec"]["template"]);
            if changed { of_template(object, "spec.template") } else { Vec::new() }
        }
        ("batch", "Job") => {
            let job = changed(object, old).then(|| job(object, "spec"));
            pod_name_warnings(object, old).chain(job.into_iter().flatten()).collect()
        }
        ("batch", "CronJob") => cron_job(object, old),
        ("", "PodTemplate") if old.is_none() => of_template(object, "template"),
        ("", "Service") => addresses::of_service(object),
        ("", "PersistentVolume") => volumes::of_persistent(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Secret") => secrets::of(object),
        ("", "ServiceAccount") => account(object, old),
        ("", "Node") => addresses::of_node(object),
        ("", "Endpoints") => addresses::of_endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => addresses::of_slice(object, old.is_none()),
        ("networking.k8s.io", "Ingress") if old.is_none() => ingress(object),
        ("networking.k8s.io", "NetworkPolicy") => addresses::of_network_policy(object),
        ("storage.k8s.io", "StorageClass") => volumes::of_class(object),
        ("storage.k8s.io", "CSIDriver") => volumes::of_driver(object, old),
        ("node.k8s.io", "RuntimeClass") => pods::of_runtime_class(object),
        _ => Vec::new(),
    }
}

fn of_status(kind: (&str, &str), object: &Value) -> Vec<String> {
    match kind {
        ("", "Pod") => addresses::of_pod_status(object),
        ("", "Service") | ("networking.k8s.io", "Ingress") => addresses::of_balancer(object),
        _ => Vec::new(),
    }
}

/// Returns true for a new object or a changed generation.
fn changed(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| old["metadata"]["generation"] != object["metadata"]["generation"])
}

fn pod_name_warnings(object: &Value, old: Option<&Value>) -> impl Iterator<Item = String> {
    let warnings = old.is_none().then(|| name_warnings(object, "Pod names and hostnames"));
    warnings.into_iter().flatten()
}

/// Returns a warning if the object's name is not a DNS label.
fn name_warnings(object: &Value, used_in: &str) -> impl Iterator<Item = String> + use<> {
    let name = text(&object["metadata"]["name"]);
    let why = label_problems(name);
    let warnings = (!why.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            why.join(" ")
        )
    });
    warnings.into_iter()
}

fn stateful_set(object: &Value, old: Option<&Value>) -> Vec<String> {
    let template = changed(object, old).then(|| of_template(object, "spec.template"));
    let mut all = template.unwrap_or_default();
    for (index, claim) in list(&object["spec"]["volumeClaimTemplates"]).enumerate() {
        // On update kube-apiserver reports another path.
        let end = if old.is_some() { ".Spec" } else { "" };
        all.extend(fractions(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{index}]{end}"),
            &["storage"],
        ));
    }
    if object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        all.push(format!("spec.revisionHistoryLimit: {why}"));
    }
    all
}

fn job(job: &Value, at: &str) -> Vec<String> {
    let spec = at.split('.').fold(job, |value, name| &value[name]);
    let number = |name: &str| spec[name].as_i64().unwrap_or_default();
    let huge = spec["completionMode"] == "Indexed"
        && number("completions") > COMPLETIONS
        && number("parallelism") > PARALLELISM;
    let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
               Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
    let huge = huge.then(|| format!("{at}: {why}"));
    huge.into_iter().chain(of_template(job, &format!("{at}.template"))).collect()
}

fn cron_job(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut all: Vec<String> = pod_name_warnings(object, old).collect();
    if changed(object, old) {
        all.extend(job(object, "spec.jobTemplate.spec"));
    }
    if old.is_some() && text(&object["spec"]["schedule"]).contains("TZ") {
        all.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    all
}

fn claim(claim: &Value) -> Vec<String> {
    let annotated = has_annotation(claim, CLASS_ANNOTATION)
        .then(|| format!("metadata.annotations[{CLASS_ANNOTATION}]: {}", volumes::CLASS_ANNOTATION_IS_OLD));
    annotated.into_iter().chain(fractions(&claim["spec"], "spec", &["storage"])).collect()
}

fn account(account: &Value, old: Option<&Value>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    if !has_annotation(account, ANNOTATION) || old.is_some_and(|old| has_annotation(old, ANNOTATION)) {
        return Vec::new();
    }
    let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    vec![format!("metadata.annotations[{ANNOTATION}]: {why}")]
}

fn ingress(ingress: &Value) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let old_way = has_annotation(ingress, ANNOTATION) && ingress["spec"]["ingressClassName"].is_null();
    let warning =
        format!("annotation {ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead");
    old_way.then_some(warning).into_iter().collect()
}

/// Warns of fractional byte quantities in requests and limits. kube-apiserver checks storage requests first,
/// but memory limits first.
fn fractions(spec: &Value, at: &str, names: &[&str]) -> Vec<String> {
    let lists = if names == ["storage"] { ["requests", "limits"] } else { ["limits", "requests"] };
    let resources = &spec["resources"];
    if !resources.is_object() {
        return Vec::new();
    }
    let each = names.iter().flat_map(|name| lists.map(|list| (list, *name)));
    let warnings = each.filter_map(|(list, name)| {
        fraction(&resources[list][name], || format!("{at}.resources.{list}[{name}]"))
    });
    warnings.collect()
}

/// Warns of a fractional byte quantity. The path is a closure because most quantities need no warning.
fn fraction(amount: &Value, at: impl FnOnce() -> String) -> Option<String> {
    let amount = Amount::read(amount.as_str()?)?;
    (amount.thousandths() % 1000 != 0).then(|| {
        format!("{}: fractional byte value {:?} is invalid, must be an integer", at(), amount.text())
    })
}

fn has_annotation(object: &Value, name: &str) -> bool {
    object["metadata"]["annotations"].get(name).is_some()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
