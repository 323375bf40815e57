//! Reads from an API server whose watch cache is behind.
//!
//! Kubernetes allows such a server to return any past state to a list with `resourceVersion=0`. It must not
//! do so for a consistent read (no version), or for a list with a minimum version.

use http::Uri;

use super::request::ProgramWrite;
use crate::testing::{FaultAction, Verb};

/// The watch cache of a resource that has stopped at a resourceVersion.
#[derive(Debug)]
pub(super) struct StaleCache {
    resource: String,
    version: u64,
    /// How late events after `version` arrive.
    lag: FaultAction,
}

/// How a server whose watch cache is behind treats a read.
pub(super) enum StaleRead {
    /// Rejects a streaming list, like a server without the feature. Its initial events would be a consistent
    /// read.
    NoStreamingList,
    /// Lists the objects at this resourceVersion. The URI is that of the request, with this version.
    List { uri: Uri, version: u64 },
    /// Sends the events after this resourceVersion late.
    Watch { version: u64, lag: FaultAction },
}

impl StaleCache {
    pub(super) fn new(resource: &str, seconds: u64, version: u64) -> Self {
        let lag = FaultAction::Lag { millis: seconds.saturating_mul(1000) };
        Self { resource: resource.to_owned(), version, lag }
    }

    /// Returns how the cache treats a request, or `None` if an up-to-date server receives it.
    pub(super) fn read(&self, request: &ProgramWrite, uri: &Uri) -> Option<StaleRead> {
        if request.resource != self.resource {
            return None;
        }
        let parameters = || uri.query().unwrap_or_default().split('&');
        let value = |name: &str| parameters().find_map(|part| part.strip_prefix(name)).unwrap_or_default();
        let requested = value("resourceVersion=");
        match request.verb {
            Verb::List if requested == "0" => {
                // A list with version 0 has no pages, so the limit is removed with the version.
                let replaced = ["resourceVersion=", "resourceVersionMatch=", "limit="];
                let kept = parameters().filter(|part| !replaced.iter().any(|name| part.starts_with(name)));
                let query: Vec<&str> = kept.collect();
                let (path, version) = (uri.path(), self.version);
                let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");
                let separator = if query.is_empty() { "" } else { "&" };
                let uri = format!("{path}?{}{separator}{exact}", query.join("&")).parse().ok()?;
                Some(StaleRead::List { uri, version })
            }
            Verb::Watch if value("sendInitialEvents=") == "true" => {
                matches!(requested, "" | "0").then_some(StaleRead::NoStreamingList)
            }
            Verb::Watch if requested == self.version.to_string() => {
                Some(StaleRead::Watch { version: self.version, lag: self.lag.clone() })
            }
            _ => None,
        }
    }
}
