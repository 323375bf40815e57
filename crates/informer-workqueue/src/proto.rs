//! State machines without input and output, for simulators. No stability promise.
//!
//! A minor version may change or remove any item of this module. Programs use [`WorkQueue`](crate::WorkQueue).
//! [`QueueState`] follows the same rules, without a lock, a clock, a timer and waiting tasks.

pub use crate::queue::state_machine::{Handout, QueueEffect, QueueState};
