//! Admission plugins for StorageClasses and IngressClasses: set the default class, and restrict the expansion
//! of PVCs.

use informer_core::Gvr;
use serde_json::Value;

use super::{AdmissionPlugin, NewObject, PendingWrite, part, set};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::quantity::exceeds;

const STORAGE_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    // The deprecated beta annotation.
    "storageclass.beta.kubernetes.io/is-default-class",
];
const INGRESS_DEFAULT: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// Deprecated annotation with the name of a PVC's StorageClass.
const STORAGE_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) struct DefaultStorageClass;

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "PersistentVolumeClaim") {
            admission.set_default_storage_class(write.object);
        }
        Ok(())
    }
}

pub(super) struct DefaultIngressClass;

impl AdmissionPlugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("networking.k8s.io", "Ingress") {
            admission.set_default_ingress_class(write.object);
        }
        Ok(())
    }
}

/// Rejects the expansion of PVCs whose StorageClass does not allow it.
pub(super) struct PersistentVolumeClaimResize;

impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        if let Some(old) = write.old
            && write.kind().is("", "PersistentVolumeClaim")
        {
            admission.check_expansion(write, old)?;
        }
        Ok(Vec::new())
    }
}

impl Admission {
    fn set_default_storage_class(&self, claim: &mut Object) {
        if class_of_claim(claim).is_none()
            && let Some(name) = self.default_class_of(&storage_classes(), &STORAGE_DEFAULT)
        {
            set(claim, "storageClassName", name.into());
        }
    }

    fn set_default_ingress_class(&self, ingress: &mut Object) {
        let named = part(ingress, "spec")["ingressClassName"].is_string()
            || annotation(ingress, INGRESS_ANNOTATION).is_some();
        let classes = Gvr::new("networking.k8s.io", "v1", "ingressclasses");
        if !named && let Some(name) = self.default_class_of(&classes, &INGRESS_DEFAULT) {
            set(ingress, "ingressClassName", name.into());
        }
    }

    fn check_expansion(&self, write: PendingWrite<'_>, old: &Object) -> Result<(), ApiError> {
        let size = |claim| part(claim, "spec")["resources"]["requests"]["storage"].as_str().unwrap_or("0");
        if !exceeds(size(write.object), size(old)) {
            return Ok(());
        }
        let why = if part(old, "status")["phase"] != "Bound" {
            "Only bound persistent volume claims can be expanded"
        } else if !self.may_expand(write.object, old) {
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        } else {
            return Ok(());
        };
        Err(ApiError::forbidden(&write.scope.resource.kind, write.name, why))
    }

    fn may_expand(&self, claim: &Object, old: &Object) -> bool {
        let named =
            class_of_claim(claim).filter(|name| !name.is_empty() && class_of_claim(old) == Some(name));
        let class = named.and_then(|name| self.class_of(&storage_classes(), name));
        class.is_some_and(|class| class["allowVolumeExpansion"] == true)
    }

    /// Returns the name of the default class. Of several default classes the newest is used, and of equally
    /// new ones the first by name.
    fn default_class_of(&self, classes: &Gvr, marks: &[&str]) -> Option<String> {
        let classes = self.resource(classes).ok()?;
        let live = self.storage.read().live(classes.table);
        let marked = live.iter().filter_map(|stored| {
            let class = parse(stored.as_slice());
            let metadata = &class["metadata"];
            let is_default = marks.iter().any(|mark| metadata["annotations"][*mark] == "true");
            let made = metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned();
            is_default.then(|| (made, stored.key.name().to_owned()))
        });
        // The classes are ordered by name, so `>` keeps the first of several classes with the same creation
        // time.
        let newest = marked.reduce(|newest, other| if other.0 > newest.0 { other } else { newest });
        newest.map(|(_, name)| name)
    }
}

fn storage_classes() -> Gvr {
    Gvr::new("storage.k8s.io", "v1", "storageclasses")
}

/// Returns the StorageClass that a PVC names. An empty name counts, too: the PVC explicitly uses no class.
fn class_of_claim(claim: &Object) -> Option<&str> {
    annotation(claim, STORAGE_ANNOTATION).or_else(|| part(claim, "spec")["storageClassName"].as_str())
}

fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    part(object, "metadata")["annotations"].get(name).and_then(Value::as_str)
}
