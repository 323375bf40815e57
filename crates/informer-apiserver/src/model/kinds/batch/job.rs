mod indexed;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::core::pod::validation::{check_template, shown_labels};
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    SPEC_TEMPLATE, changed, container_cells, default_labels, parse_selector, pod_name_warnings, selector_cell,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, IMMUTABLE, NameFormat, check_domain_prefixed_path, duplicate, is_missing,
    label_problems, not_negative, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Call, Fill, In};
use crate::model::rules::path::{get, set};
use crate::model::rules::warnings::list;
use crate::model::table::TableRow;
use crate::model::table::text::{human_duration, number};
use jiff::Timestamp;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("batch", "v1", "Job", Traits::SPEC_STATUS_METADATA.with(Traits::OWN_FIELDS))
        .selectable(&["status.successful"])
        .pod_template(SPEC_TEMPLATE)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(&[Check::Call(validate_change)]))
        .prepare_for_create(|job, _, _| generate_job_selector(job))
        .warnings(warn)
        .cells(cells);

fn warn(object: &Value, old: Option<&Value>) -> Vec<String> {
    let job = changed(object, old).then(|| spec_warnings(object, "spec"));
    pod_name_warnings(object, old).chain(job.into_iter().flatten()).collect()
}

const SPEC_DEFAULTS: &[Default] = &[Call(default_job_counts), In("template", TEMPLATE)];

const DEFAULTS: &[Default] = &[
    In("spec", SPEC_DEFAULTS),
    In(
        "spec",
        &[
            Fill("completionMode", "\"NonIndexed\""),
            Fill("suspend", "false"),
            Call(default_pod_replacement_policy),
            Fill("manualSelector", "false"),
        ],
    ),
    Call(default_labels),
];

fn default_job_counts(spec: &mut Value) {
    if get(spec, "completions").is_none() && get(spec, "parallelism").is_none() {
        set(spec, "completions", 1.into());
    }
    let limit = if get(spec, "backoffLimitPerIndex").is_some() { i32::MAX } else { 6 };
    for (name, value) in [("parallelism", 1), ("backoffLimit", limit)] {
        if get(spec, name).is_none() {
            set(spec, name, value.into());
        }
    }
}

fn default_pod_replacement_policy(spec: &mut Value) {
    if get(spec, "podReplacementPolicy").is_none() {
        let policy = if get(spec, "podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
        set(spec, "podReplacementPolicy", policy.into());
    }
}

/// Generates the selector of a Job from the Job's UID, unless `manualSelector` is set.
fn generate_job_selector(job: &mut Value) {
    if get(job, "spec.manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let none = is_missing(get(job, "metadata.labels"));
    for (label, value) in labels {
        let template = &mut job["spec"]["template"]["metadata"]["labels"];
        if !template.is_object() {
            *template = json!({});
        }
        template[label] = value.clone();
    }
    if none {
        job["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"].clone();
    }
    job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
}

fn run_one_of(at: &FieldView<'_, '_>, name: &str, allowed: &[&str], causes: &mut Causes) {
    let text = at.text(name);
    if !text.is_empty() && !allowed.contains(&text) {
        causes.push(unsupported(&at.field_path(name), text, allowed));
    }
}

/// The limits of kube-apiserver for the lists of a `podFailurePolicy`.
const MAX_FAILURE_RULES: usize = 20;
const MAX_CONDITIONS: usize = 20;
const MAX_EXIT_CODES: usize = 255;

fn check_length(at: &FieldView<'_, '_>, list: &str, most: usize, causes: &mut Causes) {
    let length = at.items(list).len();
    if length > most {
        causes.push(Cause::too_many(&at.field_path(list), length, most));
    }
}

/// Validates a rule of a Job's `podFailurePolicy`.
fn check_failure_rule(at: &FieldView<'_, '_>, spec: &FieldView<'_, '_>, causes: &mut Causes) {
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    match at.text("action") {
        "" => {
            let why = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
            causes.push(required(&at.field_path("action"), why));
        }
        "FailIndex" if spec.get("backoffLimitPerIndex").is_none() => {
            let why = "requires the backoffLimitPerIndex to be set";
            causes.push(Cause::invalid(&at.field_path("action"), "\"FailIndex\"", why));
        }
        _ => run_one_of(at, "action", ACTIONS, causes),
    }
    let (codes, conditions) = (at.part("onExitCodes"), at.items("onPodConditions"));
    match (codes.value.is_object(), conditions.is_empty()) {
        (false, true) => {
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            causes.push(Cause::invalid(&at.path, &at.value.to_string(), why));
        }
        (true, false) => {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            causes.push(Cause::invalid(&at.path, &at.value.to_string(), why));
        }
        _ => {}
    }
    check_length(at, "onPodConditions", MAX_CONDITIONS, causes);
    for (index, condition) in conditions.iter().take(MAX_CONDITIONS).enumerate() {
        let path = at.field_path("onPodConditions").index(index);
        let condition = FieldView { value: condition, old: None, path };
        NameFormat::Qualified.check(&condition.field_path("type"), condition.text("type"), causes);
        run_one_of(&condition, "status", &["False", "True", "Unknown"], causes);
    }
    if codes.value.is_object() {
        check_exit_codes(&codes, spec, causes);
    }
}

fn check_exit_codes(at: &FieldView<'_, '_>, spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let operator = at.text("operator");
    match operator {
        "" => {
            let why = "valid values: [\"In\" \"NotIn\"]";
            causes.push(required(&at.field_path("operator"), why));
        }
        _ => run_one_of(at, "operator", &["In", "NotIn"], causes),
    }
    let containers = spec.items("template.spec.containers").iter();
    let mut containers = containers.chain(spec.items("template.spec.initContainers"));
    let name = at.text("containerName");
    if at.get("containerName").is_some() && !containers.any(|container| container["name"] == name) {
        let why = "must be one of the container or initContainer names in the pod template";
        causes.push(Cause::invalid(&at.field_path("containerName"), &format!("{name:?}"), why));
    }
    let values = at.items("values");
    if values.is_empty() {
        let shown = at.get("values").map_or("null".to_owned(), ToString::to_string);
        causes.push(Cause::invalid(&at.field_path("values"), &shown, "at least one value is required"));
    }
    check_length(at, "values", MAX_EXIT_CODES, causes);
    for (index, value) in values.iter().take(MAX_EXIT_CODES).enumerate() {
        let field = at.field_path("values").index(index);
        if operator == "In" && *value == 0 {
            causes.push(Cause::invalid(&field, "0", "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            causes.push(duplicate(&field, &value.to_string()));
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        let shown = Value::from(values).to_string();
        causes.push(Cause::invalid(&at.field_path("values"), &shown, "must be ordered"));
    }
}

pub(crate) fn validate_spec(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(spec, &numbers, causes);
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        let field = spec.field_path("backoffLimitPerIndex");
        causes.push(required(&field, "when maxFailedIndexes is specified"));
    }
    check_manager(spec, causes);
    run(spec, &[Check::OneOf("completionMode", &["NonIndexed", "Indexed"])], causes);
    if spec.text("completionMode") == "Indexed" && spec.get("completions").is_none() {
        causes.push(required(&spec.field_path("completions"), "when completion mode is Indexed"));
    }
    indexed::check_limits(spec, causes);
    let failures = spec.part("podFailurePolicy");
    check_length(&failures, "rules", MAX_FAILURE_RULES, causes);
    for (index, rule) in failures.items("rules").iter().take(MAX_FAILURE_RULES).enumerate() {
        let path = failures.field_path("rules").index(index);
        check_failure_rule(&FieldView { value: rule, old: None, path }, spec, causes);
    }
    indexed::check_success_policy(spec, causes);
    let policies: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    run_one_of(spec, "podReplacementPolicy", policies, causes);
    let template = spec.part("template");
    check_template(&template, causes);
    let policy = template.text("spec.restartPolicy");
    if matches!(policy, "" | "Always") {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(required(&template.field_path("spec.restartPolicy"), detail));
    } else if !matches!(policy, "OnFailure" | "Never") {
        causes.push(unsupported(&template.field_path("spec.restartPolicy"), policy, &["OnFailure", "Never"]));
    } else if policy != "Never" && spec.get("podFailurePolicy").is_some() {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        let field = template.field_path("spec.restartPolicy");
        causes.push(Cause::invalid(&field, &format!("{policy:?}"), why));
    }
}

/// The maximum length of the name of the controller of a Job in bytes.
const MAX_MANAGER_BYTES: usize = 63;

fn check_manager(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    if spec.get("managedBy").is_none() {
        return;
    }
    let (field, manager) = (spec.field_path("managedBy"), spec.text("managedBy"));
    check_domain_prefixed_path(&field, manager, causes);
    if manager.len() > MAX_MANAGER_BYTES {
        causes.push(Cause::too_long(&field, MAX_MANAGER_BYTES));
    }
}

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let own = spec.get("selector.matchLabels").and_then(Value::as_object);
    let generated = own.is_none_or(|labels| labels.len() == 1);
    let manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    if !manual && !generated {
        let shown = spec.get("selector").map(ToString::to_string).unwrap_or_default();
        causes.push(Cause::invalid(&spec.field_path("selector"), &shown, "`selector` not auto-generated"));
    }
    check_job_spec(&spec, causes);
    check_last_hostname(at, causes);
}

fn check_job_spec(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    validate_spec(spec, causes);
    // kube-apiserver reports a selector that does not match the template labels after all other errors of the
    // spec, including those of the template.
    if parse_selector(spec).is_some_and(|selector| {
        let labels = spec.get("template.metadata.labels");
        !selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
    }) {
        let shown = shown_labels(&spec.part("template"));
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid(&spec.field_path("template.metadata.labels"), &shown, why));
    }
}

/// Requires `<job name>-<last index>` to be a DNS label, because it is the hostname of the last pod of an
/// indexed Job.
fn check_last_hostname(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let completions = at.number("spec.completions").unwrap_or_default();
    let (name, last) = (at.text("metadata.name"), completions - 1);
    let host = format!("{name}-{last}");
    if at.old.is_none()
        && at.text("spec.completionMode") == "Indexed"
        && completions > 0
        && !label_problems(&host).is_empty()
    {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), &why));
    }
}

/// Requires that a new number of completions of an indexed Job equals its parallelism.
fn check_changed_completions(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let field = "spec.completions";
    let is_changed = at.old.and_then(|old| get(old, field)) != at.get(field);
    if let Some(completions) = at.number(field).filter(|_| is_changed)
        && at.number("spec.parallelism") != Some(completions)
    {
        let why = "can only be modified in tandem with spec.parallelism";
        causes.push(Cause::invalid(field, &completions.to_string(), why));
    }
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    // kube-apiserver validates an updated Job like a new one, and then its spec once more.
    check_job_spec(&at.part("spec"), causes);
    let check_immutable = |name: &str, causes: &mut Causes| {
        let old = at.old.and_then(|old| get(old, name));
        if old != at.get(name) {
            let shown = at.get(name).map_or("null".to_owned(), ToString::to_string);
            causes.push(Cause::invalid(name, &shown, IMMUTABLE));
        }
    };
    if at.text("spec.completionMode") == "Indexed" {
        check_changed_completions(at, causes);
    } else {
        check_immutable("spec.completions", causes);
    }
    check_immutable("spec.selector", causes);
    let old_suspended = at.old.is_some_and(|old| old["spec"]["suspend"] == true);
    if !old_suspended {
        check_immutable("spec.template", causes);
    }
    check_immutable("spec.completionMode", causes);
    check_immutable("spec.podFailurePolicy", causes);
    check_immutable("spec.backoffLimitPerIndex", causes);
    check_immutable("spec.managedBy", causes);
    check_immutable("spec.successPolicy", causes);
}

/// An indexed Job causes a warning if its `completions` exceed this number and its `parallelism` exceeds
/// [`PARALLELISM`]. The Job controller may then be unable to track its completed indexes.
const COMPLETIONS: i64 = 100_000;

/// The `parallelism` above which an indexed Job with many [`COMPLETIONS`] causes a warning.
const PARALLELISM: i64 = 10_000;

pub(crate) fn spec_warnings(job: &Value, at: &str) -> Vec<String> {
    let spec = at.split('.').fold(job, |value, name| &value[name]);
    let number = |name: &str| spec[name].as_i64().unwrap_or_default();
    let huge = spec["completionMode"] == "Indexed"
        && number("completions") > COMPLETIONS
        && number("parallelism") > PARALLELISM;
    let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
               Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
    let huge = huge.then(|| format!("{at}: {why}"));
    huge.into_iter().chain(of_template(job, &format!("{at}.template"))).collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (object, now) = (row.object, row.now);
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let is = |kind: &str| {
        list(&status["conditions"])
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let state = match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if object["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let duration = match (time(&status["startTime"]), time(&status["completionTime"])) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).as_second() - start.as_second()),
    };
    let mut cells = vec![row.name(), json!(state), json!(completions), json!(duration), row.age()];
    cells.extend(container_cells(&spec["template"]["spec"]));
    cells.push(selector_cell(&spec["selector"]));
    cells
}
