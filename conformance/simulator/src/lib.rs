//! A simulator: the shipped state machines of an informer, in one thread, in made-up time, under a seed that draws faults.
//!
//! The reflector, the in-order queue, the pump with its store, the processor, the listeners with their tasks and the work
//! queue are those that ship; no socket, no runtime and no clock is between them. On one side stands a model of an API
//! server, with replicas that lag and backups that are restored; on the other stand handlers and workers that are slow,
//! panic, come and go. A [`Script`] says what happens; [`run()`] plays it and holds every step against the invariants;
//! [`shrink()`] makes a script that fails short.
//!
//! `docs/simulator.md` tells what is simulated, which faults there are and what each invariant means.
//!
//! ```
//! use informer_simulator::{Script, run};
//!
//! let outcome = run(&Script::of_seed(7));
//! assert_eq!(outcome.violation, None);
//! ```

mod check;
mod connection;
mod coverage;
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
pub use fault::Fault;
pub use kube_rs::run_kube_rs_model;
pub use random::Random;
pub use run::{Outcome, Plan, Tally, run, run_many, run_with_timeline};
pub use script::{ParseScriptError, Script, Setup, Step, Verb};
pub use shrink::{shrink, shrink_while};
