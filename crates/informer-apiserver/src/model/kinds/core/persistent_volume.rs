use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::node_term;
use crate::model::kinds::core::pod::warnings::volumes::{
    DEPRECATED_SOURCES, LATER_DEPRECATED_SOURCES, go_path,
};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, IMMUTABLE, NameFormat, is_missing, required, run, unsupported,
};
use crate::model::rules::defaults::Default::{self, Fill, In};
use crate::model::rules::path::set;
use crate::model::rules::resources::each_quantity;
use crate::model::rules::scheduling::check_node_selector;
use crate::model::rules::warnings::{has_annotation, list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{UNSET, joined, or};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "PersistentVolume", Traits::STATUS)
        .bookmark(r#","spec":{},"status":{}"#)
        .initial_status(r#"{"phase":"Pending"}"#)
        .rules(Rules::new(DEFAULTS, &[Check::Call(validate)]).changes(&[Check::Call(validate_change)]))
        .prepare_for_create(|volume, now, _| set(volume, "status.lastPhaseTransitionTime", now.into()))
        .warnings(|volume, _| warn(volume))
        .cells(cells);

const DEFAULTS: &[Default] = &[
    Fill("status.phase", "\"Pending\""),
    Fill("spec.persistentVolumeReclaimPolicy", "\"Retain\""),
    Fill("spec.volumeMode", "\"Filesystem\""),
    In("spec.hostPath", &[Fill("type", "\"\"")]),
];

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

pub(crate) fn check_access_modes(at: &FieldView<'_, '_>, detail: &str, causes: &mut Causes) {
    let given = at.items("accessModes");
    if given.is_empty() {
        causes.push(required(&at.field_path("accessModes"), detail));
    }
    if given.len() > 1 && given.iter().any(|mode| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        causes.push(Cause::forbidden(&at.field_path("accessModes"), why));
    }
    for mode in given.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        causes.push(unsupported(&at.field_path("accessModes"), mode, ACCESS_MODES));
    }
}

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

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
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
    check_capacity(&spec, causes);
    run(&spec, &[Check::OneOf("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"])], causes);
    check_affinity(&spec, causes);
    let sources = SOURCES.iter().filter(|name| spec.get(name).is_some_and(|source| !source.is_null()));
    for name in sources.clone().skip(1) {
        causes.push(Cause::forbidden(&spec.field_path(name), "may not specify more than 1 volume type"));
    }
    match sources.clone().next() {
        None => causes.push(required(&"spec", "must specify a volume type")),
        Some(&"csi") => check_csi(&spec.part("csi"), causes),
        Some(&"flexVolume") => run(&spec.part("flexVolume"), &[Check::Required("driver", "")], causes),
        Some(_) => {}
    }
    run(&spec, &[Check::OneOf("volumeMode", VOLUME_MODES)], causes);
    check_classes(&spec, causes);
}

fn check_capacity(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    each_quantity(spec, "capacity", &mut |field, _, quantity| {
        let amount = crate::model::quantity::read(quantity).unwrap_or_default();
        let invalid = |why: &str| Cause::invalid(field, &format!("{quantity:?}"), why);
        if amount < 0 {
            causes.push(invalid("must be a valid resource quantity"));
        }
        if amount <= 0 {
            causes.push(invalid("must be greater than zero"));
        }
    });
}

/// The sources of a volume, in the order in which kube-apiserver validates them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Validates the names of the storage class and the volume attributes class.
pub(crate) fn check_classes(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    for name in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.text(name);
        if !class.is_empty() {
            NameFormat::Subdomain.check(&spec.field_path(name), class, causes);
        }
    }
}

fn check_affinity(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(affinity) = spec.get("nodeAffinity").filter(|affinity| !affinity.is_null()) else { return };
    let at = spec.part("nodeAffinity");
    match affinity.get("required").filter(|required| !required.is_null()) {
        None => {
            let why = "must specify required node constraints";
            causes.push(required(&at.field_path("required"), why));
        }
        Some(_) => check_node_selector(&at.part("required"), causes),
    }
}

/// The maximum length of the name of a CSI driver, in bytes.
const MAX_DRIVER_BYTES: usize = 63;

fn check_csi(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_driver(at, causes);
    if at.text("volumeHandle").is_empty() {
        causes.push(required(&at.field_path("volumeHandle"), ""));
    }
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if at.get(name).is_some() {
            check_secret_reference(&at.part(name), causes);
        }
    }
}

fn check_secret_reference(at: &FieldView<'_, '_>, causes: &mut Causes) {
    for (name, format) in [("name", NameFormat::Subdomain), ("namespace", NameFormat::Label)] {
        match at.text(name) {
            "" => causes.push(required(&at.field_path(name), "")),
            text => format.check(&at.field_path(name), text, causes),
        }
    }
}

/// Validates the name of a CSI driver.
pub(crate) fn check_driver(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (driver, field) = (at.text("driver"), at.field_path("driver"));
    if driver.is_empty() {
        return causes.push(required(&field, ""));
    }
    if driver.len() > MAX_DRIVER_BYTES {
        causes.push(Cause::too_long(&field, MAX_DRIVER_BYTES));
    }
    NameFormat::Subdomain.check(&field, &driver.to_lowercase(), causes);
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    // kube-apiserver validates an updated volume twice.
    validate(at, causes);
    let (new, Some(old)) = (&at.value["spec"], at.old.map(|old| &old["spec"])) else { return };
    let sets_secret = old["csi"]["controllerExpandSecretRef"].is_null();
    let source = |spec: &Value| {
        let mut source = spec.as_object().cloned().unwrap_or_default();
        source.retain(|name, _| !NON_SOURCE_FIELDS.contains(&name.as_str()));
        // An update may set the Secret for expansions if the stored volume does not have one.
        if let Some(csi) = source.get_mut("csi").and_then(Value::as_object_mut).filter(|_| sets_secret) {
            csi.remove("controllerExpandSecretRef");
        }
        source
    };
    if source(new) != source(old) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    if !old["nodeAffinity"].is_null() && new["nodeAffinity"] != old["nodeAffinity"] {
        let why = "field is immutable, except for updating from beta label to GA";
        causes.push(Cause::invalid("nodeAffinity", &new["nodeAffinity"].to_string(), why));
    }
    if new["volumeMode"] != old["volumeMode"] {
        let shown = new["volumeMode"].to_string();
        causes.push(Cause::invalid("volumeMode", &shown, IMMUTABLE));
    }
}

pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) const CLASS_ANNOTATION_IS_OLD: &str =
    "deprecated since v1.8; use \"storageClassName\" attribute instead";

const OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

fn warn(volume: &Value) -> Vec<String> {
    let annotations = [
        (CLASS_ANNOTATION, CLASS_ANNOTATION_IS_OLD),
        (OPTIONS_ANNOTATION, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    let old = annotations.iter().filter(|(name, _)| has_annotation(volume, name));
    let mut warnings: Vec<String> =
        old.map(|(name, why)| format!("metadata.annotations[{name}]: {why}")).collect();
    let spec = &volume["spec"];
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
                   provisioning.";
        warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
    }
    for (index, term) in list(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]).enumerate() {
        warnings.extend(node_term(
            term,
            false,
            &format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]"),
        ));
    }
    for source in ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"] {
        let known =
            DEPRECATED_SOURCES.iter().chain(&LATER_DEPRECATED_SOURCES).find(|(name, _)| *name == source);
        if let Some((_, why)) = known.filter(|_| spec[source].is_object()) {
            warnings.push(format!("spec.{}: {why}", go_path(source)));
        }
    }
    warnings
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (object, spec, status) = (row.object, row.spec(), row.status());
    let claim = &spec["claimRef"];
    let claim = match text(&claim["name"]) {
        "" => String::new(),
        name => format!("{}/{name}", text(&claim["namespace"])),
    };
    vec![
        row.name(),
        json!(text(&spec["capacity"]["storage"])),
        json!(access_modes(&spec["accessModes"])),
        json!(text(&spec["persistentVolumeReclaimPolicy"])),
        json!(volume_status(object)),
        json!(claim),
        json!(text(&spec["storageClassName"])),
        json!(or(&spec["volumeAttributesClassName"], UNSET)),
        json!(text(&status["reason"])),
        row.age(),
        json!(or(&spec["volumeMode"], UNSET)),
    ]
}

pub(crate) fn volume_status(object: &Value) -> &str {
    if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else {
        text(&object["status"]["phase"])
    }
}

pub(crate) fn access_modes(modes: &Value) -> String {
    joined(
        list(modes).map(|mode| match text(mode) {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }),
        "",
    )
}
