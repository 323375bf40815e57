//! Counts the writes of a tested program, and returns the faults of a script to inject at each write.

use super::script::{FaultScript, RunFault, ScheduledFault};

/// The faults of a [`FaultScript`] that have not been injected yet. A state machine without I/O: the caller
/// injects the returned faults.
///
/// ```
/// use informer_apiserver::{FaultScript, RunFault, ScriptInjector};
///
/// let script: FaultScript = "409 at write 2".parse()?;
/// let mut injector = ScriptInjector::new(&script);
/// assert_eq!(injector.write().request, None);
/// assert_eq!(injector.write().request, Some(RunFault::Conflict));
/// assert_eq!(injector.fired(), 1);
/// # Ok::<(), informer_apiserver::ParseScriptError>(())
/// ```
#[derive(Debug)]
pub struct ScriptInjector {
    pending: Vec<ScheduledFault>,
    writes: u64,
    fired: u64,
}

/// The faults to inject at one write of the tested program.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteFaults {
    /// The number of the write in the run, starting at 1; 0 for the faults at the start of the run.
    pub write: u64,
    /// The fault of the write itself, such as a 409 response or a crash of the process that sends it.
    pub request: Option<RunFault>,
    /// The faults of watches and of lists. They are injected before the write.
    pub watches: Vec<RunFault>,
}

impl ScriptInjector {
    /// Creates the injector of one run of a script.
    pub fn new(script: &FaultScript) -> Self {
        Self { pending: script.faults.clone(), writes: 0, fired: 0 }
    }

    /// Returns the faults at write 0, for the first watches of the tested program. Call it once, before the
    /// program starts.
    pub fn start(&mut self) -> Vec<RunFault> {
        self.take(0).watches
    }

    /// Counts a write of the tested program, and returns the faults to inject at it.
    pub fn write(&mut self) -> WriteFaults {
        self.writes += 1;
        self.take(self.writes)
    }

    /// Discards the faults that have not been injected.
    pub fn disable(&mut self) {
        self.pending.clear();
    }

    /// Returns the number of counted writes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns the number of injected faults.
    pub fn fired(&self) -> u64 {
        self.fired
    }

    fn take(&mut self, write: u64) -> WriteFaults {
        let mut injected = WriteFaults { write, ..WriteFaults::default() };
        for fault in self.pending.extract_if(.., |fault| fault.write == write) {
            match fault.fault.is_of_request() {
                false => injected.watches.push(fault.fault),
                // A write has at most one fault of its own. If the script has several for it, only the first
                // is injected.
                true if injected.request.is_none() => injected.request = Some(fault.fault),
                true => continue,
            }
            self.fired += 1;
        }
        injected
    }
}
