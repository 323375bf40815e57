//! The rules of a runtime as pure state: who leads.
//!
//! Nothing here waits, reads a clock, takes a lock or sends a request: `now`, answers and random numbers are arguments, and what is to
//! be done is a return value. `informer-runtime` drives it; so does the simulator (`conformance/simulator`), in one thread and in
//! made-up time, under a seed that draws what goes wrong.

pub mod election;
