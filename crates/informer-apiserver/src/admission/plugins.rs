//! Admission plugins that read other objects: PodSecurity, default StorageClass/IngressClass/RuntimeClass,
//! priority classes, topology labels.
//!
//! The plugins are enabled by default. They hold no lock while they decide, and internal writes skip them.
//! Each first checks the kind, and
//! then whether the labels or classes that it needs exist.

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
pub(crate) struct Coming<'a> {
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
    pub(crate) fn judge(&self, coming: Coming<'_>, mut told: Vec<String>) -> Result<Vec<String>, ApiError> {
        let Coming { scope, mode, .. } = coming;
        if scope.validation == Validation::Unchecked || mode != WriteMode::Main || scope.scales {
            return Ok(told);
        }
        match self.judge_security(coming) {
            Ok(warnings) => told.extend(warnings),
            Err(error) => return Err(error.warned(told)),
        }
        match self.judge_classes(coming) {
            Ok(()) => Ok(told),
            Err(error) => Err(error.warned(told)),
        }
    }

    fn judge_classes(&self, coming: Coming<'_>) -> Result<(), ApiError> {
        let kind = &coming.scope.resource.kind;
        match coming.old {
            Some(old) if kind.is("", "PersistentVolumeClaim") => self.judge_growth(coming, old),
            None if kind.is("", "Pod") => self.judge_overhead(coming),
            _ if kind.is("scheduling.k8s.io", "PriorityClass") => self.judge_default(coming),
            _ => Ok(()),
        }
    }

    /// Allows only one PriorityClass with `globalDefault`.
    fn judge_default(&self, coming: Coming<'_>) -> Result<(), ApiError> {
        if part(coming.object, "globalDefault") != true {
            return Ok(());
        }
        let known = self.default_class();
        let known = known.as_ref().and_then(|class| class["metadata"]["name"].as_str());
        let Some(other) = known.filter(|known| coming.old.is_none() || *known != coming.name) else {
            return Ok(());
        };
        let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
        Err(ApiError::forbidden(&coming.scope.resource.kind, coming.name, &why))
    }

    /// Applies defaults that depend on other objects. Runs before the mutating webhooks.
    pub(crate) fn fill_from_others(&self, kind: &Kind, object: &mut Object) -> Result<(), ApiError> {
        if kind.is("", "Pod") {
            self.fill_from_runtime_class(kind, object)?;
            self.label_placed(object);
        }
        if kind.is("", "PersistentVolumeClaim") {
            self.name_storage_class(object);
        } else if kind.is("networking.k8s.io", "Ingress") {
            self.name_ingress_class(object);
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
