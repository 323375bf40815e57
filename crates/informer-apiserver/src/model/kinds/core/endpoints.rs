//! Endpoints.

use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::In;
use crate::model::rules::defaults::TCP;
use crate::model::rules::warnings::{item_address_warnings, list};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "Endpoints", Traits::UPSERT)
    .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    .rules(Rules::new(&[In("subsets[].ports[]", TCP)], &[]))
    .warnings(|endpoints, _| warn(endpoints));

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

pub(crate) fn warn(endpoints: &Value) -> Vec<String> {
    if endpoints["metadata"]["labels"][MANAGED_BY] == "endpoint-controller" {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, subset) in list(&endpoints["subsets"]).enumerate() {
        for which in ["addresses", "notReadyAddresses"] {
            warnings.extend(item_address_warnings(
                &subset[which],
                "ip",
                &format!("subsets[{index}].{which}"),
            ));
        }
    }
    warnings
}
