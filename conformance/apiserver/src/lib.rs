//! The embedded API server held against a real kube-apiserver, request by request.
//!
//! A *scenario* is a script of requests in `scenarios/TOPIC/NAME.yaml`. It runs on either server; what differs from run
//! to run (uids, times, versions, generated names) is replaced by a sign that keeps identity and order; what is left
//! must be equal. What the real server answered is kept in `recorded/`, so that the tests compare without one.
//! `differences.yaml` lists where the two are known to differ, each with its reason: nothing is masked in silence.

mod compare;
mod hooks;
mod normal;
mod real;
mod run;
mod scenario;
mod suite;
mod target;

pub use compare::{Difference, Differences, Rule};
pub use hooks::Reply;
pub use real::{RealServer, StartError, attach};
pub use run::{Answer, RunError, Transcript, run};
pub use scenario::{Scenario, Step};
pub use suite::{Outcome, RUNS_MAX, Suite, SuiteError};
pub use target::{SendError, Target};
