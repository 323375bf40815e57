//! The result of all checks of a level.

use super::checks::{BASELINE, Complaint, NEWEST, RESTRICTED};
use super::labels::{Asked, Level, Version};
use super::pod::Pod;

/// The violations of a pod, in the same order as in kube-apiserver.
pub(super) struct Verdict(Vec<Complaint>);

impl Verdict {
    pub(super) fn of(asked: Asked, pod: &Pod<'_>) -> Self {
        let version = match asked.version {
            Version::Minor(minor) => minor.min(NEWEST),
            Version::Latest => NEWEST,
        };
        let restricted = asked.level == Level::Restricted;
        let replaced = |since: Option<i64>| restricted && since.is_some_and(|since| since <= version);
        let baseline = BASELINE.iter().filter(|check| !replaced(check.replaced_since));
        let baseline = baseline.filter(|_| asked.level >= Level::Baseline);
        let restricted = RESTRICTED.iter().filter(|_| restricted);
        let complaints = baseline.chain(restricted).filter_map(|check| check.at(version)?(pod));
        Self(complaints.collect())
    }

    pub(super) fn allows(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons of all violations.
    pub(super) fn reason(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|complaint| complaint.reason).collect();
        reasons.join(", ")
    }

    /// Returns the reasons of all violations with details.
    pub(super) fn detail(&self) -> String {
        let told = self.0.iter().map(|complaint| format!("{} ({})", complaint.reason, complaint.detail));
        told.collect::<Vec<_>>().join(", ")
    }
}
