//! The request log. With it a test can assert, for example, that a client has listed exactly once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Maximum number of requests in the log. When it is full, the oldest requests are removed.
const MAX_REQUESTS: usize = 100_000;
/// Maximum size of the request log in bytes. It is limited because clients control the length of paths,
/// queries and names.
const MAX_REQUESTS_BYTES: usize = 64 << 20;
/// Maximum number of characters of each text of a logged request, such as its path, query and user agent.
/// Longer texts are truncated, so that one request cannot remove most others from the log. Usual texts are
/// far shorter; queries with long label selectors and continue tokens also fit.
const MAX_LOGGED_CHARS: usize = 4096;

/// The verb of an API request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants are the verbs of the Kubernetes API")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A non-resource request, for example discovery or a health check.
    Other,
}

impl Verb {
    /// Returns true if requests with this verb change objects.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection)
    }

    /// Returns the verb as in RBAC rules, for example `deletecollection`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

/// A request in the log, without its body. Texts that are longer than 4096 characters, for example of the
/// path, the query or the user agent, are truncated.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestRecord {
    /// The sequence number of the request among all requests of the server, starting at 1.
    pub number: u64,
    /// The arrival time of the request, as [`Clock::elapsed`](crate::Clock::elapsed) of the server's clock.
    pub at: Duration,
    /// The verb.
    pub verb: Verb,
    /// The requested resource; `None` for a non-resource request.
    pub gvr: Option<Gvr>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The name in the path.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
    /// The request path as the client sent it.
    pub path: String,
    /// The query, percent-decoded.
    pub query: String,
    /// The query parameter `resourceVersion`; empty if it is not set.
    pub resource_version: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The name of the authenticated user, who may impersonate another one in the request.
    pub user: String,
    /// True for a server-side apply, which is a patch that creates an object if it does not exist.
    pub is_apply: bool,
    pub(crate) status: ResponseStatus,
}

/// The status code of a response, or 0 before the response. A clone is a snapshot.
#[derive(Debug, Default)]
pub(crate) struct ResponseStatus(AtomicU16);

impl ResponseStatus {
    pub(crate) fn set(&self, status: http::StatusCode) {
        self.0.store(status.as_u16(), Ordering::Relaxed);
    }
}

impl Clone for ResponseStatus {
    fn clone(&self) -> Self {
        Self(self.0.load(Ordering::Relaxed).into())
    }
}

impl RequestRecord {
    /// Returns the status code of the response. Returns `None` if the server had not responded when this
    /// record was read from the log. A watch has a status from its start.
    pub fn status(&self) -> Option<u16> {
        Some(self.status.0.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// Returns the texts whose length the client controls.
    fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let optional = [&mut self.namespace, &mut self.name, &mut self.subresource];
        let always = [
            &mut self.path,
            &mut self.query,
            &mut self.resource_version,
            &mut self.user_agent,
            &mut self.user,
        ];
        optional.into_iter().flatten().chain(always)
    }

    /// Truncates texts that are longer than [`MAX_LOGGED_CHARS`]. Returns the request with its whole texts if
    /// any was truncated.
    fn truncate(&mut self) -> Option<Self> {
        // The length in bytes is compared first, because characters can only be counted one by one.
        let is_long = |text: &mut String| {
            text.len() > MAX_LOGGED_CHARS && text.char_indices().nth(MAX_LOGGED_CHARS).is_some()
        };
        if !self.texts_mut().any(is_long) {
            return None;
        }
        let whole = self.clone();
        for text in self.texts_mut() {
            if let Some((end, _)) = text.char_indices().nth(MAX_LOGGED_CHARS) {
                // The truncated text is copied, so that it does not keep the memory of the whole one.
                *text = text[..end].to_owned();
            }
        }
        Some(whole)
    }

    /// Returns the memory that the logged request uses, in bytes.
    fn bytes(&self) -> usize {
        let gvr = self.gvr.as_ref().map_or(0, |gvr| gvr.group.len() + gvr.version.len() + gvr.resource.len());
        let optional = [&self.namespace, &self.name, &self.subresource];
        let named: usize = optional.into_iter().flatten().map(String::len).sum();
        let strings = [&self.path, &self.query, &self.resource_version, &self.user_agent, &self.user];
        size_of::<Self>() + gvr + named + strings.map(String::len).iter().sum::<usize>()
    }

    /// Returns true if the request is a write that a [`FaultScript`](crate::FaultScript) counts: it changes
    /// objects other than Events and Leases, and is not a dry run.
    pub fn counts_as_write(&self) -> bool {
        let Some(gvr) = &self.gvr else { return false };
        self.verb.writes() && !is_dry_run(&self.query) && !is_volatile(&gvr.group, &gvr.resource)
    }

    /// Returns true if the request begins to read all objects of a collection: a list, or a streaming list,
    /// which is a watch with `sendInitialEvents=true`. Requests for further pages of a list do not count.
    ///
    /// The number of these requests is thus the same, whether a client streams lists, reads them in pages, or
    /// reads them at once.
    pub fn is_initial_list(&self) -> bool {
        let parameter = |name: &str| {
            let mut parameters = self.query.split('&').filter_map(|part| part.split_once('='));
            parameters.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        match self.verb {
            Verb::List => parameter("continue").is_none_or(str::is_empty),
            Verb::Watch => parameter("sendInitialEvents")
                .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false")),
            _ => false,
        }
    }

    /// Returns true if the request has this verb and this plural resource name.
    pub fn is(&self, verb: Verb, resource: &str) -> bool {
        self.verb == verb && self.gvr.as_ref().is_some_and(|gvr| gvr.resource == resource)
    }
}

/// Returns true if the query of a request selects a dry run, which changes nothing.
pub fn is_dry_run(query: &str) -> bool {
    query.split('&').any(|part| part.starts_with("dryRun="))
}

/// Returns true for resources whose objects are not part of the state that a program converges to: Events,
/// Leases, and reviews of authentication and authorization, which are not stored.
pub fn is_volatile(group: &str, resource: &str) -> bool {
    (resource == "events" && matches!(group, "" | "events.k8s.io"))
        || (group == "coordination.k8s.io" && resource == "leases")
        || matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
}

/// A request as fault rules see it, and as the log contains it.
pub(crate) struct RecordedRequest {
    /// The request with its whole texts, with which fault rules are compared. Its status may never be set.
    pub(crate) full: Arc<RequestRecord>,
    /// The request in the log, which may have truncated texts. Its status is the one that readers of the log
    /// see.
    pub(crate) logged: Arc<RequestRecord>,
}

impl RecordedRequest {
    /// Returns a request that is not added to the log.
    pub(crate) fn not_logged(request: RequestRecord) -> Self {
        let full = Arc::new(request);
        Self { logged: Arc::clone(&full), full }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    count: u64,
    bytes: usize,
    kept: VecDeque<Arc<RequestRecord>>,
}

impl LogState {
    fn is_full(&self) -> bool {
        self.kept.len() > MAX_REQUESTS || self.bytes > MAX_REQUESTS_BYTES
    }
}

impl RequestLog {
    /// Numbers a request and adds it to the request log. Removes the oldest requests if the log is full.
    pub(crate) fn push(&self, mut request: RequestRecord) -> RecordedRequest {
        let mut removed = Vec::new();
        let full = request.truncate();
        let mut state = self.state.lock();
        state.count += 1;
        request.number = state.count;
        let request = Arc::new(request);
        state.bytes += request.bytes();
        state.kept.push_back(Arc::clone(&request));
        while state.is_full()
            && let Some(oldest) = state.kept.pop_front()
        {
            state.bytes -= oldest.bytes();
            removed.push(oldest);
        }
        drop(state);
        drop(removed);
        let full = match full {
            Some(full) => Arc::new(RequestRecord { number: request.number, ..full }),
            None => Arc::clone(&request),
        };
        RecordedRequest { full, logged: request }
    }

    pub(crate) fn all(&self) -> Vec<RequestRecord> {
        self.state.lock().kept.iter().map(|request| RequestRecord::clone(request)).collect()
    }

    /// Returns the last `max` logged requests whose number is greater than `after`, oldest first, and the
    /// number of all requests that were ever logged.
    pub(crate) fn newest(&self, after: u64, max: usize) -> (Vec<Arc<RequestRecord>>, u64) {
        let state = self.state.lock();
        let newest = state.kept.iter().rev().take_while(|request| request.number > after);
        let mut newest: Vec<_> = newest.take(max).cloned().collect();
        newest.reverse();
        (newest, state.count)
    }

    pub(crate) fn count(&self, verb: Verb, resource: &str) -> usize {
        self.state.lock().kept.iter().filter(|request| request.is(verb, resource)).count()
    }
}

#[cfg(test)]
mod tests;
