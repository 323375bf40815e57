//! Compares the embedded API server with a real kube-apiserver, request by request.
//!
//! A *scenario* is a script of requests in `scenarios/TOPIC/NAME.yaml`, which runs on either server. Values
//! that differ from run to run (uids, times, versions, generated names) are replaced by placeholders that
//! keep identity and order. All other values must be equal. The responses of the real server are recorded in
//! `recorded/`, so the tests need no real server. `differences.yaml` lists each known difference with its
//! reason; no difference is ignored silently.

mod compare;
mod hooks;
mod normal;
mod real;
mod run;
mod scenario;
mod suite;
mod target;
mod validation;

pub use compare::{Difference, Differences, Rule};
pub use hooks::Reply;
pub use real::{RealServer, StartError, attach};
pub use run::{RunError, StepResponse, Transcript, run};
pub use scenario::{Scenario, Step};
pub use suite::{MAX_RUNS, Outcome, Suite, SuiteError};
pub use target::{SendError, Target};
pub use validation::{
    Comparison, KindFigures, Mismatch, ValidationError, Verdict, check_recorded_validation,
    compare_validation,
};
