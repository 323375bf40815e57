//! The server over HTTP: routes, parameters, bodies, and the service that clients call.

mod body;
mod discovery;
mod listen;
mod query;
mod route;
mod service;

pub use body::{ApiBody, BrokenOff};
pub use listen::Listening;
pub use service::ApiService;

pub(crate) use query::{ListOptions, Query, parse_version};
pub(crate) use service::BODY_BYTES_MAX;
