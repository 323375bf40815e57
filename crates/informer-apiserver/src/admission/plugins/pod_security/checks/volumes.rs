use serde_json::Value;

use super::{Pod, PodViolation};
use crate::admission::plugins::pod_security::messages::{plural, quoted, sorted};
use crate::admission::plugins::pod_security::pod::name;

const ALLOWED_TYPES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const OTHER_TYPES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(in super::super) fn of_the_host(pod: &Pod<'_>) -> Option<PodViolation> {
    let bad: Vec<_> = volumes(pod).filter(|volume| volume["hostPath"].is_object()).map(name).collect();
    PodViolation::about("hostPath volumes", (!bad.is_empty()).then(|| named(&bad)))
}

pub(in super::super) fn restricted(pod: &Pod<'_>) -> Option<PodViolation> {
    let is =
        |volume: &Value, names: &[&'static str]| names.iter().copied().find(|name| volume[*name].is_object());
    let bad: Vec<_> = volumes(pod).filter(|volume| is(volume, &ALLOWED_TYPES).is_none()).collect();
    let types = sorted(bad.iter().map(|volume| is(volume, &OTHER_TYPES).unwrap_or("unknown")));
    let detail = (!bad.is_empty()).then(|| {
        let names: Vec<_> = bad.iter().map(|volume| name(volume)).collect();
        let uses = plural("uses", "use", bad.len());
        let word = plural("restricted volume type", "restricted volume types", types.len());
        format!("{} {uses} {word} {}", named(&names), quoted(types))
    });
    PodViolation::about("restricted volume types", detail)
}

fn volumes<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod.spec("volumes").as_array().into_iter().flatten()
}

fn named(names: &[&str]) -> String {
    format!("{} {}", plural("volume", "volumes", names.len()), quoted(names.iter().copied()))
}
