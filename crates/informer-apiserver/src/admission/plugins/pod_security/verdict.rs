//! What all checks of a level say of a pod.

use super::checks::{BASELINE, Complaint, NEWEST, RESTRICTED};
use super::labels::{Asked, Level, Version};
use super::pod::Pod;

/// The complaints about a pod, in upstream's order.
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

    /// The complaints in short.
    pub(super) fn reason(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|complaint| complaint.reason).collect();
        reasons.join(", ")
    }

    /// The complaints, each with what it is about.
    pub(super) fn detail(&self) -> String {
        let told = self.0.iter().map(|complaint| format!("{} ({})", complaint.reason, complaint.detail));
        told.collect::<Vec<_>>().join(", ")
    }
}
