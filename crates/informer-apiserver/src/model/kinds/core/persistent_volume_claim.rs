use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::persistent_volume::{
    CLASS_ANNOTATION, CLASS_ANNOTATION_IS_OLD, VOLUME_MODES, access_modes, check_access_modes, check_classes,
    volume_status,
};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::quantity::exceeds;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, check_selector, required, run};
use crate::model::rules::defaults::Default::{self, Fill};
use crate::model::rules::path::{get, set};
use crate::model::rules::warnings::{fractions, has_annotation, text};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "PersistentVolumeClaim", Traits::STATUS)
        .with_traits(Traits::REVALIDATES_METADATA)
        .bookmark(r#","spec":{"resources":{}},"status":{}"#)
        .initial_status(r#"{"phase":"Pending"}"#)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(&[Check::Call(validate_change)]))
        .prepare_for_create(|claim, _, _| {
            drop_data_sources(claim);
            copy_data_source(claim);
        })
        .admit_update(|old, claim| {
            let in_use =
                ["spec.dataSource", "spec.dataSourceRef"].iter().any(|path| get(old, path).is_some());
            if !in_use {
                drop_data_sources(claim);
            }
            copy_data_source(claim);
        })
        .warnings(|claim, _| warn(claim))
        .cells(cells);

const DEFAULTS: &[Default] =
    &[Fill("status.phase", "\"Pending\""), Fill("spec.volumeMode", "\"Filesystem\"")];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_claim_spec(&at.part("spec"), causes);
}

pub(crate) fn check_claim_spec(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    check_access_modes(spec, "at least 1 access mode is required", causes);
    let field = spec.field_path("resources[storage]");
    match spec.get("resources.requests.storage").and_then(Value::as_str) {
        None => causes.push(required(&field, "")),
        Some(amount) if crate::model::quantity::read(amount).is_some_and(|amount| amount <= 0) => {
            causes.push(Cause::invalid(&field, &format!("{amount:?}"), "must be greater than zero"));
        }
        Some(_) => {}
    }
    run(spec, &[Check::OneOf("volumeMode", VOLUME_MODES)], causes);
    if spec.get("selector").is_some() {
        check_selector(&spec.part("selector"), causes);
    }
    check_classes(spec, causes);
    for source in ["dataSource", "dataSourceRef"] {
        if spec.get(source).is_some() {
            let source = spec.part(source);
            for name in ["kind", "name"] {
                if source.text(name).is_empty() {
                    causes.push(required(&source.field_path(name), ""));
                }
            }
            match (source.text("apiGroup"), source.text("kind")) {
                ("", "PersistentVolumeClaim") => {}
                ("", kind) => {
                    let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                    causes.push(Cause::invalid(&source.path, &format!("{kind:?}"), why));
                }
                (group, _) => NameFormat::Subdomain.check(&source.field_path("apiGroup"), group, causes),
            }
        }
    }
    let differs = |reference: &Value| {
        let part = |source: &Value, name: &str| source[name].as_str().unwrap_or_default().to_owned();
        let source = &spec.value["dataSource"];
        ["apiGroup", "kind", "name"].iter().any(|name| part(source, name) != part(reference, name))
    };
    if spec.get("dataSource").is_some() && spec.get("dataSourceRef").is_some_and(differs) {
        causes.push(Cause::invalid(&spec.path, "{}", "must match dataSourceRef"));
    }
}

/// Drops a `dataSource` that is neither a PersistentVolumeClaim nor a VolumeSnapshot, unless `dataSourceRef`
/// is set. Drops a `dataSourceRef` to another namespace, because the feature gate
/// CrossNamespaceVolumeDataSource is off by default.
fn drop_data_sources(claim: &mut Value) {
    let text = |path: &str| get(claim, path).and_then(Value::as_str).unwrap_or_default();
    let is_foreign = !text("spec.dataSourceRef.namespace").is_empty();
    let is_known = matches!(
        (text("spec.dataSource.apiGroup"), text("spec.dataSource.kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    let has_reference = get(claim, "spec.dataSourceRef").is_some() && !is_foreign;
    if let Some(spec) = claim["spec"].as_object_mut() {
        if !is_known && !has_reference {
            spec.remove("dataSource");
        }
        if is_foreign {
            spec.remove("dataSourceRef");
        }
    }
}

/// Copies `dataSource` to `dataSourceRef`, or the reverse, if one is missing. A `dataSourceRef` with a
/// namespace is not copied.
fn copy_data_source(claim: &mut Value) {
    let (source, reference) = ("spec.dataSource", "spec.dataSourceRef");
    match (get(claim, source).cloned(), get(claim, reference).cloned()) {
        (Some(given), None) => set(claim, reference, given),
        (None, Some(mut given)) if given["namespace"].as_str().unwrap_or_default().is_empty() => {
            if let Some(members) = given.as_object_mut() {
                members.remove("namespace");
            }
            set(claim, source, given);
        }
        _ => {}
    }
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = at.old else { return };
    let bound = old["status"]["phase"] == "Bound";
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        // An update may set `volumeName` and `storageClassName` if the stored PVC does not have them.
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
    // A claim that was stored without validation may have only one of the data sources.
    let mut filled = old.clone();
    copy_data_source(&mut filled);
    if fixed(at.value) != fixed(&filled) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                   claims";
        causes.push(Cause::forbidden("spec", why));
    }
    let (asked, path) = ("spec.resources.requests.storage", "status.capacity.storage");
    let amount = |object, path| get(object, path).and_then(Value::as_str).unwrap_or("0");
    let (new, before) = (amount(at.value, asked), amount(old, asked));
    // An update may reduce the requested storage, for example after a failed expansion, but not below the
    // current capacity.
    if exceeds(before, new) && !exceeds(new, amount(old, path)) {
        causes.push(Cause::forbidden(asked, "field can not be less than status.capacity"));
    }
}

fn warn(claim: &Value) -> Vec<String> {
    let annotated = has_annotation(claim, CLASS_ANNOTATION)
        .then(|| format!("metadata.annotations[{CLASS_ANNOTATION}]: {}", CLASS_ANNOTATION_IS_OLD));
    annotated.into_iter().chain(fractions(&claim["spec"], "spec", &["storage"])).collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (object, spec, status) = (row.object, row.spec(), row.status());
    let bound = !text(&spec["volumeName"]).is_empty();
    let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
    let capacity = if bound { text(&status["capacity"]["storage"]) } else { "" };
    vec![
        row.name(),
        json!(volume_status(object)),
        json!(text(&spec["volumeName"])),
        json!(capacity),
        json!(modes),
        json!(text(&spec["storageClassName"])),
        json!(or(&spec["volumeAttributesClassName"], UNSET)),
        row.age(),
        json!(or(&spec["volumeMode"], UNSET)),
    ]
}
