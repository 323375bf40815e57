//! Validation of Leases, Events, PersistentVolumes, PersistentVolumeClaims, StorageClasses and
//! ControllerRevisions.

use serde_json::Value;

use super::checks::{Check, FieldView, IMMUTABLE, at_least, is_missing, required, run, unsupported};
use super::path::get;
use super::service_checks::check_immutable;
use crate::model::error::Cause;
use crate::model::quantity::exceeds;

pub(super) const LEASE: &[Check] = &[Check::Call(lease)];
pub(super) const EVENT: &[Check] = &[Check::Call(event)];
pub(super) const REVISION: &[Check] = &[Check::Call(|at, causes| {
    if at.get("data").is_none() {
        causes.push(required("data", "data is mandatory"));
    }
})];
pub(super) const REVISION_CHANGES: &[Check] =
    &[Check::Call(|at, causes| check_immutable(at, "data", causes))];
pub(super) const PV: &[Check] = &[Check::Call(volume)];
pub(super) const PV_CHANGES: &[Check] = &[Check::Call(volume_changes)];
pub(super) const PVC: &[Check] = &[Check::Call(pvc)];
pub(super) const PVC_CHANGES: &[Check] = &[Check::Call(pvc_changes)];
pub(super) const STORAGE_CLASS: &[Check] = &[Check::Call(class)];
pub(super) const STORAGE_CLASS_CHANGES: &[Check] = &[Check::Call(|at, causes| {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        check_immutable(at, name, causes);
    }
})];

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

fn lease(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    if let Some(seconds) = spec.number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        let field = spec.field_path("leaseDurationSeconds");
        causes.push(Cause::invalid(&field, &seconds.to_string(), "must be greater than 0"));
    }
    if let Some(count) = spec.number("leaseTransitions").filter(|count| *count < 0) {
        causes.push(at_least(&spec.field_path("leaseTransitions"), count, 0));
    }
}

/// Requires an Event to be in the namespace of its involved object, or in `default` if that is
/// cluster-scoped.
fn event(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (own, about) = (at.text("metadata.namespace"), at.text("involvedObject.namespace"));
    let fits = own == about || (about.is_empty() && own == "default");
    if !fits {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &format!("{about:?}"), why));
    }
}

fn check_access_modes(at: &FieldView<'_>, detail: &str, causes: &mut Vec<Cause>) {
    let given = at.items("accessModes");
    if given.is_empty() {
        causes.push(required(&at.field_path("accessModes"), detail));
    }
    for mode in given.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        causes.push(unsupported(&at.field_path("accessModes"), mode, ACCESS_MODES));
    }
}

/// The fields of a PersistentVolume spec other than the volume source.
const NON_SOURCE_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeMode",
    "volumeAttributesClassName",
];

fn volume(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    check_access_modes(&spec, "", causes);
    let capacity = spec.get("capacity").filter(|capacity| !is_missing(Some(capacity)));
    if capacity.is_none() {
        causes.push(required(&spec.field_path("capacity"), ""));
    }
    let only_storage =
        capacity.and_then(Value::as_object).is_some_and(|all| all.len() == 1 && all.contains_key("storage"));
    if !only_storage {
        let shown = capacity.map_or("null".to_owned(), ToString::to_string);
        causes.push(Cause::not_supported(&spec.field_path("capacity"), &shown, "\"storage\""));
    }
    run(&spec, &[Check::OneOf("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"])], causes);
    let source = spec.value.as_object().is_some_and(|spec| {
        spec.iter().any(|(name, value)| !NON_SOURCE_FIELDS.contains(&name.as_str()) && !value.is_null())
    });
    if !source {
        causes.push(required("spec", "must specify a volume type"));
    }
    run(&spec, &[Check::OneOf("volumeMode", VOLUME_MODES)], causes);
}

fn volume_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (new, Some(old)) = (&at.value["spec"], at.old.map(|old| &old["spec"])) else { return };
    let source = |spec: &Value| {
        let mut source = spec.as_object().cloned().unwrap_or_default();
        source.retain(|name, _| !NON_SOURCE_FIELDS.contains(&name.as_str()));
        source
    };
    if source(new) != source(old) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    if new["volumeMode"] != old["volumeMode"] {
        let shown = new["volumeMode"].to_string();
        causes.push(Cause::invalid("volumeMode", &shown, IMMUTABLE));
    }
}

fn pvc(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let spec = at.part("spec");
    check_access_modes(&spec, "at least 1 access mode is required", causes);
    match at.get("spec.resources.requests.storage").and_then(Value::as_str) {
        None => causes.push(required("spec.resources[storage]", "")),
        Some(amount) if crate::model::quantity::read(amount).is_some_and(|amount| amount <= 0) => {
            causes.push(Cause::invalid(
                "spec.resources[storage]",
                &format!("{amount:?}"),
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
    run(&spec, &[Check::OneOf("volumeMode", VOLUME_MODES)], causes);
}

fn pvc_changes(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let Some(old) = at.old else { return };
    let bound = old["status"]["phase"] == "Bound";
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        // These fields may be set once after creation.
        for name in ["volumeName", "storageClassName"] {
            if old["spec"][name].is_null() {
                spec[name] = Value::Null;
            }
        }
        if bound {
            spec["resources"]["requests"]["storage"] = Value::Null;
            spec["volumeAttributesClassName"] = Value::Null;
        }
        spec
    };
    if fixed(at.value) != fixed(old) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                   claims";
        causes.push(Cause::forbidden("spec", why));
    }
    let (asked, path) = ("spec.resources.requests.storage", "status.capacity.storage");
    let amount = |object, path| get(object, path).and_then(Value::as_str).unwrap_or("0");
    let (new, before) = (amount(at.value, asked), amount(old, asked));
    // A request may shrink, for example after a failed expansion, but not below the current capacity.
    if exceeds(before, new) && !exceeds(new, amount(old, path)) {
        causes.push(Cause::forbidden(asked, "field can not be less than status.capacity"));
    }
}

fn class(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    if at.text("provisioner").is_empty() {
        causes.push(required("provisioner", ""));
    }
    let policies = &[
        Check::OneOf("reclaimPolicy", &["Delete", "Retain"]),
        Check::OneOf("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ];
    run(at, policies, causes);
}
