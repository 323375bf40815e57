//! A deterministic simulator of the shipped state machines of an informer, in one thread and simulated time.
//! A seed determines the faults.
//!
//! The reflector, the in-order queue, the pump with its store, the processor, the listeners with their tasks
//! and the work queue are the shipped code. No socket, runtime or clock is involved. Below them is a model of
//! an API server with replicas that lag and backups that are restored. Above them are handlers and workers
//! that are slow, panic, and are added and removed. A [`Script`] lists the steps; [`run()`] plays it and
//! checks the invariants after every step; [`shrink()`] reduces a failing script.
//!
//! `docs/simulator.md` describes the simulated parts, the faults and each invariant.
//!
//! ```
//! use informer_simulator::{Script, run};
//!
//! let outcome = run(&Script::of_seed(7));
//! assert_eq!(outcome.violation, None);
//! ```

mod check;
mod combination;
mod connection;
mod coverage;
mod distribution;
mod election;
mod fault;
mod handler;
mod kube_rs;
mod object;
mod random;
mod run;
mod script;
mod server;
mod shrink;
mod theme;
mod work;
mod world;

pub use check::Violation;
pub use coverage::{Coverage, TRANSITIONS};
pub use distribution::{Distribution, NamedDistribution};
pub use fault::Fault;
pub use kube_rs::run_kube_rs_model;
pub use random::Random;
pub use run::{Outcome, Plan, Tally, run, run_many, run_with_timeline};
pub use script::{ParseScriptError, Script, Setup, Step, Verb};
pub use shrink::{shrink, shrink_while};
