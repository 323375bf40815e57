use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_int_or_percent, check_selector, run};
use crate::model::table::TableRow;
use crate::model::table::text::{int_or_text, number};
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("policy", "v1", "PodDisruptionBudget", Traits::SPEC_STATUS_METADATA)
        .with_traits(Traits::UNQUALIFIED_FINALIZERS)
        .name_format(Some(NameFormat::PathSegment))
        .initial_status(INITIAL_STATUS)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .cells(cells);

const INITIAL_STATUS: &str =
    r#"{"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}"#;

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if let (Some(least), Some(most)) = (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":null,\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":null}}"
        );
        causes.push(Cause::invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    check_int_or_percent(&spec, "minAvailable", causes);
    check_int_or_percent(&spec, "maxUnavailable", causes);
    const POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];
    run(&spec, &[Check::OneOf("unhealthyPodEvictionPolicy", POLICIES)], causes);
    if spec.get("selector").is_some() {
        check_selector(&spec.part("selector"), causes);
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    vec![
        row.name(),
        json!(int_or_text(&spec["minAvailable"], "N/A")),
        json!(int_or_text(&spec["maxUnavailable"], "N/A")),
        json!(number(&status["disruptionsAllowed"])),
        row.age(),
    ]
}
