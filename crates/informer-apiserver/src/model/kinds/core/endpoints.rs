use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::In;
use crate::model::rules::defaults::TCP;
use crate::model::rules::warnings::{item_address_warnings, list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, number};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "Endpoints", Traits::UPSERT)
    .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    .rules(Rules::new(&[In("subsets[].ports[]", TCP)], &[]))
    .warnings(|endpoints, _| warn(endpoints))
    .cells(cells);

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

fn warn(endpoints: &Value) -> Vec<String> {
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

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(endpoints(row.object)), row.age()]
}

fn endpoints(object: &Value) -> String {
    let all: Vec<String> = list(&object["subsets"])
        .flat_map(|subset| {
            list(&subset["addresses"]).flat_map(move |address| {
                list(&subset["ports"])
                    .map(move |port| format!("{}:{}", text(&address["ip"]), number(&port["port"])))
            })
        })
        .collect();
    match all.len() {
        0 => NONE.to_owned(),
        count @ 1..=3 => all[..count].join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}
