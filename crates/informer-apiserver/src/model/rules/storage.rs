//! Defaults of PersistentVolumes, PersistentVolumeClaims, StorageClasses and CSIDrivers.

use super::Rules;
use super::defaults::Default::{self, Fill, In};
use super::small_checks as checks;

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        ("", "PersistentVolume") => Rules::new(PV, checks::PV).changes(checks::PV_CHANGES),
        ("", "PersistentVolumeClaim") => Rules::new(PVC, checks::PVC).changes(checks::PVC_CHANGES),
        ("storage.k8s.io", "StorageClass") => {
            Rules::new(STORAGE_CLASS, checks::STORAGE_CLASS).changes(checks::STORAGE_CLASS_CHANGES)
        }
        ("storage.k8s.io", "CSIDriver") => Rules::new(CSI_DRIVER, &[]),
        _ => return None,
    })
}

const PV: &[Default] = &[
    Fill("status.phase", "\"Pending\""),
    Fill("spec.persistentVolumeReclaimPolicy", "\"Retain\""),
    Fill("spec.volumeMode", "\"Filesystem\""),
    In("spec.hostPath", &[Fill("type", "\"\"")]),
];
const PVC: &[Default] = &[Fill("status.phase", "\"Pending\""), Fill("spec.volumeMode", "\"Filesystem\"")];
const STORAGE_CLASS: &[Default] =
    &[Fill("reclaimPolicy", "\"Delete\""), Fill("volumeBindingMode", "\"Immediate\"")];
const CSI_DRIVER: &[Default] = &[In(
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
