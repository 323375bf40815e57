//! The kinds of the group `flowcontrol.apiserver.k8s.io`.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static FLOW_SCHEMA: KindDescriptor =
    KindDescriptor::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", Traits::SPEC_STATUS);

pub(crate) static PRIORITY_LEVEL_CONFIGURATION: KindDescriptor = KindDescriptor::new(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "PriorityLevelConfiguration",
    Traits::SPEC_STATUS,
);
