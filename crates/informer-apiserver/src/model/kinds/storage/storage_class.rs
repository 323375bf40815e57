use serde_json::{Value, json};

use crate::model::cause::Cause;
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::deprecated_label;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, check_immutable, required, run};
use crate::model::rules::defaults::Default::{self, Fill};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "StorageClass", Traits::RETURNS_DELETED)
        .bookmark(r#","provisioner":"""#)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(UPDATE_CHECKS))
        .warnings(|class, _| warn(class))
        .cells(cells);

const DEFAULTS: &[Default] =
    &[Fill("reclaimPolicy", "\"Delete\""), Fill("volumeBindingMode", "\"Immediate\"")];

pub(crate) const UPDATE_CHECKS: &[Check] = &[Check::Call(|at, causes| {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        check_immutable(at, name, causes);
    }
})];

fn validate(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    if at.text("provisioner").is_empty() {
        causes.push(required("provisioner", ""));
    }
    let policies = &[
        Check::OneOf("reclaimPolicy", &["Delete", "Retain"]),
        Check::OneOf("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ];
    run(at, policies, causes);
}

fn warn(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, topology) in list(&class["allowedTopologies"]).enumerate() {
        for (place, expression) in list(&topology["matchLabelExpressions"]).enumerate() {
            let path = format!("allowedTopologies[{index}].matchLabelExpressions[{place}].key");
            warnings.extend(deprecated_label(text(&expression["key"])).map(|why| format!("{path}: {why}")));
        }
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let class = row.object;
    vec![
        row.name(),
        json!(text(&class["provisioner"])),
        json!(or(&class["reclaimPolicy"], "Delete")),
        json!(or(&class["volumeBindingMode"], UNSET)),
        json!(class["allowVolumeExpansion"] == true),
        row.age(),
    ]
}
