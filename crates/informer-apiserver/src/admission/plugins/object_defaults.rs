//! Admission plugins that need only the new object: DefaultTolerationSeconds, StorageObjectInUseProtection,
//! TaintNodesByCondition.

use super::{AdmissionPlugin, NewObject};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::kinds::core::node::taint_new_node;
use crate::model::kinds::core::pod::add_tolerations;
use crate::model::rules::{add_finalizer, with_value};

/// Adds tolerations that let a pod stay on a not-ready or unreachable node for five minutes.
pub(super) struct DefaultTolerationSeconds;

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn mutate(&self, _admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") {
            with_value(write.object, add_tolerations);
        }
        Ok(())
    }
}

/// Adds the finalizers that delay the deletion of PVs and PVCs while they are in use.
pub(super) struct StorageObjectInUseProtection;

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate(&self, _admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "PersistentVolume") {
            with_value(write.object, |volume| add_finalizer(volume, "kubernetes.io/pv-protection"));
        } else if write.kind.is("", "PersistentVolumeClaim") {
            with_value(write.object, |claim| add_finalizer(claim, "kubernetes.io/pvc-protection"));
        }
        Ok(())
    }
}

pub(super) struct TaintNodesByCondition;

impl AdmissionPlugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate(&self, _admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Node") {
            with_value(write.object, taint_new_node);
        }
        Ok(())
    }
}
