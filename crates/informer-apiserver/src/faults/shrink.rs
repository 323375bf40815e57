//! Shrinks a failing script: removes parts as long as it fails.

use super::script::FaultScript;

/// The maximum number of runs to shrink a script.
pub(super) const MAX_SHRINK_RUNS: usize = 40;

/// Proposes smaller scripts, one at a time, and learns whether each fails.
///
/// First the seed of the delays is removed, then each fault from the last to the first. At most 40 scripts
/// are proposed.
///
/// ```
/// use informer_apiserver::{FaultScript, ScriptShrinker};
///
/// let script: FaultScript = "409 at write 1; 500 at write 2".parse()?;
/// let mut shrinker = ScriptShrinker::new(script);
/// while let Some(candidate) = shrinker.candidate() {
///     // The program fails at the 500, whatever else happens.
///     let fails = candidate.to_string().contains("500");
///     shrinker.handle(candidate, fails);
/// }
/// assert_eq!(shrinker.finish().to_string(), "500 at write 2");
/// # Ok::<(), informer_apiserver::ParseScriptError>(())
/// ```
#[derive(Debug)]
pub struct ScriptShrinker {
    best: FaultScript,
    runs: usize,
    /// The part that the next candidate lacks: the fault with this index, counted from the end, or the seed.
    next: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Schedule,
    Fault(usize),
}

impl ScriptShrinker {
    /// Starts to shrink a failing script.
    pub fn new(script: FaultScript) -> Self {
        Self { best: script, runs: 0, next: Part::Schedule }
    }

    /// Returns the next script to run, or `None` if the script cannot be shrunk any more.
    pub fn candidate(&mut self) -> Option<FaultScript> {
        if self.runs >= MAX_SHRINK_RUNS {
            return None;
        }
        let mut candidate = self.best.clone();
        match self.next {
            Part::Schedule if candidate.schedule != 0 => candidate.schedule = 0,
            Part::Schedule => {
                self.next = Part::Fault(0);
                return self.candidate();
            }
            // The script without faults and delays is known to pass.
            Part::Fault(_) if candidate.len() == 1 && candidate.schedule == 0 => return None,
            Part::Fault(index) if index < candidate.len() => {
                drop(candidate.faults.remove(candidate.len() - 1 - index));
            }
            Part::Fault(_) => return None,
        }
        self.runs += 1;
        Some(candidate)
    }

    /// Handles the result of the last candidate.
    pub fn handle(&mut self, candidate: FaultScript, fails: bool) {
        self.next = match (self.next, fails) {
            (Part::Schedule, _) => Part::Fault(0),
            (Part::Fault(index), true) => Part::Fault(index),
            (Part::Fault(index), false) => Part::Fault(index + 1),
        };
        if fails {
            self.best = candidate;
        }
    }

    /// Returns the number of scripts that were proposed.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the smallest script that fails.
    pub fn finish(self) -> FaultScript {
        self.best
    }
}
