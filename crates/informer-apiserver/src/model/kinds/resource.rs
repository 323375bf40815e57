//! The kinds of the group `resource.k8s.io`.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static DEVICE_CLASS: KindDescriptor =
    KindDescriptor::new("resource.k8s.io", "v1", "DeviceClass", Traits::GENERATION);

pub(crate) static RESOURCE_SLICE: KindDescriptor = KindDescriptor::new(
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    Traits::GENERATION.with(Traits::OWN_FIELDS),
)
.selectable(&["spec.nodeName", "spec.driver"]);
