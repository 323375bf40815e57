//! Validation of probes and lifecycle hooks.

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_port, required, run, unsupported};

pub(super) const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Validates the probes and the `postStart` and `preStop` hooks of a container.
pub(super) fn check(at: &FieldView<'_, '_>, grace_period: i64, causes: &mut Causes) {
    let lifecycle = at.part("lifecycle");
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.part(hook);
        if !hook.value.is_null() {
            check_handler(&hook, grace_period, causes);
        }
    }
    for probe in PROBES.into_iter().filter(|probe| at.get(probe).is_some()) {
        check_probe(&at.part(probe), probe == "readinessProbe", grace_period, causes);
    }
}

fn check_probe(at: &FieldView<'_, '_>, is_readiness: bool, grace_period: i64, causes: &mut Causes) {
    check_handler(at, grace_period, causes);
    let numbers = &[
        Check::Min("initialDelaySeconds", 0),
        Check::Min("timeoutSeconds", 0),
        Check::Min("periodSeconds", 0),
        Check::Min("successThreshold", 0),
        Check::Min("failureThreshold", 0),
    ];
    run(at, numbers, causes);
    let seconds = at.number("terminationGracePeriodSeconds");
    let invalid =
        |name: &str, number: i64, why: &str| Cause::invalid(&at.field_path(name), &number.to_string(), why);
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
        causes.push(invalid("terminationGracePeriodSeconds", seconds, "must be greater than 0"));
    }
    if is_readiness {
        let why = "must not be set for readinessProbes";
        causes.extend(seconds.map(|seconds| invalid("terminationGracePeriodSeconds", seconds, why)));
    } else if let Some(threshold) = at.number("successThreshold").filter(|threshold| *threshold != 1) {
        causes.push(invalid("successThreshold", threshold, "must be 1"));
    }
}

/// The actions of a probe or a hook, in the order in which kube-apiserver validates them. Only the first one
/// is validated.
const ACTIONS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn check_handler(at: &FieldView<'_, '_>, grace_period: i64, causes: &mut Causes) {
    let mut given = ACTIONS.into_iter().filter(|action| at.get(action).is_some());
    let Some(first) = given.next() else {
        return causes.push(required(&at.path, "must specify a handler type"));
    };
    let action = at.part(first);
    match first {
        "exec" => run(&action, &[Check::Required("command", "")], causes),
        "httpGet" => check_http(&action, causes),
        "tcpSocket" => check_named_port(&action, causes),
        "grpc" => check_port(&action.field_path("port"), action.number("port").unwrap_or_default(), causes),
        _ => check_sleep(&action, grace_period, causes),
    }
    for other in given {
        causes.push(Cause::forbidden(&at.field_path(other), "may not specify more than 1 handler type"));
    }
}

fn check_http(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if at.text("path").is_empty() {
        causes.push(required(&at.field_path("path"), ""));
    }
    check_named_port(at, causes);
    if !matches!(at.text("scheme"), "HTTP" | "HTTPS") {
        causes.push(unsupported(&at.field_path("scheme"), at.text("scheme"), &["HTTP", "HTTPS"]));
    }
    for header in at.elements("httpHeaders") {
        let name = header.text("name");
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_token) {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                       regex used for validation is '[-A-Za-z0-9]+')";
            causes.push(Cause::invalid(&at.field_path("httpHeaders"), &format!("{name:?}"), why));
        }
    }
}

/// Validates a port that is a number, or the name of a container port.
fn check_named_port(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let field = at.field_path("port");
    match at.get("port") {
        Some(Value::String(name)) => NameFormat::PortName.check(&field, name, causes),
        port => check_port(&field, port.and_then(Value::as_i64).unwrap_or_default(), causes),
    }
}

fn check_sleep(at: &FieldView<'_, '_>, grace_period: i64, causes: &mut Causes) {
    let seconds = at.number("seconds").unwrap_or_default();
    if seconds < 0 || seconds > grace_period {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
        causes.push(Cause::invalid(&at.path, &seconds.to_string(), &why));
    }
}
