use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    IMMUTABLE_SELECTOR, SPEC_TEMPLATE, check_selector_of, check_template_of, container_cells, selector_cell,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, check_int_or_percent, is_zero, not_negative, required};
use crate::model::rules::defaults::Default::{self, Call, Fill, In, When};
use crate::model::rules::path::{get, set};
use crate::model::table::TableRow;
use crate::model::table::text::number;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apps", "v1", "DaemonSet", Traits::SPEC_STATUS_METADATA)
        .initial_status(INITIAL_STATUS)
        .pod_template(SPEC_TEMPLATE)
        .rules(
            Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(IMMUTABLE_SELECTOR).status(STATUS_CHECKS),
        )
        .prepare_for_create(|set, _, _| set_template_generation(set, 1))
        .prepare_for_update(prepare_for_update)
        .warnings(warn)
        .cells(cells);

const INITIAL_STATUS: &str =
    r#"{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#;

fn prepare_for_update(old: &Value, set: &mut Value) {
    let known =
        get(old, "metadata.annotations").and_then(|all| all[TEMPLATE_GENERATION].as_str()?.parse().ok());
    let changed = old["spec"]["template"] != set["spec"]["template"];
    set_template_generation(set, known.unwrap_or(1) + i64::from(changed));
}

fn warn(set: &Value, old: Option<&Value>) -> Vec<String> {
    let changed = old.is_none_or(|old| old["spec"]["template"] != set["spec"]["template"]);
    if changed { of_template(set, "spec.template") } else { Vec::new() }
}

const DEFAULTS: &[Default] = &[
    Call(default_template_generation),
    In(
        "spec",
        &[
            Fill("updateStrategy.type", "\"RollingUpdate\""),
            In(
                "updateStrategy",
                &[When(
                    "type",
                    "RollingUpdate",
                    &[Fill("rollingUpdate.maxUnavailable", "1"), Fill("rollingUpdate.maxSurge", "0")],
                )],
            ),
            Fill("revisionHistoryLimit", "10"),
            In("template", TEMPLATE),
        ],
    ),
];

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Stores `spec.templateGeneration` in an annotation, because `apps/v1` does not have the field.
fn default_template_generation(object: &mut Value) {
    let name = TEMPLATE_GENERATION;
    if !object["metadata"]["annotations"].is_object() {
        set(object, "metadata.annotations", json!({}));
    }
    if object["metadata"]["annotations"].get(name).is_none() {
        object["metadata"]["annotations"][name] = "0".into();
    }
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let metadata = &mut set["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
}

const STATUS_CHECKS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    not_negative(&at.part("status"), &counts, causes);
})];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    check_selector_of(&spec, "daemonset", causes);
    check_template_of(&spec, "DaemonSet", causes);
    not_negative(&spec, &["minReadySeconds"], causes);
    let strategy = spec.part("updateStrategy");
    match strategy.text("type") {
        "RollingUpdate" => {
            let rolling = strategy.part("rollingUpdate");
            check_int_or_percent(&rolling, "maxUnavailable", causes);
            check_int_or_percent(&rolling, "maxSurge", causes);
            if is_zero(&rolling, "maxUnavailable") && is_zero(&rolling, "maxSurge") {
                causes
                    .push(required(&rolling.field_path("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
            }
        }
        "OnDelete" => {}
        other => {
            let value = format!("{{\"Type\":{other:?},\"RollingUpdate\":null}}");
            causes.push(Cause::not_supported(&strategy.path, &value, "\"RollingUpdate\", \"OnDelete\""));
        }
    }
    not_negative(&spec, &["revisionHistoryLimit"], causes);
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![row.name()];
    cells.extend(counts.map(|name| json!(number(&status[name]))));
    cells.extend([selector_cell(&spec["template"]["spec"]["nodeSelector"]), row.age()]);
    cells.extend(container_cells(&spec["template"]["spec"]));
    cells.push(selector_cell(&spec["selector"]));
    cells
}
