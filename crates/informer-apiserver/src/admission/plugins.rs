//! Admission plugins that read other objects: PodSecurity, default StorageClass/IngressClass/RuntimeClass,
//! priority classes, topology labels.
//!
//! The plugins are enabled by default. They hold no lock while they decide, and internal writes skip them.
//! Each first checks the kind, and then whether the labels or classes that it needs exist.

mod classes;
mod mutating;
mod pod_security;
mod runtime_class;
mod topology;

use informer_core::Gvr;
use serde_json::Value;

use crate::admission::{Admission, Scope};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::metadata::Object;
use crate::model::write_options::{Validation, WriteMode};

/// A write that is about to be stored. `object` is its final state, `old` the stored object.
#[derive(Clone, Copy)]
pub(crate) struct PendingWrite<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) mode: WriteMode,
    pub(crate) name: &'a str,
    pub(crate) object: &'a Object,
    pub(crate) old: Option<&'a Object>,
}

impl Admission {
    /// Runs the validating plugins. They run before the validating webhooks.
    ///
    /// Adds their warnings to `warnings`. An error carries the warnings that were collected so far.
    pub(crate) fn run_validating_plugins(
        &self,
        write: PendingWrite<'_>,
        mut warnings: Vec<String>,
    ) -> Result<Vec<String>, ApiError> {
        let PendingWrite { scope, mode, .. } = write;
        if scope.validation == Validation::Unchecked || mode != WriteMode::Main || scope.scales {
            return Ok(warnings);
        }
        match self.check_pod_security(write) {
            Ok(found) => warnings.extend(found),
            Err(error) => return Err(error.warned(warnings)),
        }
        match self.check_classes(write) {
            Ok(()) => Ok(warnings),
            Err(error) => Err(error.warned(warnings)),
        }
    }

    fn check_classes(&self, write: PendingWrite<'_>) -> Result<(), ApiError> {
        let kind = &write.scope.resource.kind;
        match write.old {
            Some(old) if kind.is("", "PersistentVolumeClaim") => self.check_expansion(write, old),
            None if kind.is("", "Pod") => self.check_overhead(write),
            _ if kind.is("scheduling.k8s.io", "PriorityClass") => self.check_default_priority_class(write),
            _ => Ok(()),
        }
    }

    /// Allows only one PriorityClass with `globalDefault`.
    fn check_default_priority_class(&self, write: PendingWrite<'_>) -> Result<(), ApiError> {
        if part(write.object, "globalDefault") != true {
            return Ok(());
        }
        let known = self.default_class();
        let known = known.as_ref().and_then(|class| class["metadata"]["name"].as_str());
        let Some(other) = known.filter(|known| write.old.is_none() || *known != write.name) else {
            return Ok(());
        };
        let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
        Err(ApiError::forbidden(&write.scope.resource.kind, write.name, &why))
    }

    /// Applies defaults that depend on other objects. Runs before the mutating webhooks.
    pub(crate) fn apply_object_defaults(&self, kind: &Kind, object: &mut Object) -> Result<(), ApiError> {
        if kind.is("", "Pod") {
            self.apply_runtime_class(kind, object)?;
            self.add_topology_labels(object);
        }
        if kind.is("", "PersistentVolumeClaim") {
            self.set_default_storage_class(object);
        } else if kind.is("networking.k8s.io", "Ingress") {
            self.set_default_ingress_class(object);
        }
        Ok(())
    }

    /// Returns a cluster-scoped class.
    fn class_of(&self, classes: &Gvr, name: &str) -> Option<Value> {
        let classes = self.resource(classes).ok()?;
        let found = self.storage.read().get(classes.table, name).cloned()?;
        Some(parse(found.as_slice()))
    }
}

fn set(object: &mut Object, name: &str, value: Value) {
    object.entry("spec").or_insert(Value::Null)[name] = value;
}

/// Returns a top-level field of an object, or null.
fn part<'a>(object: &'a Object, name: &str) -> &'a Value {
    const MISSING: &Value = &Value::Null;
    object.get(name).unwrap_or(MISSING)
}
