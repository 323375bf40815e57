//! The HTTP interface of the API server: routes, parameters, bodies, watches, and the service that clients
//! call.

mod accept;
mod admission;
mod body;
mod call;
mod connect;
mod deadline;
mod discovery;
mod etag;
mod gzip;
mod headers;
pub(crate) mod list;
mod list_body;
mod listen;
mod openapi;
mod options;
mod query;
mod response;
mod route;
mod service;
mod subresources;
pub(crate) mod table;
mod warnings;
pub(crate) mod watch;
pub(crate) mod watch_faults;
mod web_ui;

use std::ops::Deref;
use std::sync::Arc;

pub use body::{ApiBody, BrokenOff};
pub use listen::Listening;
pub use service::ApiService;

pub(crate) use list_body::Batch;
pub(crate) use query::ListOptions;
pub(crate) use response::frame_events;

use crate::controllers::ControllerManager;
use crate::faults::Faults;
use crate::requests::RequestLog;
use watch::Lagging;

#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) manager: Arc<ControllerManager>,
    pub(crate) faults: Faults,
    pub(crate) requests: RequestLog,
    pub(crate) lagging: Lagging,
    pub(crate) aggregated_discovery: bool,
    pub(crate) compression: bool,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) http2_streams: u32,
    /// The server has its web UI.
    pub(crate) web_ui: bool,
}

impl Deref for Frontend {
    type Target = ControllerManager;

    fn deref(&self) -> &ControllerManager {
        &self.manager
    }
}
