//! The result of all Pod Security checks of one level for a pod.

use super::checks::{BASELINE, NEWEST, PodViolation, RESTRICTED};
use super::labels::{LevelVersion, PodSecurityLevel, Version};
use super::pod::Pod;

/// The violations of a pod, in the order in which kube-apiserver reports them.
pub(super) struct PodViolations(Vec<PodViolation>);

impl PodViolations {
    pub(super) fn of(level_version: LevelVersion, pod: &Pod<'_>) -> Self {
        let version = match level_version.version {
            Version::Minor(minor) => minor.min(NEWEST),
            Version::Latest => NEWEST,
        };
        let restricted = level_version.level == PodSecurityLevel::Restricted;
        let replaced = |since: Option<i64>| restricted && since.is_some_and(|since| since <= version);
        let baseline = BASELINE.iter().filter(|check| !replaced(check.replaced_since));
        let baseline = baseline.filter(|_| level_version.level >= PodSecurityLevel::Baseline);
        let restricted = RESTRICTED.iter().filter(|_| restricted);
        let violations = baseline.chain(restricted).filter_map(|check| check.at(version)?(pod));
        Self(violations.collect())
    }

    pub(super) fn allows(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn reason(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|violation| violation.reason).collect();
        reasons.join(", ")
    }

    /// Returns the reasons of all violations, each with its detail in parentheses, as a comma-separated
    /// string.
    pub(super) fn detail(&self) -> String {
        let details = self.0.iter().map(|violation| format!("{} ({})", violation.reason, violation.detail));
        details.collect::<Vec<_>>().join(", ")
    }
}
