//! Checks that informers send a bounded number of requests: no request loops, and few lists per fault.

use std::collections::BTreeMap;
use std::time::Duration;

use informer_apiserver::{RequestRecord, Verb};

use crate::check::Checks;
use crate::cluster::{PROGRAM_AGENT, RefusedRequest};

const WINDOW: Duration = Duration::from_secs(60);

/// The maximum number of lists (first pages) per informer and window. A backoff that starts at 1 s and
/// doubles allows 6, and faults reset it.
const MAX_LISTS: usize = 20;

/// The maximum number of watches per informer and window.
const MAX_WATCHES: usize = 40;

struct Request<'a> {
    agent: &'a str,
    verb: Verb,
    path: &'a str,
    query: &'a str,
    at: Duration,
}

impl<'a> Request<'a> {
    fn received(record: &'a RequestRecord) -> Self {
        let RequestRecord { user_agent, verb, path, query, at, .. } = record;
        Self { agent: user_agent, verb: *verb, path, query, at: *at }
    }

    fn refused(RefusedRequest { agent, path, query, at }: &'a RefusedRequest) -> Self {
        let verb = if query.contains("watch=") {
            Verb::Watch
        } else if is_collection(path) {
            Verb::List
        } else {
            Verb::Get
        };
        Self { agent, verb, path, query, at: *at }
    }

    /// Identifies the informer that sent the request; `None` if the request is not from an informer.
    fn informer(&self) -> Option<String> {
        // Requests for leases do not count: elections and shard groups read their leases every 2 s.
        let leases = self.path.contains("/leases");
        let informs = matches!(self.verb, Verb::List | Verb::Watch) && !leases;
        if !informs || !self.agent.contains(PROGRAM_AGENT) {
            return None;
        }
        let continues = self.query.contains("continue=");
        let selects = |part: &&str| part.starts_with("labelSelector=") || part.starts_with("fieldSelector=");
        let selectors: Vec<_> = self.query.split('&').filter(selects).collect();
        let selectors = selectors.join("&");
        (!continues).then(|| format!("{} {} {} {selectors}", self.agent, self.verb.name(), self.path))
    }
}

/// Returns true if the path is that of a collection, without the name of an object: `/api/v1/pods` or
/// `/api/v1/namespaces/a/pods`.
fn is_collection(path: &str) -> bool {
    let mut segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    segments.drain(..segments.len().min(if segments.first() == Some(&"api") { 2 } else { 3 }));
    matches!(segments.as_slice(), [_] | ["namespaces", _, _])
}

/// Checks the number of requests of each informer. Requests that did not reach the server count too.
pub(crate) fn check(log: &[RequestRecord], refused: &[RefusedRequest], checks: &Checks) {
    let mut times: BTreeMap<String, (Verb, Vec<Duration>)> = BTreeMap::new();
    for request in log.iter().map(Request::received).chain(refused.iter().map(Request::refused)) {
        if let Some(informer) = request.informer() {
            times.entry(informer).or_insert_with(|| (request.verb, Vec::new())).1.push(request.at);
        }
    }
    for (informer, (verb, mut times)) in times {
        times.sort_unstable();
        let most = if verb == Verb::List { MAX_LISTS } else { MAX_WATCHES };
        let crowded = times.windows(most + 1).find(|window| window[most] - window[0] < WINDOW);
        checks.ensure("requests-bounded", crowded.is_none(), || {
            format!(
                "{informer}: more than {most} requests within {WINDOW:?} after {:?}",
                crowded.map(|window| window[0])
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::is_collection;

    #[test]
    fn path_without_a_name_is_a_collection() {
        let lists = ["/api/v1/pods", "/api/v1/namespaces/a/pods", "/apis/apps/v1/namespaces/a/deployments"];
        assert!(lists.into_iter().all(is_collection));
        assert!(!is_collection("/api/v1/namespaces/a/pods/o1"));
        assert!(!is_collection("/apis/apps/v1/namespaces/a/deployments/o1/status"));
        assert!(!is_collection("/apis"));
    }
}
