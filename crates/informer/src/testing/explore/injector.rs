//! Counts the writes of a run and returns the faults that strike at each.

use super::script::{FaultScript, RunFault, ScheduledFault};

/// The faults of a run that are still to strike. A pure state machine.
#[derive(Debug)]
pub(super) struct Injector {
    pending: Vec<ScheduledFault>,
    writes: u64,
    fired: u64,
}

/// The faults that strike at a write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Strike {
    /// The number of the write.
    pub(super) write: u64,
    /// The fault of the write itself.
    pub(super) request: Option<RunFault>,
    /// The faults of watches that are open at the time of the write.
    pub(super) watches: Vec<RunFault>,
}

impl Injector {
    pub(super) fn new(script: &FaultScript) -> Self {
        Self { pending: script.faults.clone(), writes: 0, fired: 0 }
    }

    /// Returns the faults that strike when the program starts.
    pub(super) fn start(&mut self) -> Vec<RunFault> {
        self.take(0).watches
    }

    /// Counts a write and returns the faults that strike at it.
    pub(super) fn write(&mut self) -> Strike {
        self.writes += 1;
        self.take(self.writes)
    }

    /// Discards the faults that have not struck.
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
                // At most one fault decides about a request: the first of the script.
                true if strike.request.is_none() => strike.request = Some(fault.fault),
                true => continue,
            }
            self.fired += 1;
        }
        strike
    }
}
