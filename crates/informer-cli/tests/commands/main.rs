//! Tests of the built command over real sockets, in real time, with a timeout for each line of output.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod command;
mod console;
mod doctor;
#[cfg(unix)]
mod envtest;
#[cfg(unix)]
mod explore;
mod graph;
mod man;
mod refusals;
mod serve;
#[cfg(unix)]
mod snapshots;
mod watch;
