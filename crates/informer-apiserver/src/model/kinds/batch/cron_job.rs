use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::batch::job::{spec_warnings, validate_spec};
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{changed, container_cells, pod_name_warnings, selector_cell};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, not_negative, required, run};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, age, or, size};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("batch", "v1", "CronJob", Traits::SPEC_STATUS)
        .pod_template(&["spec", "jobTemplate", "spec", "template"])
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]))
        .warnings(warn)
        .cells(cells);

const DEFAULTS: &[Default] = &[In(
    "spec",
    &[
        Fill("concurrencyPolicy", "\"Allow\""),
        Fill("suspend", "false"),
        Fill("successfulJobsHistoryLimit", "3"),
        Fill("failedJobsHistoryLimit", "1"),
        In("jobTemplate.spec.template", TEMPLATE),
    ],
)];

fn validate(at: &FieldView<'_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let schedule = spec.text("schedule");
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    match fields.len() {
        0 => causes.push(required(&spec.field_path("schedule"), "")),
        5 => {}
        1 if schedule.starts_with('@') => {}
        count => {
            let why = format!("expected exactly 5 fields, found {count}: [{}]", fields.join(" "));
            causes.push(Cause::invalid(&spec.field_path("schedule"), &format!("{schedule:?}"), &why));
        }
    }
    not_negative(&spec, &["startingDeadlineSeconds"], causes);
    run(&spec, &[Check::OneOf("concurrencyPolicy", &["Allow", "Forbid", "Replace"])], causes);
    validate_spec(&spec.part("jobTemplate.spec"), causes);
    not_negative(&spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], causes);
}

fn warn(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut all: Vec<String> = pod_name_warnings(object, old).collect();
    if changed(object, old) {
        all.extend(spec_warnings(object, "spec.jobTemplate.spec"));
    }
    if old.is_some() && text(&object["spec"]["schedule"]).contains("TZ") {
        all.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    all
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    let job = &spec["jobTemplate"]["spec"];
    let last = &status["lastScheduleTime"];
    let mut cells = vec![
        row.name(),
        json!(text(&spec["schedule"])),
        json!(or(&spec["timeZone"], NONE)),
        json!(spec["suspend"] == true),
        json!(size(&status["active"])),
        json!(if last.is_string() { age(last, row.now) } else { NONE.to_owned() }),
        row.age(),
    ];
    cells.extend(container_cells(&job["template"]["spec"]));
    cells.push(selector_cell(&job["selector"]));
    cells
}
