//! Volumes, claims and storage classes.

use super::Rules;
use super::defaults::Default::{self, Fill, In};
use super::small_checks as checks;

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        ("", "PersistentVolume") => Rules::new(VOLUME, checks::VOLUME).changes(checks::VOLUME_CHANGES),
        ("", "PersistentVolumeClaim") => Rules::new(CLAIM, checks::CLAIM).changes(checks::CLAIM_CHANGES),
        ("storage.k8s.io", "StorageClass") => Rules::new(CLASS, checks::CLASS).changes(checks::CLASS_CHANGES),
        ("storage.k8s.io", "CSIDriver") => Rules::new(DRIVER, &[]),
        _ => return None,
    })
}

const VOLUME: &[Default] = &[
    Fill("status.phase", "\"Pending\""),
    Fill("spec.persistentVolumeReclaimPolicy", "\"Retain\""),
    Fill("spec.volumeMode", "\"Filesystem\""),
    In("spec.hostPath", &[Fill("type", "\"\"")]),
];
const CLAIM: &[Default] = &[Fill("status.phase", "\"Pending\""), Fill("spec.volumeMode", "\"Filesystem\"")];
const CLASS: &[Default] = &[Fill("reclaimPolicy", "\"Delete\""), Fill("volumeBindingMode", "\"Immediate\"")];
const DRIVER: &[Default] = &[In(
    "spec",
    &[
        Fill("attachRequired", "true"),
        Fill("podInfoOnMount", "false"),
        Fill("storageCapacity", "false"),
        Fill("fsGroupPolicy", "\"ReadWriteOnceWithFSType\""),
        Fill("volumeLifecycleModes", "[\"Persistent\"]"),
        Fill("requiresRepublish", "false"),
        Fill("seLinuxMount", "false"),
    ],
)];
