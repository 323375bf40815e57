//! The kinds of the group `storage.k8s.io`.

pub(crate) mod csi_driver;
pub(crate) mod storage_class;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static CSI_NODE: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "CSINode", Traits::NONE)
        .bookmark(r#","spec":{"drivers":null}"#);

pub(crate) static VOLUME_ATTACHMENT: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "VolumeAttachment", Traits::STATUS)
        .initial_status(r#"{"attached":false}"#)
        .status_reset_fields(&["metadata", "spec"]);
