//! Validates the PodSecurity labels of a namespace, and warns about existing pods that violate a new
//! `enforce` level.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use informer_core::Gvr;

use super::labels::{LevelVersion, NamespaceLevels, PodSecurityLevel};
use super::pod::Pod;
use super::{PendingWrite, PodViolations, label};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::registry::storage::Stored;

/// Maximum number of pods that are checked when the labels of their namespace change.
const MAX_PODS: usize = 3000;

impl Admission {
    pub(super) fn check_namespace_labels(&self, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let PendingWrite { object, old, name, .. } = write;
        let (levels, causes) = NamespaceLevels::of(|name| label(object, name));
        let (before, causes_before) = match old {
            Some(old) => NamespaceLevels::of(|name| label(old, name)),
            None => NamespaceLevels::of(|_| None),
        };
        let texts = |causes: &[crate::model::cause::Cause]| {
            causes.iter().map(|cause| (cause.field.clone(), cause.message.clone())).collect::<Vec<_>>()
        };
        // An update may keep PodSecurity labels that are already invalid in the stored namespace.
        if !causes.is_empty() && texts(&causes) != texts(&causes_before) {
            return Err(ApiError::invalid_fields(&write.scope.resource.kind, name, causes));
        }
        let (level_version, was) = (levels.enforce, before.enforce);
        let relaxed = level_version.version == was.version && level_version.level <= was.level;
        if old.is_none() || level_version.level == PodSecurityLevel::Privileged || relaxed {
            return Ok(Vec::new());
        }
        Ok(self.pod_warnings(name, level_version))
    }

    fn pod_warnings(&self, namespace: &str, level_version: LevelVersion) -> Vec<String> {
        let (pods, all) = self.pods_to_check(namespace);
        // Maps each violation to the first name and the number of the pods that have it.
        let mut by_reason: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for stored in &pods {
            let pod = parse(stored.as_slice());
            let verdict = PodViolations::of(level_version, &Pod::of(&pod));
            if !verdict.allows() {
                let (first, count) = by_reason.entry(verdict.reason()).or_insert((stored.key.name(), 0));
                *first = stored.key.name().min(*first);
                *count += 1;
            }
        }
        let mut lines: Vec<_> =
            by_reason.iter().map(|(why, (first, count))| line(first, *count, why)).collect();
        lines.sort();
        let mut warnings = Vec::new();
        if pods.len() < all {
            let checked = pods.len();
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
            ));
        }
        if !lines.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{level_version}\""
            ));
        }
        warnings.extend(lines);
        warnings
    }

    /// Returns up to [`MAX_PODS`] pods of a namespace, and the number of all its pods. Pods without an owner
    /// and the first pod of each owner come before the others, because pods of the same owner mostly have the
    /// same violations.
    fn pods_to_check(&self, namespace: &str) -> (Vec<Arc<Stored>>, usize) {
        let Ok(pods) = self.resource(&Gvr::new("", "v1", "pods")) else { return (Vec::new(), 0) };
        let live = self.storage.read().live(pods.table);
        let prefix = format!("{namespace}/");
        let mut owners = HashSet::new();
        let of_namespace = live.from(&prefix).take_while(|stored| stored.key.as_str().starts_with(&prefix));
        let (mut first, others): (Vec<_>, Vec<_>) = of_namespace
            .cloned()
            .partition(|stored| stored.owners.first().is_none_or(|owner| owners.insert(owner.clone())));
        first.extend(others);
        let all = first.len();
        first.truncate(MAX_PODS);
        (first, all)
    }
}

fn line(first: &str, count: usize, why: &str) -> String {
    match count {
        1 => format!("{first}: {why}"),
        2 => format!("{first} (and 1 other pod): {why}"),
        count => format!("{first} (and {} other pods): {why}", count - 1),
    }
}
