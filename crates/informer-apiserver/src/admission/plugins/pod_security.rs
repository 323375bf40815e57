//! The `PodSecurity` plugin: enforces the Pod Security Standards that the labels of a namespace select. The
//! checks are in [`checks`].
//!
//! Violations reject pods or cause warnings. For pod templates they only cause warnings. There is no audit
//! log: `audit` labels are
//! only validated.

mod checks;
mod labels;
mod messages;
mod namespaces;
mod pod;
mod verdict;

use informer_core::Gvr;
use serde_json::Value;

use super::{Coming, part};
use crate::admission::Admission;
use crate::model::error::ApiError;
use labels::{Level, Policy};
use pod::Pod;
use verdict::Verdict;

impl Admission {
    pub(super) fn judge_security(&self, coming: Coming<'_>) -> Result<Vec<String>, ApiError> {
        let kind = &coming.scope.resource.kind;
        if kind.is("", "Namespace") {
            return self.judge_namespace(coming);
        }
        let Some(way) = pod::way_to_template(kind) else { return Ok(Vec::new()) };
        let Some(policy) = self.policy_of(coming.scope.namespace) else { return Ok(Vec::new()) };
        let enforced = kind.is("", "Pod");
        let asks = enforced && policy.enforce.level > Level::Privileged;
        if !asks && policy.warn.level == Level::Privileged {
            return Ok(Vec::new());
        }
        if enforced && coming.old.is_some_and(|old| !pod::is_significant(old, coming.object)) {
            return Ok(Vec::new());
        }
        let Some(pod) = Pod::in_object(coming.object, way) else { return Ok(Vec::new()) };
        if asks {
            let verdict = Verdict::of(policy.enforce, &pod);
            if !verdict.allows() {
                let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, verdict.detail());
                return Err(ApiError::forbidden(kind, coming.name, &why));
            }
        }
        let verdict = Verdict::of(policy.warn, &pod);
        let warning = || format!("would violate PodSecurity \"{}\": {}", policy.warn, verdict.detail());
        Ok((!verdict.allows()).then(warning).into_iter().collect())
    }

    /// Returns the levels of a namespace, or `None` if it has no PodSecurity labels.
    fn policy_of(&self, namespace: Option<&str>) -> Option<Policy> {
        let namespaces = self.resource(&Gvr::new("", "v1", "namespaces")).ok()?;
        let found = self.storage.read().get(namespaces.table, namespace?).cloned()?;
        let asks = found.labels.iter().any(|(name, _)| name.starts_with(labels::PREFIX));
        asks.then(|| Policy::of(|name| found.labels.get(name)).0)
    }
}

/// Returns a label of a namespace that is being written.
fn label<'a>(namespace: &'a super::Object, name: &str) -> Option<&'a str> {
    part(namespace, "metadata")["labels"].get(name).and_then(Value::as_str)
}
