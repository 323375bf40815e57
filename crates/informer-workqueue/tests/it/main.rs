//! Tests of the work queue through its public API. The clock of tokio is paused except in tests with real
//! threads.

mod bad_input;
mod client_go;
mod controller_runtime;
mod delays;
mod getters;
mod metrics;
mod orders;
mod rate_limits;
mod state_machine;
mod workers;
