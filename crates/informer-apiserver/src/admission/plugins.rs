//! The admission plugins of the server, in the order of kube-apiserver, and the set of enabled ones.
//!
//! A new plugin is a file below this module that implements [`AdmissionPlugin`], and an entry of [`PLUGINS`].
//! No lock is held while a plugin runs. Plugins do not run for writes of the server itself or of the
//! embedding program. A plugin validates writes to the main resource, unless [`AdmissionPlugin::validates`]
//! names subresources. In each phase all plugins run before the policies and webhooks. ResourceQuota is
//! charged last, see `pipeline/quota_usage.rs`.

mod certificates;
mod classes;
mod limit_ranger;
mod object_defaults;
mod owner_references;
mod pod_resize;
mod pod_security;
mod priority;
mod runtime_class;
mod topology;

use std::fmt;

use informer_core::Gvr;
use serde_json::Value;

use crate::admission::{Admission, Scope};
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::write_options::{FieldValidation, WriteMode};
use certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use classes::{DefaultIngressClass, DefaultStorageClass, PersistentVolumeClaimResize};
use limit_ranger::LimitRanger;
use object_defaults::{DefaultTolerationSeconds, StorageObjectInUseProtection, TaintNodesByCondition};
use owner_references::OwnerReferencesPermissionEnforcement;
use pod_resize::{NodeDeclaredFeatureValidator, PodResizeValidator};
use pod_security::PodSecurity;
use priority::Priority;
use runtime_class::RuntimeClass;
use topology::PodTopologyLabels;

trait AdmissionPlugin: Sync {
    /// The name of the plugin in kube-apiserver, which enables or disables it.
    fn name(&self) -> &'static str;

    fn is_enabled_by_default(&self) -> bool {
        true
    }

    /// Returns true if the plugin validates writes to this subresource, or to the main resource.
    fn validates(&self, mode: WriteMode) -> bool {
        mode == WriteMode::Main
    }

    /// Changes or rejects a new object before the mutating webhooks are called.
    fn mutate(&self, _admission: &Admission, _write: &mut NewObject<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    /// Changes the pod in a resize before the mutating webhooks are called.
    fn mutate_resize(&self, _admission: &Admission, _write: &mut NewObject<'_>) {}

    /// Rejects a write before the validating webhooks are called, or returns warnings for the client.
    fn validate(&self, _admission: &Admission, _write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        Ok(Vec::new())
    }
}

const PLUGINS: [&dyn AdmissionPlugin; 17] = [
    &LimitRanger,
    &TaintNodesByCondition,
    &PodSecurity,
    &Priority,
    &DefaultTolerationSeconds,
    &DefaultStorageClass,
    &StorageObjectInUseProtection,
    &OwnerReferencesPermissionEnforcement,
    &PersistentVolumeClaimResize,
    &RuntimeClass,
    &CertificateApproval,
    &CertificateSigning,
    &CertificateSubjectRestriction,
    &DefaultIngressClass,
    &PodTopologyLabels,
    &NodeDeclaredFeatureValidator,
    &PodResizeValidator,
];

/// The names of plugins that a server enables or disables. A plugin that is in neither list has its default.
#[derive(Debug, Clone, Default)]
pub(crate) struct PluginChoice {
    enabled: Vec<&'static str>,
    disabled: Vec<&'static str>,
}

/// An error for the name of an admission plugin that the server does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot enable or disable admission plugin {name:?}: the server has only {known}")]
pub struct UnknownAdmissionPlugin {
    name: String,
    known: String,
}

impl PluginChoice {
    pub(crate) fn enable(&mut self, name: &str) -> Result<(), UnknownAdmissionPlugin> {
        let name = plugin_name(name)?;
        self.disabled.retain(|disabled| *disabled != name);
        self.enabled.push(name);
        Ok(())
    }

    pub(crate) fn disable(&mut self, name: &str) -> Result<(), UnknownAdmissionPlugin> {
        let name = plugin_name(name)?;
        self.enabled.retain(|enabled| *enabled != name);
        self.disabled.push(name);
        Ok(())
    }

    fn includes(&self, plugin: &dyn AdmissionPlugin) -> bool {
        let name = plugin.name();
        self.enabled.contains(&name) || (plugin.is_enabled_by_default() && !self.disabled.contains(&name))
    }
}

/// Returns the names of all plugins in the order of kube-apiserver.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.name())
}

fn plugin_name(name: &str) -> Result<&'static str, UnknownAdmissionPlugin> {
    names().find(|known| *known == name).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        UnknownAdmissionPlugin { name: name.to_owned(), known: known.join(", ") }
    })
}

/// The enabled plugins, in the order of kube-apiserver.
pub(crate) struct EnabledPlugins(Vec<&'static dyn AdmissionPlugin>);

impl EnabledPlugins {
    pub(crate) fn new(choice: &PluginChoice) -> Self {
        Self(PLUGINS.into_iter().filter(|plugin| choice.includes(*plugin)).collect())
    }
}

impl fmt::Debug for EnabledPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|plugin| plugin.name())).finish()
    }
}

struct NewObject<'a> {
    kind: &'a KindDefinition,
    namespace: Option<&'a str>,
    object: &'a mut Object,
}

/// A write that is about to be stored. `object` is the state to store, and `old` is the stored state before
/// the write.
#[derive(Clone, Copy)]
pub(crate) struct PendingWrite<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) mode: WriteMode,
    pub(crate) name: &'a str,
    pub(crate) object: &'a Object,
    pub(crate) old: Option<&'a Object>,
}

impl<'a> PendingWrite<'a> {
    fn kind(&self) -> &'a KindDefinition {
        &self.scope.resource.kind
    }
}

impl Admission {
    pub(crate) fn run_mutating_plugins(
        &self,
        kind: &KindDefinition,
        namespace: Option<&str>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        let mut write = NewObject { kind, namespace, object };
        self.plugins.0.iter().try_for_each(|plugin| plugin.mutate(self, &mut write))
    }

    /// Changes a pod that is resized. `old` is the stored pod.
    pub(crate) fn run_resize_plugins(&self, scope: Scope<'_>, old: &Object, object: &mut Object) {
        if scope.validation == FieldValidation::Unchecked || is_terminating(old) {
            return;
        }
        let mut write = NewObject { kind: scope.kind(), namespace: scope.namespace, object };
        self.plugins.0.iter().for_each(|plugin| plugin.mutate_resize(self, &mut write));
    }

    /// Adds the warnings of the plugins to `warnings`. If a plugin rejects the write, the warnings of the
    /// plugins before it are kept.
    pub(crate) fn run_validating_plugins(
        &self,
        write: PendingWrite<'_>,
        mut warnings: Vec<String>,
    ) -> Result<Vec<String>, ApiError> {
        let PendingWrite { scope, mode, .. } = write;
        if scope.validation == FieldValidation::Unchecked || scope.scales {
            return Ok(warnings);
        }
        for plugin in self.plugins.0.iter().filter(|plugin| plugin.validates(mode)) {
            match plugin.validate(self, write) {
                Ok(found) => warnings.extend(found),
                Err(error) => return Err(error.warned(warnings)),
            }
        }
        Ok(warnings)
    }

    fn class_of(&self, classes: &Gvr, name: &str) -> Option<Value> {
        let classes = self.resource(classes).ok()?;
        let found = self.storage.read().get(classes.table, name).cloned()?;
        Some(parse(found.as_slice()))
    }
}

fn set(object: &mut Object, name: &str, value: Value) {
    object.entry("spec").or_insert(Value::Null)[name] = value;
}

fn is_terminating(object: &Object) -> bool {
    part(object, "metadata")["deletionTimestamp"].is_string()
}

/// Returns a top-level field of an object, or `null` if it is missing.
fn part<'a>(object: &'a Object, name: &str) -> &'a Value {
    const MISSING: &Value = &Value::Null;
    object.get(name).unwrap_or(MISSING)
}
