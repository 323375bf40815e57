//! Scenarios of the work queue, in paused time and through the public API.

mod client_go;
