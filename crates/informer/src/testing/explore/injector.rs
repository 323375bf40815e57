//! Counts the writes of the tested program in a run, and returns the faults to inject at each write.

use super::script::{FaultScript, RunFault, ScheduledFault};

/// The faults of a run that have not been injected yet. A state machine without I/O: the caller injects the
/// returned faults.
#[derive(Debug)]
pub(super) struct Injector {
    pending: Vec<ScheduledFault>,
    writes: u64,
    fired: u64,
}

/// The faults to inject at one write of the tested program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Strike {
    /// The number of the write in the run, starting at 1; 0 for the faults at the start of the run.
    pub(super) write: u64,
    /// The fault of the write itself, such as a 409 response or a crash of the process that sends it.
    pub(super) request: Option<RunFault>,
    /// The faults of watches. They are injected before the write.
    pub(super) watches: Vec<RunFault>,
}

impl Injector {
    pub(super) fn new(script: &FaultScript) -> Self {
        Self { pending: script.faults.clone(), writes: 0, fired: 0 }
    }

    /// Returns the faults to inject once at the start of a run, before the tested program starts. They are
    /// faults of watches.
    pub(super) fn start(&mut self) -> Vec<RunFault> {
        self.take(0).watches
    }

    /// Counts a write of the tested program, and returns the faults to inject at it.
    pub(super) fn write(&mut self) -> Strike {
        self.writes += 1;
        self.take(self.writes)
    }

    /// Discards the faults that have not been injected.
    pub(super) fn disable(&mut self) {
        self.pending.clear();
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    fn take(&mut self, write: u64) -> Strike {
        let mut strike = Strike { write, ..Strike::default() };
        for fault in self.pending.extract_if(.., |fault| fault.write == write) {
            match fault.fault.is_of_request() {
                false => strike.watches.push(fault.fault),
                // A write has at most one fault of its own. If the script has several for it, only the first
                // is injected.
                true if strike.request.is_none() => strike.request = Some(fault.fault),
                true => continue,
            }
            self.fired += 1;
        }
        strike
    }
}
