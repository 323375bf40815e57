//! Defaults and validation of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs.

use informer_core::LabelSelector;
use serde_json::{Value, json};

use super::Rules;
use super::checks::{Check, FieldView, at_least, check_selector, label_problems, required, run, unsupported};
use super::defaults::Default::{self, Call, Fill, In, When};
use super::path::{get, set};
use super::pod_checks::{check_template, not_negative, shown_labels};
use super::pods::TEMPLATE;
use crate::model::error::Cause;
use crate::model::selectors::selector_text;

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    Some(match (group, kind) {
        ("apps", "Deployment") => {
            Rules::new(DEPLOYMENT, DEPLOYMENT_CHECKS).changes(IMMUTABLE_SELECTOR).status(DEPLOYMENT_STATUS)
        }
        ("apps", "ReplicaSet") => {
            Rules::new(REPLICA_SET, REPLICA_SET_CHECKS).changes(IMMUTABLE_SELECTOR).status(REPLICA_SET_STATUS)
        }
        ("apps", "StatefulSet") => Rules::new(STATEFUL_SET, STATEFUL_SET_CHECKS)
            .changes(&[Check::Call(stateful_set_changes)])
            .status(STATEFUL_SET_STATUS),
        ("apps", "DaemonSet") => {
            Rules::new(DAEMON_SET, DAEMON_SET_CHECKS).changes(IMMUTABLE_SELECTOR).status(DAEMON_SET_STATUS)
        }
        ("batch", "Job") => Rules::new(JOB, JOB_CHECKS).changes(JOB_CHANGES),
        ("batch", "CronJob") => Rules::new(CRON_JOB, CRON_JOB_CHECKS),
        ("", "ReplicationController") => Rules::new(REPLICATION_CONTROLLER, &[]),
        ("", "PodTemplate") => Rules::new(&[In("template", TEMPLATE)], &[]),
        _ => return None,
    })
}

const DEPLOYMENT_STATUS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    status(at, &["observedGeneration", "replicas"], &counts, causes);
})];
const REPLICA_SET_STATUS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    status(at, &["replicas", "observedGeneration"], &counts, causes);
})];
const STATEFUL_SET_STATUS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    status(at, &["replicas", "observedGeneration"], &counts, causes);
})];
const DAEMON_SET_STATUS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"];
    not_negative(&at.part("status"), &counts, causes);
})];

/// Rejects negative counts of pods, and counts above `status.replicas`.
fn status(at: &FieldView<'_>, first: &[&str], counts: &[&str], causes: &mut Vec<Cause>) {
    let status = at.part("status");
    not_negative(&status, first, causes);
    not_negative(&status, counts, causes);
    let number = |name: &str| status.number(name).unwrap_or_default();
    for name in counts {
        if number(name) > number("replicas") {
            let why = "cannot be greater than status.replicas";
            causes.push(Cause::invalid(&status.field_path(name), &number(name).to_string(), why));
        }
    }
    let (ready, available) = (number("readyReplicas"), number("availableReplicas"));
    if counts.contains(&"readyReplicas") && available > ready {
        let why = "cannot be greater than readyReplicas";
        causes.push(Cause::invalid(&status.field_path("availableReplicas"), &available.to_string(), why));
    }
}

const IMMUTABLE_SELECTOR: &[Check] = &[Check::Immutable("spec.selector")];

const DEPLOYMENT: &[Default] = &[In(
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

const REPLICA_SET: &[Default] = &[In("spec", &[Fill("replicas", "1"), In("template", TEMPLATE)])];

const REPLICATION_CONTROLLER: &[Default] =
    &[In("spec", &[Fill("replicas", "1"), In("template", TEMPLATE)]), Call(default_labels)];

const STATEFUL_SET: &[Default] = &[In(
    "spec",
    &[
        Fill("podManagementPolicy", "\"OrderedReady\""),
        Call(default_update_strategy),
        In(
            "updateStrategy",
            &[When("type", "RollingUpdate", &[In("rollingUpdate", &[Fill("partition", "0")])])],
        ),
        Fill("persistentVolumeClaimRetentionPolicy.whenDeleted", "\"Retain\""),
        Fill("persistentVolumeClaimRetentionPolicy.whenScaled", "\"Retain\""),
        Fill("replicas", "1"),
        Fill("revisionHistoryLimit", "10"),
        In("template", TEMPLATE),
        In(
            "volumeClaimTemplates[]",
            &[
                Fill("kind", "\"PersistentVolumeClaim\""),
                Fill("apiVersion", "\"v1\""),
                Fill("spec.volumeMode", "\"Filesystem\""),
                Fill("status.phase", "\"Pending\""),
            ],
        ),
    ],
)];

const DAEMON_SET: &[Default] = &[
    Call(template_generation),
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

const JOB_SPEC: &[Default] = &[Call(default_job_counts), In("template", TEMPLATE)];

const JOB: &[Default] = &[
    In("spec", JOB_SPEC),
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

const CRON_JOB: &[Default] = &[In(
    "spec",
    &[
        Fill("concurrencyPolicy", "\"Allow\""),
        Fill("suspend", "false"),
        Fill("successfulJobsHistoryLimit", "3"),
        Fill("failedJobsHistoryLimit", "1"),
        In("jobTemplate.spec.template", TEMPLATE),
    ],
)];

/// Stores `spec.templateGeneration`, which `apps/v1` does not have, in its annotation.
fn template_generation(object: &mut Value) {
    let name = super::prepare::TEMPLATE_GENERATION;
    if !object["metadata"]["annotations"].is_object() {
        set(object, "metadata.annotations", json!({}));
    }
    if object["metadata"]["annotations"].get(name).is_none() {
        object["metadata"]["annotations"][name] = "0".into();
    }
}

/// Defaults the update strategy to `RollingUpdate`.
fn default_update_strategy(spec: &mut Value) {
    if super::defaults::is_empty(get(spec, "updateStrategy.type")) {
        set(spec, "updateStrategy.type", "RollingUpdate".into());
        if get(spec, "updateStrategy.rollingUpdate").is_none() {
            set(spec, "updateStrategy.rollingUpdate", json!({}));
        }
    }
}

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

/// Defaults the labels to those of the pod template.
fn default_labels(object: &mut Value) {
    let labels = get(object, "spec.template.metadata.labels").cloned();
    if let Some(labels) = labels.filter(|_| super::checks::is_missing(get(object, "metadata.labels"))) {
        set(object, "metadata.labels", labels);
    }
}

const DEPLOYMENT_CHECKS: &[Check] = &[Check::Call(deployment)];
const REPLICA_SET_CHECKS: &[Check] = &[Check::Call(replica_set)];
const STATEFUL_SET_CHECKS: &[Check] = &[Check::Call(stateful_set)];
const DAEMON_SET_CHECKS: &[Check] = &[Check::Call(daemon_set)];
const JOB_CHECKS: &[Check] = &[Check::Call(job)];
const CRON_JOB_CHECKS: &[Check] = &[Check::Call(cron_job)];
const JOB_CHANGES: &[Check] = &[Check::Call(job_changes)];

/// Validates the selector of a workload. `kind` is the name in the error for an empty selector.
fn selector(spec: &FieldView<'_>, kind: &str, causes: &mut Vec<Cause>) {
    let Some(selector) = spec.get("selector") else {
        if kind != "daemonset" {
            causes.push(required(&spec.field_path("selector"), ""));
        }
        return;
    };
    check_selector(&spec.part("selector"), causes);
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        let why = format!("empty selector is invalid for {kind}");
        causes.push(Cause::invalid(&spec.field_path("selector"), "{}", &why));
    }
}

/// Parses the selector; `None` if it is invalid.
fn parse_selector(spec: &FieldView<'_>) -> Option<LabelSelector> {
    let operators = spec.items("selector.matchExpressions").iter();
    let understood = |operator: &str| matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist");
    match operators.into_iter().all(|item| understood(item["operator"].as_str().unwrap_or_default())) {
        true => spec
            .get("selector")
            .map_or(Some(LabelSelector::nothing()), |selector| selector_text(selector).parse().ok()),
        false => None,
    }
}

/// Validates the template: the selector must match its labels. `always` requires `restartPolicy: Always`.
fn template(spec: &FieldView<'_>, always: bool, causes: &mut Vec<Cause>) {
    let template = spec.part("template");
    let empty = spec.get("selector").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
    let labels = template.get("metadata.labels");
    let selected = |selector: &LabelSelector| {
        selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
    };
    if !empty && parse_selector(spec).is_some_and(|selector| !selected(&selector)) {
        let shown = shown_labels(&template);
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid(&template.field_path("metadata.labels"), &shown, why));
    }
    check_template(&template, causes);
    let policy = template.text("spec.restartPolicy");
    if always && !policy.is_empty() && policy != "Always" {
        causes.push(unsupported(&template.field_path("spec.restartPolicy"), policy, &["Always"]));
    }
}

/// Validates the template if the selector is valid. Otherwise reports the selector, with `suffix` appended to
/// its value.
fn check_selected_template(spec: &FieldView<'_>, suffix: &str, causes: &mut Vec<Cause>) {
    if parse_selector(spec).is_some() {
        return template(spec, true, causes);
    }
    let shown = spec.get("selector").map(ToString::to_string).unwrap_or_default();
    causes.push(Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {shown}{suffix}"),
        field: spec.field_path("selector"),
    });
}

fn deployment(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    not_negative(&spec, &["replicas"], causes);
    selector(&spec, "deployment", causes);
    check_selected_template(&spec, ": invalid label selector", causes);
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

fn strategy(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let rolling = at.get("rollingUpdate");
    match at.text("type") {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden(&at.field_path("rollingUpdate"), why));
        }
        "RollingUpdate" => {
            let rolling = at.part("rollingUpdate");
            int_or_percent(&rolling, "maxUnavailable", causes);
            int_or_percent(&rolling, "maxSurge", causes);
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

const PERCENT_RULE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
     '93%', regex used for validation is '[0-9]+%')";

/// Validates a non-negative number or a percentage. Only `maxSurge` may be above 100 %.
pub(super) fn int_or_percent(at: &FieldView<'_>, name: &str, causes: &mut Vec<Cause>) {
    let field = at.field_path(name);
    match at.get(name) {
        Some(Value::Number(number)) => {
            if let Some(number) = number.as_i64().filter(|number| *number < 0) {
                causes.push(at_least(&field, number, 0));
            }
        }
        Some(Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.and_then(|digits| digits.parse::<u64>().ok()) {
                None => causes.push(Cause::invalid(&field, &format!("{text:?}"), PERCENT_RULE)),
                Some(percent) if percent > 100 && name != "maxSurge" => {
                    causes.push(Cause::invalid(
                        &field,
                        &format!("{text:?}"),
                        "must not be greater than 100%",
                    ));
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

fn is_zero(at: &FieldView<'_>, name: &str) -> bool {
    at.get(name).is_some_and(|value| *value == 0 || *value == "0%")
}

fn replica_set(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    not_negative(&spec, &["replicas", "minReadySeconds"], causes);
    selector(&spec, "deployment", causes);
    check_selected_template(&spec, ": invalid label selector", causes);
}

fn stateful_set(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    let management = spec.text("podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel" | "") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid(&spec.field_path("podManagementPolicy"), &format!("{management:?}"), why));
    }
    let update = spec.text("updateStrategy.type");
    if !matches!(update, "RollingUpdate" | "OnDelete" | "") {
        let value = format!("{{\"Type\":{update:?},\"RollingUpdate\":null}}");
        causes.push(Cause::invalid(
            &spec.field_path("updateStrategy"),
            &value,
            "must be 'RollingUpdate' or 'OnDelete'",
        ));
    }
    not_negative(&spec, &["replicas", "minReadySeconds"], causes);
    selector(&spec, "statefulset", causes);
    check_selected_template(&spec, "", causes);
}

fn stateful_set_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |object: &Value| {
        let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        spec
    };
    if at.old.is_some_and(|old| rest(old) != rest(at.value)) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                   'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        *causes = vec![Cause::forbidden("spec", why)];
    }
}

fn daemon_set(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    selector(&spec, "daemonset", causes);
    template(&spec, true, causes);
    not_negative(&spec, &["minReadySeconds"], causes);
    let strategy = spec.part("updateStrategy");
    match strategy.text("type") {
        "RollingUpdate" => {
            let rolling = strategy.part("rollingUpdate");
            int_or_percent(&rolling, "maxUnavailable", causes);
            int_or_percent(&rolling, "maxSurge", causes);
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

fn job_spec(spec: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let numbers =
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    not_negative(spec, &numbers, causes);
    run(spec, &[Check::OneOf("completionMode", &["NonIndexed", "Indexed"])], causes);
    if spec.text("completionMode") == "Indexed" && spec.get("completions").is_none() {
        causes.push(required(&spec.field_path("completions"), "when completion mode is Indexed"));
    }
    let template = spec.part("template");
    check_template(&template, causes);
    let policy = template.text("spec.restartPolicy");
    if matches!(policy, "" | "Always") {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(required(&template.field_path("spec.restartPolicy"), detail));
    } else if !matches!(policy, "OnFailure" | "Never") {
        causes.push(unsupported(&template.field_path("spec.restartPolicy"), policy, &["OnFailure", "Never"]));
    }
}

fn job(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    let own = spec.get("selector.matchLabels").and_then(Value::as_object);
    let generated = own.is_none_or(|labels| labels.len() == 1);
    let manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    if !manual && !generated {
        let shown = spec.get("selector").map(ToString::to_string).unwrap_or_default();
        causes.push(Cause::invalid(&spec.field_path("selector"), &shown, "`selector` not auto-generated"));
    }
    job_spec(&spec, causes);
    // Reported after all other errors of the spec, those of the template included.
    if parse_selector(&spec).is_some_and(|selector| {
        let labels = spec.get("template.metadata.labels");
        !selector.matches_with(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
    }) {
        let shown = shown_labels(&spec.part("template"));
        let why = "`selector` does not match template `labels`";
        let suffix = Cause::invalid(&spec.field_path("template.metadata.labels"), &shown, why);
        // An update reports it twice: kube-apiserver also validates the object as a new one.
        causes.extend(at.old.map(|_| suffix.clone()));
        causes.push(suffix);
    }
    check_last_hostname(at, causes);
}

/// Requires `<job name>-<last index>` to be a DNS label: it is the hostname of the last pod of an indexed
/// Job.
fn check_last_hostname(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
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

fn job_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let check_immutable = |name: &str, causes: &mut Vec<Cause>| {
        let old = at.old.and_then(|old| get(old, name));
        if old != at.get(name) {
            let shown = at.get(name).map_or("null".to_owned(), ToString::to_string);
            causes.push(Cause::invalid(name, &shown, super::checks::IMMUTABLE));
        }
    };
    if at.text("spec.completionMode") != "Indexed" {
        check_immutable("spec.completions", causes);
    }
    check_immutable("spec.selector", causes);
    let old_suspended = at.old.is_some_and(|old| old["spec"]["suspend"] == true);
    if !old_suspended {
        check_immutable("spec.template", causes);
    }
    check_immutable("spec.completionMode", causes);
}

fn cron_job(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
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
    job_spec(&spec.part("jobTemplate.spec"), causes);
    not_negative(&spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], causes);
}
