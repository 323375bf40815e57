use std::collections::BTreeMap;
use std::ops::AddAssign;

use informer_cache::proto::ReflectorNotice;
use informer_cache::reflector::{ReflectorPhase, RelistReason};

use crate::fault::Fault;

/// Counts of what the schedules have exercised: faults, phase changes and other events.
#[derive(Debug, Clone)]
pub struct Coverage {
    faults: Vec<u64>,
    transitions: BTreeMap<(&'static str, &'static str), u64>,
    reasons: BTreeMap<&'static str, u64>,
    notices: BTreeMap<&'static str, u64>,
    pub(crate) marks: BTreeMap<&'static str, u64>,
}

/// The phase changes that the rules of a reflector, a candidate of the election and a controller allow. A run
/// of many schedules must exercise each of them, and no other.
pub const TRANSITIONS: &[(&str, &str)] = &[
    ("created", "listing"),
    ("created", "streaming"),
    // The reflector leaves its first phase because a relist or a stop was requested before anything else
    // happened.
    ("created", "waiting"),
    ("created", "stopped"),
    ("waiting", "checking"),
    ("waiting", "listing"),
    ("waiting", "streaming"),
    ("waiting", "opening"),
    ("waiting", "stopped"),
    ("listing", "opening"),
    ("listing", "waiting"),
    ("listing", "streaming"),
    ("listing", "stopped"),
    ("streaming", "watching"),
    ("streaming", "listing"),
    ("streaming", "waiting"),
    ("streaming", "stopped"),
    ("opening", "watching"),
    ("opening", "waiting"),
    ("opening", "stopped"),
    ("watching", "opening"),
    // The source must be read in another encoding.
    ("watching", "listing"),
    ("watching", "streaming"),
    ("opening", "listing"),
    ("opening", "streaming"),
    ("watching", "checking"),
    ("checking", "opening"),
    ("checking", "waiting"),
    ("checking", "stopped"),
    ("watching", "waiting"),
    ("watching", "stopped"),
    ("controller starts", "stopped"),
    ("controller runs", "drained"),
    ("controller runs", "cancelled"),
    ("controller runs", "dropped"),
    ("standby", "leading"),
    ("standby", "ended"),
    ("standby", "crashed"),
    ("leading", "lost"),
    ("leading", "releasing"),
    ("leading", "ended"),
    ("leading", "crashed"),
    ("releasing", "ended"),
    ("releasing", "crashed"),
];

impl Default for Coverage {
    fn default() -> Self {
        Self {
            faults: vec![0; Fault::ALL.len()],
            transitions: TRANSITIONS.iter().map(|transition| (*transition, 0)).collect(),
            reasons: RelistReason::ALL.iter().map(|reason| (reason.as_str(), 0)).collect(),
            notices: NOTICES.iter().map(|notice| (*notice, 0)).collect(),
            marks: BTreeMap::new(),
        }
    }
}

const NOTICES: &[&str] = &[
    "relist",
    "failed",
    "recovering",
    "streaming-list-failed",
    "stale-list",
    "rewound",
    "duplicates",
    "silent-watch",
    "unknown-event",
    "resync-due",
];

impl Coverage {
    pub(crate) fn hit(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub(crate) fn moved(&mut self, from: ReflectorPhase, to: ReflectorPhase) {
        if from != to {
            self.passed(phase(from), phase(to));
        }
    }

    pub(crate) fn passed(&mut self, from: &'static str, to: &'static str) {
        *self.transitions.entry((from, to)).or_default() += 1;
    }

    pub(crate) fn reason(&mut self, reason: RelistReason, count: u64) {
        *self.reasons.entry(reason.as_str()).or_default() += count;
    }

    pub(crate) fn notice(&mut self, notice: &ReflectorNotice) {
        *self.notices.entry(word(notice)).or_default() += 1;
    }

    pub(crate) fn mark(&mut self, what: &'static str, count: u64) {
        *self.marks.entry(what).or_default() += count;
    }

    /// Returns how often a fault had an effect in the schedules.
    pub fn of(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Returns the name and the count of each counted event, sorted by kind.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let mut rows = Vec::new();
        rows.extend(Fault::ALL.iter().map(|fault| (format!("fault {}", fault.as_str()), self.of(*fault))));
        rows.extend(
            self.transitions.iter().map(|((from, to), count)| (format!("transition {from} -> {to}"), *count)),
        );
        rows.extend(self.reasons.iter().map(|(reason, count)| (format!("list {reason}"), *count)));
        rows.extend(self.notices.iter().map(|(notice, count)| (format!("notice {notice}"), *count)));
        rows.extend(self.marks.iter().map(|(mark, count)| (format!("reached {mark}"), *count)));
        rows
    }
}

impl AddAssign<&Coverage> for Coverage {
    fn add_assign(&mut self, other: &Coverage) {
        self.faults.iter_mut().zip(&other.faults).for_each(|(sum, count)| *sum += count);
        for (transition, count) in &other.transitions {
            *self.transitions.entry(*transition).or_default() += count;
        }
        for (sums, counts) in [
            (&mut self.reasons, &other.reasons),
            (&mut self.notices, &other.notices),
            (&mut self.marks, &other.marks),
        ] {
            counts.iter().for_each(|(name, count)| *sums.entry(name).or_default() += count);
        }
    }
}

pub(crate) fn phase(phase: ReflectorPhase) -> &'static str {
    match phase {
        ReflectorPhase::Created => "created",
        ReflectorPhase::Listing => "listing",
        ReflectorPhase::StreamingList => "streaming",
        ReflectorPhase::Checking => "checking",
        ReflectorPhase::OpeningWatch => "opening",
        ReflectorPhase::Watching => "watching",
        ReflectorPhase::BackingOff => "waiting",
        ReflectorPhase::Stopped => "stopped",
        _ => "other",
    }
}

fn word(notice: &ReflectorNotice) -> &'static str {
    match notice {
        ReflectorNotice::Relist(_) => "relist",
        ReflectorNotice::Failed { .. } => "failed",
        ReflectorNotice::Recovering(_) => "recovering",
        ReflectorNotice::StreamingListFailed => "streaming-list-failed",
        ReflectorNotice::StaleList { .. } => "stale-list",
        ReflectorNotice::Rewound { .. } => "rewound",
        ReflectorNotice::Duplicates(_) => "duplicates",
        ReflectorNotice::SilentWatch => "silent-watch",
        ReflectorNotice::UnknownEvent(_) => "unknown-event",
        ReflectorNotice::ResyncDue => "resync-due",
        _ => "other",
    }
}
