//! State machines of `informer-runtime` as pure code: leader election, controller lifecycle, requeueing, and
//! predicates.
//!
//! This crate is to `informer-runtime` what the module `proto` is to `informer-cache` and to
//! `informer-workqueue`: state machines without input and output, for simulators. It makes no stability
//! promise.
//!
//! This crate does no I/O, takes no locks and reads no clock: `now`, responses and random numbers are
//! arguments, and actions are return values. `informer-runtime` drives the state machines and re-exports what
//! programs use. The simulator (`conformance/simulator`) drives them in one thread and in simulated time,
//! with faults drawn from a seed.

pub mod controller;
pub mod election;
pub mod predicate;

mod request;
mod trigger;

pub use request::{ReconcileRequest, Request};
pub use trigger::Trigger;
