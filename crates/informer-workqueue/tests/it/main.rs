//! Scenarios of the work queue through the public API, in paused time except for the tests with real threads.

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
