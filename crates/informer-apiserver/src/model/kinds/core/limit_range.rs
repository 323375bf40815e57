use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::Call;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new("", "v1", "LimitRange", Traits::UPSERT)
    .bookmark(r#","spec":{"limits":null}"#)
    .rules(Rules::new(&[Call(limit_range_defaults)], &[]));

/// Sets missing values of a `Container` item: `default` from `max`, and `defaultRequest` from `default` or
/// `min`.
fn limit_range_defaults(range: &mut Value) {
    for item in range["spec"]["limits"].as_array_mut().into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let known = item[from].as_object().cloned().unwrap_or_default();
            for (name, value) in known {
                if item[to].get(&name).is_none() {
                    item[to][name] = value;
                }
            }
        }
    }
}
