//! The `PodSecurity` plugin: enforces the Pod Security Standards that the labels of a namespace select. The
//! checks are in [`checks`].
//!
//! A pod that violates a level is rejected or causes a warning. A pod template that violates a level only
//! causes a warning. There is no audit log: `audit` labels are only validated.

mod checks;
mod labels;
mod messages;
mod namespaces;
mod pod;
mod verdict;

use informer_core::Gvr;
use serde_json::Value;

use super::{AdmissionPlugin, PendingWrite, part};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::write_options::WriteMode;
use labels::{NamespaceLevels, PodSecurityLevel};
use pod::Pod;
use verdict::PodViolations;

pub(super) struct PodSecurity;

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validates(&self, mode: WriteMode) -> bool {
        matches!(mode, WriteMode::Main | WriteMode::EphemeralContainers | WriteMode::Resize)
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        admission.check_pod_security(write)
    }
}

impl Admission {
    fn check_pod_security(&self, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let kind = &write.scope.resource.kind;
        if kind.is("", "Namespace") {
            return self.check_namespace_labels(write);
        }
        let Some(path) = kind.descriptor.pod_template else { return Ok(Vec::new()) };
        let Some(levels) = self.levels_of(write.scope.namespace) else { return Ok(Vec::new()) };
        let enforced = kind.is("", "Pod");
        let enforces = enforced && levels.enforce.level > PodSecurityLevel::Privileged;
        if !enforces && levels.warn.level == PodSecurityLevel::Privileged {
            return Ok(Vec::new());
        }
        if enforced && write.old.is_some_and(|old| !pod::affects_checks(old, write.object)) {
            return Ok(Vec::new());
        }
        let Some(pod) = Pod::in_object(write.object, path) else { return Ok(Vec::new()) };
        if enforces {
            let verdict = PodViolations::of(levels.enforce, &pod);
            if !verdict.allows() {
                let why = format!("violates PodSecurity \"{}\": {}", levels.enforce, verdict.detail());
                return Err(ApiError::forbidden(kind, write.name, &why));
            }
        }
        let verdict = PodViolations::of(levels.warn, &pod);
        let warning = || format!("would violate PodSecurity \"{}\": {}", levels.warn, verdict.detail());
        Ok((!verdict.allows()).then(warning).into_iter().collect())
    }

    /// Returns the PodSecurity levels of a namespace, or `None` if it has no PodSecurity labels.
    fn levels_of(&self, namespace: Option<&str>) -> Option<NamespaceLevels> {
        let namespaces = self.resource(&Gvr::new("", "v1", "namespaces")).ok()?;
        let found = self.storage.read().get(namespaces.table, namespace?).cloned()?;
        let enforces = found.labels.iter().any(|(name, _)| name.starts_with(labels::PREFIX));
        enforces.then(|| NamespaceLevels::of(|name| found.labels.get(name)).0)
    }
}

fn label<'a>(namespace: &'a crate::model::json::Object, name: &str) -> Option<&'a str> {
    part(namespace, "metadata")["labels"].get(name).and_then(Value::as_str)
}
