use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static CUSTOM_RESOURCE_DEFINITION: KindDescriptor =
    KindDescriptor::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", Traits::SPEC_STATUS);
