//! Records a run of an exploration: the trace, the violated checks, and the facts that other checks compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use super::request::ProgramWrite;
use crate::testing::Verb;

/// The maximum number of lines in the trace of a run.
const MAX_LINES: usize = 5_000;

/// The maximum number of requests of one process within a second of simulated time. More requests violate the
/// check `hot loop`.
pub(super) const MAX_REQUESTS_PER_SECOND: u64 = 500;

/// A check that failed in a run, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) check: &'static str,
    pub(super) text: String,
}

/// Identifies a process of the program by the number of its replica and the number of starts of this replica.
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
    /// The processes that hold or have held each Lease, by the namespace and name of the Lease.
    leases: BTreeMap<String, LeaseHolders>,
    pub(super) watched: BTreeSet<String>,
    /// The number of executions of each write that must not be repeated, for the check `once`.
    pub(super) once: BTreeMap<String, u64>,
    /// The number of requests for resources, other than watches and requests for Leases. The check `hot loop`
    /// uses it.
    pub(super) requests: u64,
    pub(super) last_write: Instant,
    /// For each process, the simulated second of its last request, and the number of its requests within that
    /// second.
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

    /// Records a failed check. The trace contains each failure, but the list of violations contains only the
    /// first failure of each check.
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

    /// Records a read, or a request for a Lease.
    pub(super) fn read(&mut self, read: &ProgramWrite) {
        match read.verb {
            _ if read.is_lease() => {}
            Verb::Watch => drop(self.watched.insert(read.resource.clone())),
            _ => self.requests += 1,
        }
    }

    /// Counts a request of a process. Returns false if the process has sent more than
    /// [`MAX_REQUESTS_PER_SECOND`] within the current second of simulated time.
    pub(super) fn count(&mut self, process: ProcessId) -> bool {
        let second = self.elapsed().as_secs();
        let rate = self.rates.entry(process).or_insert((second, 0));
        if rate.0 != second {
            *rate = (second, 0);
        }
        rate.1 += 1;
        rate.1 <= MAX_REQUESTS_PER_SECOND
    }

    /// Records that a process has successfully written a Lease, and thereby may have acquired or released it.
    pub(super) fn lease_written(&mut self, process: ProcessId, write: &ProgramWrite) {
        let holders = self.leases.entry(format!("{}/{}", write.namespace, write.name)).or_default();
        // A write of a Lease whose body contains no `spec` does not change the holder.
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

    /// Returns a Lease that the process has held and that another process holds now, with that process. If
    /// there is one, the process is a former leader and must not write any more.
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
