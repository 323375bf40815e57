//! A deterministic simulator of whole programs: the real clients, caches and decoders against the embedded
//! API server.
//!
//! Everything runs on one thread with tokio's paused clock and without sockets. A [`Scenario`] is drawn from
//! a seed: the programs, all writes, and the faults. [`run()`] plays it and checks invariants during the run
//! and after the last fault. `docs/simulator.md` lists the faults and the invariants.
//!
//! The simulator in `informer-simulator` drives the pure states of one informer with a modelled driver and a
//! modelled server, thousands of times faster. This simulator covers the code around those states.
//!
//! ```
//! use informer_system_simulator::{Scenario, run};
//!
//! let outcome = run(&Scenario::of_seed(7));
//! assert_eq!(outcome.violations, []);
//! ```

mod actor;
mod auditor;
mod check;
mod cluster;
mod difference;
mod fault;
mod handler;
mod intent;
mod own_writes;
mod program;
mod raw;
mod replicas;
mod requests;
mod run;
mod sample;
mod scenario;
mod theme;
mod trace;
mod view;
mod webhooks;
mod world;

pub use fault::Fault;
pub use informer_simulator::Violation;
pub use run::{InvariantFailures, Outcome, Plan, Tally, run, run_many, run_printing};
pub use scenario::{
    Action, FailurePolicy, KindSetup, ProgramSetup, Representation, Scenario, Scope, Selected, Step, Target,
    Write,
};
pub use theme::Theme;
