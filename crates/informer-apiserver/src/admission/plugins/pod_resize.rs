//! The plugins `NodeDeclaredFeatureValidator` and `PodResizeValidator`: a resize of a pod must be possible on
//! its node.

use informer_core::Gvr;
use serde_json::Value;

use super::{AdmissionPlugin, PendingWrite, part};
use crate::admission::Admission;
use crate::admission::quota::limits::is_pod_level_resource;
use crate::admission::quota::resource_list;
use crate::model::cause::Cause;
use crate::model::error::{ApiError, Details};
use crate::model::json::parse;
use crate::model::kinds::core::pod::resources::{List, containers, total_with_overhead};
use crate::model::quantity::Amount;
use crate::model::write_options::WriteMode;

const POD_LEVEL_RESOURCES: &str = "InPlacePodLevelResourcesVerticalScaling";
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";
const OS: &str = "kubernetes.io/os";

/// Rejects a resize that needs a feature which the node of the pod does not declare. kube-apiserver also
/// checks other updates of pods, but no feature of version 1.36 depends on these.
pub(super) struct NodeDeclaredFeatureValidator;

impl AdmissionPlugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn validates(&self, mode: WriteMode) -> bool {
        mode == WriteMode::Resize
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let Some(resize) = ScheduledResize::of(write) else { return Ok(Vec::new()) };
        let required = resize.required_features();
        if required.is_empty() {
            return Ok(Vec::new());
        }
        let node = resize.find_node(admission)?;
        let declared = node["status"]["declaredFeatures"].as_array().map_or(&[][..], Vec::as_slice);
        let missing: Vec<&str> =
            required.into_iter().filter(|feature| !declared.iter().any(|known| known == feature)).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let (missing, node) = (missing.join(", "), resize.node);
        Err(resize.refuse(&format!(
            "pod update requires features {missing} which are not available on node {node:?}"
        )))
    }
}

/// Rejects a resize on a node that does not run Linux, or that has less CPU or memory than the pod requests.
pub(super) struct PodResizeValidator;

impl AdmissionPlugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn validates(&self, mode: WriteMode) -> bool {
        mode == WriteMode::Resize
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let Some(resize) = ScheduledResize::of(write) else { return Ok(Vec::new()) };
        let node = resize.find_node(admission)?;
        if let Some(os) = node["metadata"]["labels"].get(OS).filter(|os| *os != "linux") {
            let (node, os) = (resize.node, os.as_str().unwrap_or_default());
            let why = format!("pod resize is only supported on linux nodes, node {node:?} is {os:?}");
            return Err(resize.refuse_because(&why, "UnsupportedPlatform"));
        }
        let missing = resize.missing_resources(&node);
        if !missing.is_empty() {
            let why = format!("node didn't have enough allocatable resources: {}", missing.join("; "));
            return Err(resize.refuse_because(&why, "NodeCapacity"));
        }
        Ok(Vec::new())
    }
}

/// A resize of a pod on a node that changes the spec of the pod.
struct ScheduledResize<'a> {
    write: PendingWrite<'a>,
    node: &'a str,
    old: Value,
    new: Value,
}

impl<'a> ScheduledResize<'a> {
    fn of(write: PendingWrite<'a>) -> Option<Self> {
        let node = part(write.object, "spec")["nodeName"].as_str().filter(|node| !node.is_empty())?;
        let old = write.old?;
        // A changed spec increments the generation.
        let generation = |pod| &part(pod, "metadata")["generation"];
        let is_changed = generation(old) != generation(write.object);
        let resize = || Self { write, node, old: old.clone().into(), new: write.object.clone().into() };
        is_changed.then(resize)
    }

    /// Returns the features that the resize needs, in alphabetical order.
    fn required_features(&self) -> Vec<&'static str> {
        let Self { old, new, .. } = self;
        let is_equal = |old: &Value, new: &Value| {
            old["resources"].is_object() == new["resources"].is_object()
                && [List::Requests, List::Limits].iter().all(|list| list.of(old) == list.of(new))
        };
        let mut init_containers = containers(old, "initContainers").zip(containers(new, "initContainers"));
        let resizes_init_container =
            init_containers.any(|(old, new)| old["restartPolicy"] != "Always" && !is_equal(old, new));
        let required = [
            (!is_equal(&old["spec"], &new["spec"])).then_some(POD_LEVEL_RESOURCES),
            resizes_init_container.then_some(INIT_CONTAINERS),
        ];
        required.into_iter().flatten().collect()
    }

    fn find_node(&self, admission: &Admission) -> Result<Value, ApiError> {
        let nodes = admission.resource(&Gvr::new("", "v1", "nodes"))?;
        let found = admission.storage.read().get(nodes.table, self.node).cloned();
        let missing = || self.refuse(&format!("node {:?} not found", self.node));
        found.map(|node| parse(node.as_slice())).ok_or_else(missing)
    }

    /// Describes the resources of which the pod requests more than the node has.
    fn missing_resources(&self, node: &Value) -> Vec<String> {
        let allocatable = resource_list(&node["status"]["allocatable"]);
        let requests = total_with_overhead(&self.new, List::Requests, is_pod_level_resource);
        let missing = ["cpu", "memory"].into_iter().filter_map(|name| {
            let [requested, allocatable] =
                [&requests, &allocatable].map(|list| list.get(name).copied().unwrap_or(Amount::ZERO));
            let number = |amount: Amount| if name == "cpu" { amount.thousandths() } else { amount.whole() };
            (requested > allocatable).then(|| {
                let (requested, allocatable) = (number(requested), number(allocatable));
                format!("{name}, requested: {requested}, allocatable: {allocatable}")
            })
        });
        missing.collect()
    }

    fn refuse(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.write.kind(), self.write.name, why)
    }

    /// Returns the error with a cause that has only a reason.
    fn refuse_because(&self, why: &str, reason: &'static str) -> ApiError {
        let mut error = self.refuse(why);
        let cause = Cause { reason, message: String::new(), field: String::new() };
        error.details.get_or_insert_with(|| Box::new(Details::default())).causes.push(cause);
        error
    }
}
