//! One suite of informer behavior that runs on the embedded server and on a real kube-apiserver.
//!
//! A [`Scenario`] is a function that drives informers and writes objects through a [`Bench`]. It uses only
//! what both servers support. Operations that only one of the two servers supports are declared next to the
//! scenario, as data, so that they can be listed.
//!
//! Scenarios run in real time over sockets, with the proxy [`Cable`] in between if connections are to break.
//! They wait for states and never for a fixed time, and each scenario has a time limit.

mod api;
mod bench;
mod cable;
pub mod fleet;
mod load;
pub mod ordeal;
mod poll;
mod request_log;
mod run;
mod scenario;
mod scenarios;
mod server;
mod watched;

pub use api::{Api, ApiError};
pub use bench::{Bench, Failure, InitialRead};
pub use cable::Cable;
pub use load::{Load, load};
pub use run::{Options, Outcome, Verdict, run};
pub use scenario::Scenario;
pub use scenarios::all;
pub use server::{Embedded, Real, Server, ServerError, Spawned};
pub use watched::{CallKind, RecordedCall, Watched};
