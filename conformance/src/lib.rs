//! One suite of informer behaviour, written once, and run on the embedded server and on a real kube-apiserver.
//!
//! A [`Scenario`] is a function that drives informers and writes objects through a [`Bench`]; it knows the server only
//! by what both have. What only one of them can do is said beside the scenario, as data, so that it can be listed.
//!
//! Scenarios run in real time, against sockets, with a [`Cable`] in between where connections are to break. They wait for
//! states, never for a time, and each has a deadline.

mod api;
mod bench;
mod cable;
pub mod fleet;
mod load;
pub mod ordeal;
mod poll;
mod run;
mod scenario;
mod scenarios;
mod server;
mod watched;

pub use api::{Api, ApiError};
pub use bench::{Bench, Failure, Way};
pub use cable::Cable;
pub use load::{Load, load};
pub use run::{Options, Outcome, Verdict, run};
pub use scenario::Scenario;
pub use scenarios::all;
pub use server::{Embedded, Real, Server, ServerError, Spawned};
pub use watched::{Seen, Watched, What};
