use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::cause::Causes;
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::deprecated_label;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_immutable, duplicate, required, run};
use crate::model::rules::defaults::Default::{self, Fill};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("storage.k8s.io", "v1", "StorageClass", Traits::RETURNS_DELETED)
        .with_traits(Traits::REVALIDATES_METADATA)
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

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let provisioner = at.text("provisioner");
    if provisioner.is_empty() {
        causes.push(required(&"provisioner", ""));
    } else {
        NameFormat::Qualified.check(&"provisioner", &provisioner.to_lowercase(), causes);
    }
    let policies = &[
        Check::OneOf("reclaimPolicy", &["Delete", "Retain"]),
        Check::OneOf("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ];
    run(at, policies, causes);
    check_topologies(at.items("allowedTopologies"), causes);
}

fn check_topologies(topologies: &[Value], causes: &mut Causes) {
    let mut earlier: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (index, term) in topologies.iter().enumerate() {
        if causes.is_full() {
            return;
        }
        let path = format!("allowedTopologies[{index}].matchLabelExpressions");
        let mut expressions = BTreeMap::new();
        for (index, expression) in list(&term["matchLabelExpressions"]).enumerate() {
            let path = format!("{path}[{index}]");
            let (key, mut values) = (text(&expression["key"]), BTreeSet::new());
            if list(&expression["values"]).next().is_none() {
                causes.push(required(&format!("{path}.values"), ""));
            }
            for (index, value) in list(&expression["values"]).map(text).enumerate() {
                if !values.insert(value) {
                    causes.push(duplicate(&format!("{path}.values[{index}]"), &format!("{value:?}")));
                }
            }
            NameFormat::Qualified.check(&format!("{path}.key"), key, causes);
            if expressions.insert(key, values).is_some() {
                causes.push(duplicate(&format!("{path}.key"), &format!("{key:?}")));
            }
        }
        // kube-apiserver compares with the terms before this one, and with an empty one for each term.
        let empty = if expressions.is_empty() { topologies.len() } else { 0 };
        let same = earlier.iter().filter(|earlier| **earlier == expressions).count();
        causes.extend((0..empty + same).map(|_| duplicate(&path, "\"\"")));
        earlier.push(expressions);
    }
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
