//! Validation of the volumes of a pod.

use std::collections::HashMap;
use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::core::persistent_volume::check_driver;
use crate::model::kinds::core::persistent_volume_claim::check_claim_spec;
use crate::model::object_meta::annotation_causes;
use crate::model::rules::checks::{
    Check, FieldView, NameFormat, check_labels, duplicate, is_missing, required, run, short_value,
    unsupported,
};
use crate::model::rules::field_path::FieldPath;

use super::environment::{ContainerName, FIELDS_OF_VOLUMES, check_field_reference, check_resource_reference};
use super::{SpecOwner, projected};

/// The valid volumes of a pod by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The rules of a volume source.
type SourceCheck = fn(&FieldView<'_, '_>, &mut Causes);

/// The sources of a volume in the order in which kube-apiserver validates them: the field, the name in the
/// error for a second source, the name in other errors, and the rules.
static SOURCES: [(&str, &str, &str, SourceCheck); 30] = [
    ("emptyDir", "emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", "gitRepo", git_repository),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", gce_disk),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", aws_disk),
    ("secret", "secret", "secret", secret),
    ("nfs", "nfs", "nfs", nfs),
    ("iscsi", "iscsi", "iscsi", iscsi),
    ("glusterfs", "glusterfs", "glusterfs", |at, causes| need(at, &["endpoints", "path"], causes)),
    ("flocker", "flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |at, causes| {
        need(at, &["claimName"], causes);
    }),
    ("rbd", "rbd", "rbd", |at, causes| need(at, &["monitors", "image"], causes)),
    ("cinder", "cinder", "cinder", cinder),
    ("cephfs", "cephFS", "cephfs", |at, causes| need(at, &["monitors"], causes)),
    ("quobyte", "quobyte", "quobyte", quobyte),
    // kube-apiserver misspells this field in its error.
    ("downwardAPI", "downwarAPI", "downwardAPI", downward_api),
    ("fc", "fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", flex_volume),
    ("configMap", "configMap", "configMap", config_map),
    ("azureFile", "azureFile", "azureFile", |at, causes| need(at, &["secretName", "shareName"], causes)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, causes| need(at, &["volumePath"], causes)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, causes| {
        need(at, &["pdID"], causes);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |at, causes| need(at, &["volumeID"], causes)),
    ("azureDisk", "azureDisk", "azureDisk", azure_disk),
    ("storageos", "storageos", "storageos", storage_os),
    ("projected", "projected", "projected", projected::check),
    ("scaleIO", "scaleIO", "scaleIO", |at, causes| need(at, &["gateway", "system", "volumeName"], causes)),
    ("csi", "csi", "csi", csi),
    ("ephemeral", "ephemeral", "ephemeral", ephemeral),
    ("image", "image", "image", image),
];

/// Validates the volumes of a pod. Returns only the valid ones, so that a mount of an invalid volume is an
/// error, too.
pub(super) fn check<'a>(at: &FieldView<'a, '_>, owner: SpecOwner, causes: &mut Causes) -> Volumes<'a> {
    let mut valid = Volumes::new();
    for volume in at.elements("volumes") {
        let known = causes.len();
        check_source(&volume, owner, causes);
        let (field, name) = (volume.field_path("name"), volume.text("name"));
        match name {
            "" => causes.push(required(&field, "")),
            name => NameFormat::Label.check(&field, name, causes),
        }
        if valid.contains_key(name) {
            causes.push(duplicate(&field, &format!("{name:?}")));
        }
        if causes.len() == known {
            valid.insert(name, volume.value);
        }
    }
    valid
}

fn check_source(volume: &FieldView<'_, '_>, owner: SpecOwner, causes: &mut Causes) {
    let members = || volume.value.as_object().into_iter().flatten();
    // A volume has few fields, so it is faster to look them up in the table than the reverse.
    let given =
        || members().filter(|(_, value)| value.is_object()).filter_map(|(name, _)| source_index(name));
    let Some(first) = given().min() else {
        return causes.push(required(&volume.path, "must specify a volume type"));
    };
    let (source, _, shown, check) = &SOURCES[first];
    let at = FieldView { path: volume.field_path(shown), ..volume.part(source) };
    check(&at, causes);
    if *source == "image" && owner == SpecOwner::Pod {
        need(&at, &["reference"], causes);
    }
    let mut others: Vec<usize> = given().filter(|index| *index != first).collect();
    others.sort_unstable();
    for index in others {
        let (_, shown, ..) = SOURCES[index];
        causes.push(Cause::forbidden(&volume.field_path(shown), "may not specify more than 1 volume type"));
    }
}

fn source_index(name: &str) -> Option<usize> {
    SOURCES.iter().position(|(source, ..)| *source == name)
}

/// Requires that fields are neither missing nor empty.
pub(super) fn need(at: &FieldView<'_, '_>, names: &[&'static str], causes: &mut Causes) {
    for name in names {
        run(at, &[Check::Required(name, "")], causes);
    }
}

/// Requires a number between 0 and 255: a partition or a logical unit.
fn check_byte(at: &FieldView<'_, '_>, name: &str, causes: &mut Causes) {
    if let Some(number) = at.number(name).filter(|number| !(0..=255).contains(number)) {
        let why = "must be between 0 and 255, inclusive";
        causes.push(Cause::invalid(&at.field_path(name), &number.to_string(), why));
    }
}

/// The largest mode of a file: all permissions for everybody.
const MAX_MODE: i64 = 0o777;

pub(super) fn check_mode(at: &FieldView<'_, '_>, name: &str, causes: &mut Causes) {
    if let Some(mode) = at.number(name).filter(|mode| !(0..=MAX_MODE).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(Cause::invalid(&at.field_path(name), &mode.to_string(), why));
    }
}

/// Returns true if a path has the segment `..`.
pub(super) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|segment| segment == "..")
}

pub(super) fn check_backsteps(field: &dyn Display, path: &str, causes: &mut Causes) {
    if has_backsteps(path) {
        causes.push(Cause::invalid(field, &format!("{path:?}"), "must not contain '..'"));
    }
}

/// Validates a path that must be relative and must not leave its folder.
pub(super) fn check_relative_path(field: &dyn Display, path: &str, causes: &mut Causes) {
    if path.starts_with('/') {
        causes.push(Cause::invalid(field, &format!("{path:?}"), "must be a relative path"));
    }
    check_backsteps(field, path, causes);
}

/// Validates the path of a file in a volume. The kubelet reserves names that begin with `..` for atomic
/// updates.
pub(super) fn check_file_path(field: &dyn Display, path: &str, causes: &mut Causes) {
    check_relative_path(field, path, causes);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        causes.push(Cause::invalid(field, &format!("{path:?}"), "must not start with '..'"));
    }
}

fn empty_dir(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let limit = at.get("sizeLimit").and_then(Value::as_str).and_then(crate::model::quantity::read);
    if limit.is_some_and(|limit| limit < 0) {
        let why = "SizeLimit field must be a valid resource quantity";
        causes.push(Cause::forbidden(&at.field_path("sizeLimit"), why));
    }
}

const PATH_TYPES: &[&str] =
    &["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match at.text("path") {
        "" => return causes.push(required(&at.field_path("path"), "")),
        path => check_backsteps(&at.field_path("path"), path, causes),
    }
    run(at, &[Check::OneOf("type", PATH_TYPES)], causes);
}

fn git_repository(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["repository"], causes);
    check_relative_path(&at.field_path("directory"), at.text("directory"), causes);
}

fn gce_disk(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["pdName"], causes);
    check_byte(at, "partition", causes);
}

fn aws_disk(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["volumeID"], causes);
    check_byte(at, "partition", causes);
}

fn secret(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["secretName"], causes);
    check_mode(at, "defaultMode", causes);
    at.elements("items").for_each(|item| check_item(&item, causes));
}

fn config_map(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["name"], causes);
    check_mode(at, "defaultMode", causes);
    at.elements("items").for_each(|item| check_item(&item, causes));
}

/// Validates an entry that gives a key of a ConfigMap or Secret a path.
pub(super) fn check_item(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["key", "path"], causes);
    check_file_path(&at.field_path("path"), at.text("path"), causes);
    check_mode(at, "mode", causes);
}

fn nfs(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["server", "path"], causes);
    let path = at.text("path");
    if !path.starts_with('/') {
        let why = "must be an absolute path";
        causes.push(Cause::invalid(&at.field_path("path"), &format!("{path:?}"), why));
    }
}

fn iscsi(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["targetPortal"], causes);
    match at.text("iqn") {
        "" => causes.push(required(&at.field_path("iqn"), "")),
        name => check_initiator(&at.field_path("iqn"), name, causes),
    }
    check_byte(at, "lun", causes);
    let is_true = |name: &str| at.get(name) == Some(&Value::Bool(true));
    if (is_true("chapAuthDiscovery") || is_true("chapAuthSession")) && at.get("secretRef").is_none() {
        causes.push(required(&at.field_path("secretRef"), ""));
    }
    if let Some(name) = at.get("initiatorName").and_then(Value::as_str) {
        check_initiator(&at.field_path("initiatorname"), name, causes);
    }
}

fn check_initiator(field: &dyn Display, name: &str, causes: &mut Causes) {
    let invalid = |why: &str| Cause::invalid(field, &format!("{name:?}"), why);
    let has_digits = |rest: &str, digits: usize| {
        let mut chars = rest.chars();
        chars.next().is_some_and(|separator| separator != '\n')
            && chars.as_str().len() == digits
            && chars.all(|char| char.is_ascii_alphanumeric())
    };
    let is_valid = match (name.get(..3), name.get(3..)) {
        (Some("iqn"), Some(rest)) => is_iqn(rest),
        (Some("eui"), Some(rest)) => has_digits(rest, 16),
        (Some("naa"), Some(rest)) => has_digits(rest, 32),
        _ => return causes.push(invalid("must be valid format starting with iqn, eui, or naa")),
    };
    if !is_valid {
        causes.push(invalid("must be valid format"));
    }
}

/// Returns true if a name without the prefix `iqn` has the form `.2001-04.com.example:name`.
fn is_iqn(rest: &str) -> bool {
    let Some((date, owner)) = rest.strip_prefix('.').and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_date = date.split_once('-').is_some_and(|(year, month)| {
        let is_number = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        is_number(year, 4) && is_number(month, 2)
    });
    let Some((authority, name)) = owner.split_once(':') else { return false };
    let is_authority = !authority.is_empty()
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    let is_name = !name.is_empty()
        && !name
            .contains(|char: char| matches!(char, ',' | ';' | '*' | '&' | '$' | '|') || char.is_whitespace());
    is_date && is_authority && is_name
}

fn flocker(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match (at.text("datasetName"), at.text("datasetUUID")) {
        ("", "") => causes.push(required(&at.path, "one of datasetName and datasetUUID is required")),
        (name, id) if !name.is_empty() && !id.is_empty() => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            causes.push(Cause::invalid(&at.path, "\"resource\"", why));
        }
        _ => {}
    }
    let name = at.text("datasetName");
    if name.contains('/') {
        let why = "must not contain '/'";
        causes.push(Cause::invalid(&at.field_path("datasetName"), &format!("{name:?}"), why));
    }
}

fn cinder(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["volumeID"], causes);
    if at.get("secretRef").is_some() {
        need(&at.part("secretRef"), &["name"], causes);
    }
}

/// The maximum length of a Quobyte tenant in bytes.
const MAX_TENANT_BYTES: usize = 64;

fn quobyte(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let why = "must be a host:port pair or multiple pairs separated by commas";
    let (field, registry) = (at.field_path("registry"), at.text("registry"));
    if registry.is_empty() {
        causes.push(required(&field, why));
    } else if at.text("tenant").len() > MAX_TENANT_BYTES {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        causes.push(required(&at.field_path("tenant"), why));
    } else {
        let is_pair = |pair: &str| match pair.strip_prefix('[').map(|rest| rest.split_once("]:")) {
            None => pair.matches(':').count() == 1 && !pair.contains(['[', ']']),
            Some(split) => split.is_some_and(|(_, port)| !port.contains(':')),
        };
        let shown = short_value(at.get("registry"));
        let wrong = registry.split(',').filter(|pair| !is_pair(pair));
        causes.extend(wrong.map(|_| Cause::invalid(&field, &shown, why)));
    }
    need(at, &["volume"], causes);
}

fn downward_api(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_mode(at, "defaultMode", causes);
    for file in at.elements("items") {
        check_downward_file(&at.path, &file, causes);
    }
}

/// Validates a file of a downward API volume. kube-apiserver omits the index of the file in the errors.
pub(super) fn check_downward_file(path: &FieldPath<'_>, file: &FieldView<'_, '_>, causes: &mut Causes) {
    let at = FieldView { path: *path, ..*file };
    need(&at, &["path"], causes);
    check_file_path(&at.field_path("path"), at.text("path"), causes);
    let (field, resource) = (at.get("fieldRef").is_some(), at.get("resourceFieldRef").is_some());
    if field {
        check_field_reference(&at.part("fieldRef"), FIELDS_OF_VOLUMES, causes);
        if resource {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            causes.push(Cause::invalid(&at.path, "\"resource\"", why));
        }
    } else if resource {
        check_resource_reference(&at.part("resourceFieldRef"), ContainerName::Required, causes);
    } else {
        causes.push(required(&at.path, "one of fieldRef and resourceFieldRef is required"));
    }
    check_mode(&at, "mode", causes);
}

fn fibre_channel(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (names, ids) = (at.items("targetWWNs"), at.items("wwids"));
    let field = at.field_path("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        causes.push(required(&field, "must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        causes.push(Cause::invalid(&field, &Value::from(names).to_string(), why));
    }
    if !names.is_empty() {
        if at.get("lun").is_none() {
            causes.push(required(&at.field_path("lun"), "lun is required if targetWWNs is specified"));
        }
        check_byte(at, "lun", causes);
    }
}

fn flex_volume(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["driver"], causes);
    let options = at.get("options").and_then(Value::as_object);
    for name in options.into_iter().flat_map(serde_json::Map::keys) {
        let namespace = name.split_once('/').map_or(&**name, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if [".kubernetes.io", ".k8s.io"].iter().any(|reserved| namespace.ends_with(reserved)) {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            let field = at.field_path("options").key(name);
            causes.push(Cause::invalid(&field, &format!("{name:?}"), why));
        }
    }
}

fn azure_disk(at: &FieldView<'_, '_>, causes: &mut Causes) {
    need(at, &["diskName", "diskURI"], causes);
    run(at, &[Check::OneOf("cachingMode", &["None", "ReadOnly", "ReadWrite"])], causes);
    run(at, &[Check::OneOf("kind", &["Dedicated", "Managed", "Shared"])], causes);
    let uri = at.text("diskURI");
    let (start, form) = match at.text("kind") {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.starts_with(start) {
        causes.push(unsupported(&at.field_path("diskURI"), uri, &[form]));
    }
}

fn storage_os(at: &FieldView<'_, '_>, causes: &mut Causes) {
    match at.text("volumeName") {
        "" => causes.push(required(&at.field_path("volumeName"), "")),
        name => NameFormat::Label.check(&at.field_path("volumeName"), name, causes),
    }
    run(at, &[Check::NameFormat("volumeNamespace", NameFormat::Label)], causes);
    if at.get("secretRef").is_some() {
        need(&at.part("secretRef"), &["name"], causes);
    }
}

fn csi(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_driver(at, causes);
    if at.get("nodePublishSecretRef").is_some() {
        match at.text("nodePublishSecretRef.name") {
            "" => causes.push(required(&at.field_path("nodePublishSecretRef.name"), "")),
            name => NameFormat::Subdomain.check(&at.field_path("name"), name, causes),
        }
    }
}

fn ephemeral(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let template = at.part("volumeClaimTemplate");
    if template.value.is_null() {
        return causes.push(required(&template.path, ""));
    }
    check_claim_template(&template, causes);
}

/// Validates the template of a claim that is created with a pod.
fn check_claim_template(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let metadata = at.part("metadata");
    check_labels(&metadata.field_path("labels"), metadata.get("labels"), causes);
    causes.extend(annotation_causes(&metadata.field_path("annotations"), metadata.get("annotations")));
    for (name, value) in metadata.value.as_object().into_iter().flatten() {
        if !matches!(&**name, "labels" | "annotations") && !is_missing(Some(value)) {
            causes.push(Cause::forbidden(&metadata.field_path(name), "cannot be set"));
        }
    }
    check_claim_spec(&at.part("spec"), causes);
}

fn image(at: &FieldView<'_, '_>, causes: &mut Causes) {
    run(at, &[Check::OneOf("pullPolicy", &["Always", "IfNotPresent", "Never"])], causes);
}
