//! The record of a run: the trace, the violations, and the facts that checks compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use super::request::ProgramWrite;

/// The maximum number of lines of a trace.
const MAX_LINES: usize = 5_000;

/// The maximum number of requests of one process within a second of simulated time.
pub(super) const MAX_REQUESTS_PER_SECOND: u64 = 500;

/// A violated check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) check: &'static str,
    pub(super) text: String,
}

/// A process of the program: a replica, and how often it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId {
    pub(super) replica: usize,
    pub(super) start: usize,
}

impl Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.replica, self.start)
    }
}

#[derive(Debug)]
pub(super) struct Record {
    begin: Instant,
    lines: Vec<String>,
    violations: Vec<Violation>,
    /// The holder of each Lease, and all former holders.
    leases: BTreeMap<String, LeaseHolders>,
    pub(super) watched: BTreeSet<String>,
    /// The executed writes that must not be repeated, by request.
    pub(super) once: BTreeMap<String, u64>,
    /// The number of requests other than watches and requests for Leases.
    pub(super) requests: u64,
    pub(super) last_write: Instant,
    /// The number of requests of each process in the second that began last.
    rates: BTreeMap<ProcessId, (u64, u64)>,
}

#[derive(Debug, Default)]
struct LeaseHolders {
    current: Option<ProcessId>,
    all: BTreeSet<ProcessId>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            lines: Vec::new(),
            violations: Vec::new(),
            leases: BTreeMap::new(),
            watched: BTreeSet::new(),
            once: BTreeMap::new(),
            requests: 0,
            last_write: Instant::now(),
            rates: BTreeMap::new(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(super) fn line(&mut self, text: impl Display) {
        if self.lines.len() < MAX_LINES {
            let at = self.elapsed().as_secs_f64();
            self.lines.push(format!("{at:9.3}  {text}"));
        }
    }

    /// Records a violation, unless the same check has failed before.
    pub(super) fn violated(&mut self, check: &'static str, text: impl Into<String>) {
        let text = text.into();
        self.line(format_args!("violation of `{check}`: {text}"));
        if self.violations.iter().all(|known| known.check != check) {
            self.violations.push(Violation { check, text });
        }
    }

    pub(super) fn elects(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Counts a request. Returns false if the process sends too many.
    pub(super) fn count(&mut self, process: ProcessId) -> bool {
        let second = self.elapsed().as_secs();
        let rate = self.rates.entry(process).or_insert((second, 0));
        if rate.0 != second {
            *rate = (second, 0);
        }
        rate.1 += 1;
        rate.1 <= MAX_REQUESTS_PER_SECOND
    }

    /// Records a successful write of a Lease.
    pub(super) fn lease_written(&mut self, process: ProcessId, write: &ProgramWrite) {
        let holders = self.leases.entry(format!("{}/{}", write.namespace, write.name)).or_default();
        // Only writes that state the holder change it.
        let Some(spec) = write.body.get("spec") else { return };
        let holds = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
        let before = holders.current;
        if holds {
            holders.current = Some(process);
            holders.all.insert(process);
        } else if before == Some(process) {
            holders.current = None;
        }
        if before != holders.current {
            let text = match holders.current {
                Some(process) => format!("process {process} holds the lease {}", write.name),
                None => format!("process {process} released the lease {}", write.name),
            };
            self.line(text);
        }
    }

    /// Returns the lease that the process has lost to another one.
    pub(super) fn lost_lease(&self, process: ProcessId) -> Option<(&str, ProcessId)> {
        self.leases.iter().find_map(|(name, holders)| {
            let current = holders.current.filter(|current| *current != process)?;
            holders.all.contains(&process).then_some((name.as_str(), current))
        })
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.violations.clone()
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}
