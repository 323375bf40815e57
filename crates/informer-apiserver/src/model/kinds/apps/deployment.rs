use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    IMMUTABLE_SELECTOR, SPEC_TEMPLATE, check_selected_template, check_selector_of, check_status,
    container_cells, selector_cell, template_warnings,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, check_int_or_percent, is_zero, not_negative};
use crate::model::rules::defaults::Default::{self, Fill, In, When};
use crate::model::table::TableRow;
use crate::model::table::text::number;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "apps",
    "v1",
    "Deployment",
    Traits::SPEC_STATUS_METADATA.with(Traits::ANNOTATIONS_COUNT).with(Traits::STATUS_KEEPS_LABELS),
)
.bookmark(BOOKMARK)
.status_reset_fields(&["spec", "metadata.labels"])
.pod_template(SPEC_TEMPLATE)
.rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(IMMUTABLE_SELECTOR).status(STATUS_CHECKS))
.warnings(template_warnings)
.cells(cells);

const BOOKMARK: &str = r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#;

const DEFAULTS: &[Default] = &[In(
    "spec",
    &[
        Fill("replicas", "1"),
        Fill("strategy.type", "\"RollingUpdate\""),
        In(
            "strategy",
            &[When(
                "type",
                "RollingUpdate",
                &[Fill("rollingUpdate.maxUnavailable", "\"25%\""), Fill("rollingUpdate.maxSurge", "\"25%\"")],
            )],
        ),
        Fill("revisionHistoryLimit", "10"),
        Fill("progressDeadlineSeconds", "600"),
        In("template", TEMPLATE),
    ],
)];

const STATUS_CHECKS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    check_status(at, &["observedGeneration", "replicas"], &counts, causes);
})];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    not_negative(&spec, &["replicas"], causes);
    check_selector_of(&spec, "deployment", causes);
    // kube-apiserver validates the template as that of the ReplicaSets.
    check_selected_template(&spec, "ReplicaSet", ": invalid label selector", causes);
    strategy(&spec.part("strategy"), causes);
    not_negative(&spec, &["minReadySeconds", "revisionHistoryLimit"], causes);
    let ready = spec.number("minReadySeconds").unwrap_or_default();
    if let Some(deadline) = spec.number("progressDeadlineSeconds") {
        not_negative(&spec, &["progressDeadlineSeconds"], causes);
        if deadline <= ready {
            let why = "must be greater than minReadySeconds";
            causes.push(Cause::invalid(
                &spec.field_path("progressDeadlineSeconds"),
                &deadline.to_string(),
                why,
            ));
        }
    }
}

fn strategy(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let rolling = at.get("rollingUpdate");
    match at.text("type") {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden(&at.field_path("rollingUpdate"), why));
        }
        "RollingUpdate" => {
            let rolling = at.part("rollingUpdate");
            check_int_or_percent(&rolling, "maxUnavailable", causes);
            check_int_or_percent(&rolling, "maxSurge", causes);
            if is_zero(&rolling, "maxUnavailable") && is_zero(&rolling, "maxSurge") {
                let why = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid(&rolling.field_path("maxUnavailable"), "0", why));
            }
        }
        "Recreate" => {}
        other => {
            let value = format!("{{\"Type\":{other:?},\"RollingUpdate\":null}}");
            causes.push(Cause::not_supported(&at.path, &value, "\"Recreate\", \"RollingUpdate\""));
        }
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let mut cells = vec![
        row.name(),
        json!(format!("{}/{replicas}", number(&status["readyReplicas"]))),
        json!(number(&status["updatedReplicas"])),
        json!(number(&status["availableReplicas"])),
        row.age(),
    ];
    cells.extend(container_cells(&spec["template"]["spec"]));
    cells.push(selector_cell(&spec["selector"]));
    cells
}
