use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, UNSET, joined};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "CSIDriver", Traits::NONE)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(DEFAULTS, &[]))
        .warnings(warn)
        .cells(cells);

const DEFAULTS: &[Default] = &[In(
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

fn warn(driver: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = &driver["spec"];
    let asks = spec["tokenRequests"].as_array().is_some_and(|asked| !asked.is_empty());
    let new = old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
    let why = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
               possible logging of tokens in volume attributes";
    let warnings = asks && new && spec["serviceAccountTokenInSecrets"].is_null();
    warnings.then(|| why.to_owned()).into_iter().collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    let audiences = list(&spec["tokenRequests"]).map(|request| text(&request["audience"]));
    let audiences = if spec["tokenRequests"].is_array() { joined(audiences, "") } else { UNSET.to_owned() };
    vec![
        row.name(),
        json!(spec["attachRequired"] != false),
        json!(spec["podInfoOnMount"] == true),
        json!(spec["storageCapacity"] == true),
        json!(audiences),
        json!(spec["requiresRepublish"] == true),
        json!(joined(list(&spec["volumeLifecycleModes"]).map(text), NONE)),
        row.age(),
    ]
}
