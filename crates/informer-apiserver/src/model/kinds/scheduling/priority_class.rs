use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, check_immutable, run};
use crate::model::rules::defaults::Default::{self, Fill};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::number;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("scheduling.k8s.io", "v1", "PriorityClass", Traits::GENERATION)
        .bookmark(r#","value":0"#)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(&[Check::Call(validate_change)]))
        .cells(cells);

const DEFAULTS: &[Default] = &[Fill("preemptionPolicy", "\"PreemptLowerPriority\"")];

/// The highest value of a PriorityClass that users may create. System classes have higher values.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let system = at.text("metadata.name").starts_with("system-");
    if !system && at.number("value").is_some_and(|value| value > MAX_USER_PRIORITY) {
        let why = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        causes.push(Cause::forbidden("value", &why));
    }
    run(at, &[Check::OneOf("preemptionPolicy", &["PreemptLowerPriority", "Never"])], causes);
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if at.old.is_some_and(|old| old["value"] != at.value["value"]) {
        causes.push(Cause::forbidden("value", "may not be changed in an update."));
    }
    check_immutable(at, "preemptionPolicy", causes);
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let class = row.object;
    vec![
        row.name(),
        json!(number(&class["value"])),
        json!(class["globalDefault"] == true),
        row.age(),
        json!(text(&class["preemptionPolicy"])),
    ]
}
