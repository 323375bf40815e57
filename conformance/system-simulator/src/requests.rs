//! Checks that the requests of informers are bounded: no request loops, and few lists per fault.

use std::collections::BTreeMap;
use std::time::Duration;

use informer_apiserver::{RequestRecord, Verb};

use crate::check::Checks;
use crate::cluster::PROGRAM_AGENT;

/// The length of the window in which requests are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The maximum number of lists (first pages) per informer and window. A backoff that starts at 1 s and
/// doubles allows 6, and faults reset it.
const LISTS_MAX: usize = 20;

/// The maximum number of watches per informer and window.
const WATCHES_MAX: usize = 40;

/// Returns an identifier of the informer that sent a request; `None` for other requests.
fn informer(request: &RequestRecord) -> Option<String> {
    // Elections and shard groups read their leases every 2 s.
    let leases = request.path.contains("/leases");
    let informs = matches!(request.verb, Verb::List | Verb::Watch) && !leases;
    if !informs || !request.user_agent.contains(PROGRAM_AGENT) {
        return None;
    }
    let continues = request.query.contains("continue=");
    let selects = |part: &&str| part.starts_with("labelSelector=") || part.starts_with("fieldSelector=");
    let selectors: Vec<_> = request.query.split('&').filter(selects).collect();
    let selectors = selectors.join("&");
    (!continues)
        .then(|| format!("{} {} {} {selectors}", request.user_agent, request.verb.name(), request.path))
}

/// Checks the log of the server.
pub(crate) fn check(log: &[RequestRecord], checks: &Checks) {
    let mut times: BTreeMap<String, (Verb, Vec<Duration>)> = BTreeMap::new();
    for request in log {
        if let Some(informer) = informer(request) {
            times.entry(informer).or_insert_with(|| (request.verb, Vec::new())).1.push(request.at);
        }
    }
    for (informer, (verb, times)) in times {
        let most = if verb == Verb::List { LISTS_MAX } else { WATCHES_MAX };
        let crowded = times.windows(most + 1).find(|window| window[most] - window[0] < WINDOW);
        checks.ensure("requests-bounded", crowded.is_none(), || {
            format!(
                "{informer}: more than {most} requests within {WINDOW:?} after {:?}",
                crowded.map(|window| window[0])
            )
        });
    }
}
