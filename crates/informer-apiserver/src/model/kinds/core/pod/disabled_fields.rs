//! Drops the fields of pods and pod templates that are disabled by default in kube-apiserver 1.36.
//!
//! An update of an object that has such a field may keep and change it.

use serde_json::Value;

use crate::model::rules::path::{each_mut, get};
use crate::model::rules::warnings::list;

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const CONTAINER_PATHS: [&str; 3] = ["containers[]", "initContainers[]", "ephemeralContainers[]"];

/// The sources of projected volumes that are disabled by default. The feature gates are
/// ClusterTrustBundleProjection and PodCertificateRequest.
const PROJECTIONS: [&str; 2] = ["clusterTrustBundle", "podCertificate"];

/// Drops the disabled fields of a pod spec. `old` is the stored spec if the write is an update.
pub(crate) fn drop_disabled_fields(spec: &mut Value, old: Option<&Value>) {
    for source in PROJECTIONS {
        if !old.is_some_and(|old| has_projection(old, source)) {
            each_mut(spec, "volumes[].projected.sources[]", &mut |part| remove_member(part, source));
        }
    }
    if !old.is_some_and(has_stop_signal) {
        CONTAINER_PATHS.iter().for_each(|path| drop_stop_signals(spec, path));
    }
    // The feature gate is GenericWorkload.
    if old.is_none_or(|old| get(old, "schedulingGroup").is_none()) {
        remove_member(spec, "schedulingGroup");
    }
}

fn has_projection(spec: &Value, source: &str) -> bool {
    let mut sources = list(&spec["volumes"]).flat_map(|volume| list(&volume["projected"]["sources"]));
    sources.any(|given| get(given, source).is_some())
}

fn has_stop_signal(spec: &Value) -> bool {
    let mut containers = CONTAINERS.iter().flat_map(|name| list(&spec[name]));
    containers.any(|container| get(container, "lifecycle.stopSignal").is_some())
}

fn remove_member(value: &mut Value, name: &str) {
    if let Some(members) = value.as_object_mut() {
        members.remove(name);
    }
}

/// Removes the stop signals of containers, and the lifecycles that contain nothing else. The feature gate is
/// ContainerStopSignals.
fn drop_stop_signals(spec: &mut Value, path: &str) {
    each_mut(spec, path, &mut |container| {
        let Some(container) = container.as_object_mut() else { return };
        let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else { return };
        if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
            container.remove("lifecycle");
        }
    });
}
