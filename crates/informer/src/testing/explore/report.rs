//! The result of an exploration, and its message for the user.

use std::fmt;
use std::time::Duration;

use informer_apiserver::FaultScript;

/// The name of the environment variable with the fault script that [`Explore::run`](super::Explore::run)
/// replays.
pub const EXPLORE_VARIABLE: &str = "INFORMER_EXPLORE";

/// The result of an [`Explore`](super::Explore).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExploreReport {
    /// The number of runs with faults, without the runs that shrink a failing fault script.
    pub runs: u64,
    /// The number of faults that were injected in the runs with faults.
    pub faults: u64,
    /// The number of writes of the program in the run without faults.
    pub writes: u64,
    /// The sum of the simulated times of all runs.
    pub simulated: Duration,
    /// The failure of the run without faults, or else of the first failing fault script. `None` if all checks
    /// hold in all runs.
    pub failure: Option<ExploreFailure>,
}

/// A fault script under which a check fails; part of an [`ExploreReport`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExploreFailure {
    /// The violated check: `final state`, `settles`, `hot loop`, `scenario`, `deletion`, `once`, `forbidden`,
    /// `former leader`, `upgrade`, `crash loop` or `panic`.
    pub check: &'static str,
    /// A description of how the check failed.
    pub text: String,
    /// The fault script with as few faults as possible under which the check still fails; empty if the run
    /// without faults fails.
    pub script: FaultScript,
    /// The first failing fault script, before faults were removed from it.
    pub found: FaultScript,
    /// The number of runs that were needed to shrink the fault script.
    pub shrink_runs: usize,
    /// False if a second run of the fault script did not fail in the same way. The program then depends on
    /// something that the simulation does not control, such as threads or the order of a `HashMap`.
    pub reproduced: bool,
    /// The requests, responses and faults of the run of `script`, with simulated times in seconds.
    pub trace: Vec<String>,
}

impl fmt::Display for ExploreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the check `{}` fails: {}", self.check, self.text)?;
        if self.script.is_empty() && self.script.schedule() == 0 {
            writeln!(f, "  faults: none")?
        } else {
            writeln!(f, "  faults: {}", self.script)?;
            if self.found != self.script {
                writeln!(f, "  found with: {} ({} runs to shrink)", self.found, self.shrink_runs)?;
            }
            if !self.reproduced {
                writeln!(f, "  a second run did not fail: the program is not deterministic")?;
            }
            writeln!(f, "  replay: {EXPLORE_VARIABLE}=\"{}\" cargo test NAME", self.script)?;
        }
        writeln!(f, "  trace:")?;
        self.trace.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl fmt::Display for ExploreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs, {} faults, {} writes without faults, {} s simulated",
            self.runs,
            self.faults,
            self.writes,
            self.simulated.as_secs()
        )?;
        self.failure.iter().try_for_each(|failure| write!(f, "\n{failure}"))
    }
}
