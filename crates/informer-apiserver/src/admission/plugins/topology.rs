//! The `PodTopologyLabels` plugin: copies the region and zone labels of a node to the pods on it.

use informer_core::Gvr;
use serde_json::{Value, json};

use super::{AdmissionPlugin, NewObject, part};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::Object;

const COPIED_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub(super) struct PodTopologyLabels;

impl AdmissionPlugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") {
            admission.add_topology_labels(write.object);
        }
        Ok(())
    }
}

impl Admission {
    /// Adds the topology labels to a pod that is created with a `nodeName`.
    fn add_topology_labels(&self, pod: &mut Object) {
        let Some(node) = part(pod, "spec")["nodeName"].as_str().filter(|node| !node.is_empty()) else {
            return;
        };
        let labels = self.topology_of(node);
        if !labels.is_empty() {
            add_labels(pod.entry("metadata").or_insert(Value::Null), labels);
        }
    }

    /// Adds the topology labels to a Binding, from which the pod takes them when it is bound to the node.
    pub(crate) fn label_binding(&self, binding: &mut Value) {
        if binding["target"]["kind"] != "Node" {
            return;
        }
        let labels = self.topology_of(binding["target"]["name"].as_str().unwrap_or_default());
        if !labels.is_empty() {
            add_labels(&mut binding["metadata"], labels);
        }
    }

    fn topology_of(&self, node: &str) -> Vec<(&'static str, String)> {
        let Ok(nodes) = self.resource(&Gvr::new("", "v1", "nodes")) else { return Vec::new() };
        let Some(node) = self.storage.read().get(nodes.table, node).cloned() else { return Vec::new() };
        COPIED_LABELS.into_iter().filter_map(|name| Some((name, node.labels.get(name)?.to_owned()))).collect()
    }
}

fn add_labels(metadata: &mut Value, labels: Vec<(&str, String)>) {
    let existing = &mut metadata["labels"];
    if !existing.is_object() {
        *existing = json!({});
    }
    for (name, value) in labels {
        existing[name] = value.into();
    }
}
