//! Collects the violations of invariants during a run. They are reported when the run ends.

use std::sync::Arc;

use informer_simulator::Violation;
use parking_lot::Mutex;

use crate::trace::Trace;

/// The maximum number of recorded violations. Only the first violation of each invariant is recorded.
const MAX_VIOLATIONS: usize = 20;

/// The violations that all tasks of a run have found, with the first violation of each invariant.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    trace: Trace,
    found: Arc<Mutex<Vec<Violation>>>,
}

impl Checks {
    pub(crate) fn new(trace: Trace) -> Self {
        Self { trace, found: Arc::default() }
    }

    pub(crate) fn violated(&self, invariant: &'static str, text: impl Into<String>) {
        let violation = Violation { invariant, text: text.into() };
        self.trace.line(format_args!("VIOLATION {violation}"));
        let mut found = self.found.lock();
        if found.len() < MAX_VIOLATIONS && found.iter().all(|known| known.invariant != invariant) {
            found.push(violation);
        }
    }

    pub(crate) fn ensure(&self, invariant: &'static str, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violated(invariant, text());
        }
    }

    /// Returns the first violation of each invariant, in the order of detection.
    pub(crate) fn found(&self) -> Vec<Violation> {
        self.found.lock().clone()
    }
}
