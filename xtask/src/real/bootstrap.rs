//! Records the objects that kube-apiserver creates when it starts, for the embedded API server.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::cluster::{Cluster, RealError};

/// The file to which the objects are written. It is compiled into the embedded API server, which creates
/// these objects when it starts.
const OBJECTS: &str = "crates/informer-apiserver/src/server/bootstrap/objects.txt";
/// The recorded resources, in the order in which the embedded API server creates their objects.
const RESOURCES: [&str; 10] = [
    "scheduling.k8s.io/v1/priorityclasses",
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "networking.k8s.io/v1/servicecidrs",
    "v1/services",
    "apiregistration.k8s.io/v1/apiservices",
    "rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1/clusterrolebindings",
    "rbac.authorization.k8s.io/v1/roles",
    "rbac.authorization.k8s.io/v1/rolebindings",
];
/// The fields of `metadata` that are not recorded, because the server sets them for each new object.
const SERVER_FIELDS: [&str; 5] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"];
/// The value that replaces `lastTransitionTime` in each recorded condition, so that every recording is equal.
const TIME: &str = "2000-01-01T00:00:00Z";
/// The value that replaces `targetPort` of recorded Services: kube-apiserver's default port. The recorded
/// server listens on a random port, which is the `targetPort` of the Service `kubernetes`.
const PORT: u16 = 6443;

/// Writes the objects that a running kube-apiserver has to the file of the embedded API server. Returns their
/// number.
pub(super) fn record(root: &Path, cluster: &Cluster) -> Result<u32, RealError> {
    let (mut lines, mut count) = (String::new(), 0_u32);
    for resource in RESOURCES {
        let prefix = if resource.starts_with("v1/") { "/api/" } else { "/apis/" };
        let list: Value = cluster.get(&format!("{prefix}{resource}"))?;
        for mut object in list["items"].as_array().cloned().unwrap_or_default() {
            normalize(&mut object);
            let metadata = &object["metadata"];
            let text = |name: &str| metadata[name].as_str().unwrap_or_default();
            let key = format!("{}/{}", text("namespace"), text("name"));
            writeln!(lines, "{resource} {key} {object}").expect("writing to a string does not fail");
            count += 1;
        }
    }
    let path = root.join(OBJECTS);
    std::fs::write(&path, lines).map_err(|source| RealError::File {
        what: "cannot write to",
        path,
        source,
    })?;
    Ok(count)
}

fn normalize(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = TIME.into();
    }
    if object["spec"]["clusterIP"].is_string()
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        port["targetPort"] = PORT.into();
    }
}
