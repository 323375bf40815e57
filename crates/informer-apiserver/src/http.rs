//! The server over HTTP: routes, parameters, bodies, and the service that clients call.

mod accept;
mod admitted;
mod answer;
mod body;
mod call;
mod deadline;
mod discovery;
mod gather;
mod gzip;
mod listen;
mod openapi;
mod options;
mod query;
mod route;
mod service;
mod special;
mod warnings;
mod yaml;

pub use body::{ApiBody, BrokenOff};
pub use listen::Listening;
pub use service::ApiService;

pub(crate) use answer::framed;
pub(crate) use call::shown;
pub(crate) use gather::Batch;
pub(crate) use options::check_dry_run;
pub(crate) use query::{ListOptions, Query, parse_version};
pub(crate) use route::segments;
pub(crate) use service::BODY_BYTES_MAX;
pub(crate) use yaml::{read_yaml, read_yaml_value, yaml_twice};
