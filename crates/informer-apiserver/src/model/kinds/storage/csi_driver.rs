//! CSIDrivers.

use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{self, Fill, In};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "CSIDriver", Traits::NONE)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(DEFAULTS, &[]))
        .warnings(warn);

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

pub(crate) fn warn(driver: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = &driver["spec"];
    let asks = spec["tokenRequests"].as_array().is_some_and(|asked| !asked.is_empty());
    let new = old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
    let why = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
               possible logging of tokens in volume attributes";
    let warnings = asks && new && spec["serviceAccountTokenInSecrets"].is_null();
    warnings.then(|| why.to_owned()).into_iter().collect()
}
