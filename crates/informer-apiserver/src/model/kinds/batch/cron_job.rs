mod schedule;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::batch::job::{spec_warnings, validate_spec};
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{changed, container_cells, pod_name_warnings, selector_cell};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, not_negative, run};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, age, or, size};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("batch", "v1", "CronJob", Traits::SPEC_STATUS)
        .pod_template(&["spec", "jobTemplate", "spec", "template"])
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).created(&[Check::Call(created)]))
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

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    schedule::check(&spec, causes);
    not_negative(&spec, &["startingDeadlineSeconds"], causes);
    schedule::check_time_zone(&spec, causes);
    run(&spec, &[Check::OneOf("concurrencyPolicy", &["Allow", "Forbid", "Replace"])], causes);
    check_job_template(&spec.part("jobTemplate.spec"), causes);
    not_negative(&spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], causes);
}

/// Validates the spec of the Jobs, whose selector is always generated.
fn check_job_template(job: &FieldView<'_, '_>, causes: &mut Causes) {
    validate_spec(job, causes);
    if let Some(selector) = job.get("selector") {
        let why = "`selector` will be auto-generated";
        causes.push(Cause::invalid(&job.field_path("selector"), &selector.to_string(), why));
    }
    if job.is_true("manualSelector") {
        let field = job.field_path("manualSelector");
        causes.push(Cause::not_supported(&field, "true", "\"nil\", \"false\""));
    }
}

/// The maximum length of the name of a CronJob in bytes. The names of its Jobs have a suffix of 11 bytes.
const MAX_NAME_BYTES: usize = 52;

fn created(at: &FieldView<'_, '_>, causes: &mut Causes) {
    schedule::check_without_zone(&at.part("spec"), causes);
    let name = at.text("metadata.name");
    if name.len() > MAX_NAME_BYTES {
        let why = "must be no more than 52 characters";
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), why));
    }
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
