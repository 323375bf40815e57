//! The error of a request that the console rejects.

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::http_server::text;

/// A rejected request: the status of its response and the problem.
#[derive(Debug)]
pub(super) struct ConsoleError {
    pub(super) status: StatusCode,
    pub(super) problem: String,
}

impl ConsoleError {
    pub(super) fn new(status: StatusCode, problem: impl Into<String>) -> Self {
        Self { status, problem: problem.into() }
    }

    pub(super) fn response(&self) -> Response<Bytes> {
        text(self.status, format!("{}: {}\n", self.status.as_u16(), self.problem))
    }
}
