//! The kinds of the group `apiregistration.k8s.io`.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static API_SERVICE: KindDescriptor =
    KindDescriptor::new("apiregistration.k8s.io", "v1", "APIService", Traits::STATUS)
        .bookmark(r#","spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#);
