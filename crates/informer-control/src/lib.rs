//! The rules of a runtime as pure state: who leads, what concerns a controller, and what becomes of a request.
//!
//! Nothing here waits, reads a clock, takes a lock or sends a request: `now`, answers and random numbers are arguments, and what is to
//! be done is a return value. `informer-runtime` drives it, and is where its users find it; so does the simulator
//! (`conformance/simulator`), in one thread and in made-up time, under a seed that draws what goes wrong.

pub mod controller;
pub mod election;
pub mod predicate;

mod request;
mod trigger;

pub use request::{ReconcileRequest, Request};
pub use trigger::Trigger;
