//! Validation of the environment variables of containers.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::core::config_map::key_problems;
use crate::model::quantity::Amount;
use crate::model::rules::checks::{FieldView, NameFormat, not_found, required, unsupported};

use super::volumes::check_backsteps;

const NAME_RULE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn check_variable_name(field: &dyn Display, name: &str, causes: &mut Causes) {
    if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        causes.push(Cause::invalid(field, &format!("{name:?}"), NAME_RULE));
    }
}

pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for variable in at.elements("env") {
        match variable.text("name") {
            "" => causes.push(required(&variable.field_path("name"), "")),
            name => check_variable_name(&variable.field_path("name"), name, causes),
        }
        if variable.get("valueFrom").is_some() {
            check_source(&variable, causes);
        }
    }
    for source in at.elements("envFrom") {
        if !source.text("prefix").is_empty() {
            check_variable_name(&source.field_path("prefix"), source.text("prefix"), causes);
        }
        let given = ["configMapRef", "secretRef"].into_iter().filter(|name| source.get(name).is_some());
        for reference in given.clone() {
            let reference = source.part(reference);
            match reference.text("name") {
                "" => causes.push(required(&reference.field_path("name"), "")),
                name => {
                    // kube-apiserver validates this name as the prefix of a name, which may end with a dash.
                    let start = name.strip_suffix('-').filter(|rest| !rest.is_empty()).unwrap_or(name);
                    NameFormat::Subdomain.check(&reference.field_path("name"), start, causes);
                }
            }
        }
        let why = match given.count() {
            0 => Some("must specify one of: `configMapRef` or `secretRef`"),
            1 => None,
            _ => Some("may not have more than one field specified at a time"),
        };
        causes.extend(why.map(|why| Cause::invalid(&at.field_path("envFrom"), "\"\"", why)));
    }
}

/// Validates the source of an environment variable's value.
fn check_source(variable: &FieldView<'_, '_>, causes: &mut Causes) {
    let at = variable.part("valueFrom");
    let mut sources = 0;
    for source in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        if at.get(source).is_none() {
            continue;
        }
        sources += 1;
        let source_at = at.part(source);
        match source {
            "fieldRef" => check_field_reference(&source_at, FIELDS_OF_VARIABLES, causes),
            "resourceFieldRef" => check_resource_reference(&source_at, ContainerName::Optional, causes),
            "fileKeyRef" => check_file_reference(&source_at, causes),
            _ => check_key_reference(&source_at, causes),
        }
    }
    let why = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.text("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.push(Cause::invalid(&at.path, "\"\"", why));
}

/// Validates a reference to a key of a ConfigMap or Secret.
fn check_key_reference(at: &FieldView<'_, '_>, causes: &mut Causes) {
    NameFormat::Subdomain.check(&at.field_path("name"), at.text("name"), causes);
    let (field, key) = (at.field_path("key"), at.text("key"));
    if key.is_empty() {
        causes.push(required(&field, ""));
    } else {
        let invalid = |why: &'static str| Cause::invalid(&field, &format!("{key:?}"), why);
        causes.extend(key_problems(key).into_iter().map(invalid));
    }
}

/// Validates a reference to a variable in a file of a volume.
fn check_file_reference(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match at.text("key") {
        "" => causes.push(required(&at.field_path("key"), "")),
        key => check_variable_name(&at.field_path("key"), key, causes),
    }
    match at.text("volumeName") {
        "" => causes.push(required(&at.field_path("volumeName"), "")),
        name => NameFormat::Label.check(&at.field_path("volumeName"), name, causes),
    }
    match at.text("path") {
        "" => causes.push(required(&at.field_path("path"), "")),
        path => check_backsteps(&at.field_path("path"), path, causes),
    }
}

/// Checks that the volumes of `fileKeyRef` exist and are of type `emptyDir`.
pub(super) fn check_file_volumes(at: &FieldView<'_, '_>, causes: &mut Causes) {
    const REFERENCE: &str = "valueFrom.fileKeyRef";
    let volumes = || -> HashMap<&str, &Value> {
        at.items("volumes").iter().filter_map(|volume| Some((volume["name"].as_str()?, volume))).collect()
    };
    let mut by_name = None;
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in at.elements(list) {
            for variable in container.elements("env").filter(|variable| variable.get(REFERENCE).is_some()) {
                check_file_volume(&variable.part(REFERENCE), by_name.get_or_insert_with(volumes), causes);
            }
        }
    }
}

fn check_file_volume(at: &FieldView<'_, '_>, volumes: &HashMap<&str, &Value>, causes: &mut Causes) {
    let (field, name) = (at.field_path("volumeName"), at.text("volumeName"));
    match volumes.get(name) {
        None => causes.push(not_found(&field, name)),
        Some(volume) if !volume["emptyDir"].is_object() => {
            let why = "referenced volume must be of type emptyDir";
            causes.push(Cause::invalid(&field, &format!("{name:?}"), why));
        }
        Some(_) => {}
    }
}

const FIELDS_OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
pub(super) const FIELDS_OF_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// All field paths of the downward API. Other paths get a conversion error instead of the list of supported
/// ones.
const ALL_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn check_field_reference(at: &FieldView<'_, '_>, fields: &[&str], causes: &mut Causes) {
    let (version, path) = (at.text("apiVersion"), at.text("fieldPath"));
    if version.is_empty() {
        return causes.push(required(&at.field_path("apiVersion"), ""));
    }
    let field = at.field_path("fieldPath");
    if path.is_empty() {
        return causes.push(required(&field, ""));
    }
    let invalid = |why: String| Cause::invalid(&field, &format!("{path:?}"), &why);
    if version != "v1" {
        return causes
            .push(invalid(format!("error converting fieldPath: unsupported pod version: {version}")));
    }
    let keyed = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    let subscript = keyed.filter(|(map, _)| matches!(*map, "metadata.annotations" | "metadata.labels"));
    if let Some((map, key)) = subscript {
        let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        return NameFormat::Qualified.check(&at.path, &key, causes);
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    if !ALL_FIELDS.contains(&path) {
        causes.push(invalid(format!("error converting fieldPath: field label not supported: {path}")));
    } else if !fields.contains(&path) {
        causes.push(unsupported(&field, path, fields));
    }
}

/// Whether a reference to a resource must name its container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerName {
    Optional,
    Required,
}

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: [&str; 2] = ["1", "1m"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1E", "1Ei", "1G", "1Gi", "1Ki", "1M", "1Mi", "1P", "1Pi", "1T", "1Ti", "1k"];

pub(super) fn check_resource_reference(
    at: &FieldView<'_, '_>,
    container: ContainerName,
    causes: &mut Causes,
) {
    let resource = at.text("resource");
    let huge_pages = ["limits.hugepages-", "requests.hugepages-"];
    if container == ContainerName::Required && at.text("containerName").is_empty() {
        causes.push(required(&at.field_path("containerName"), ""));
    } else if resource.is_empty() {
        causes.push(required(&at.field_path("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge_pages.iter().any(|start| resource.starts_with(start)) {
        causes.push(unsupported(&at.field_path("resource"), resource, RESOURCES));
    }
    let divisor = at.get("divisor").and_then(Value::as_str).and_then(Amount::read);
    let Some(divisor) = divisor.filter(|divisor| !divisor.is_zero()).map(Amount::text) else { return };
    let (allowed, name): (&[&str], _) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (&CPU_DIVISORS, "cpu"),
        Some("memory") => (&BYTE_DIVISORS, "memory"),
        Some("ephemeral-storage") => (&BYTE_DIVISORS, "local ephemeral storage"),
        Some(name) if name.starts_with("hugepages-") => (&BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    if !allowed.contains(&&*divisor) {
        let why =
            format!("only divisor's values {} are supported with the {name} resource", allowed.join(", "));
        causes.push(Cause::invalid(&at.field_path("divisor"), &format!("{resource:?}"), &why));
    }
}
