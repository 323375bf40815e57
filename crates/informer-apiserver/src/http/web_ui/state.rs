use std::collections::BTreeSet;

use serde::Serialize;

use crate::faults::{FaultRule, RuleState};
use crate::http::Frontend;
use crate::registry::storage::TableUsage;
use crate::requests::{RequestRecord, Verb};

/// Maximum number of requests in a response. The page asks for new requests once a second.
const MAX_REQUESTS: usize = 1_000;

/// Maximum number of open watches in a response.
const MAX_WATCHES: usize = 1_000;

/// Maximum number of kinds in a response, and of fault rules.
const MAX_ROWS: usize = 1_000;

/// Maximum size in bytes of a fault rule in a response, as JSON. A larger rule is left out.
const MAX_RULE_BYTES: usize = 2_048;

/// Maximum length in bytes of each text that a client chooses, such as a path.
const MAX_TEXT_BYTES: usize = 512;

/// The data of the web UI.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerState {
    /// Milliseconds since the start of the server, by its clock.
    elapsed_millis: u64,
    resource_version: u64,
    /// The oldest resourceVersion to which the server can be rewound.
    oldest_version: u64,
    kinds: Vec<KindState>,
    /// Number of open watches.
    open_watches: usize,
    /// The newest open watches, oldest first.
    watches: Vec<RequestState>,
    faults: Vec<FaultState>,
    /// Number of all requests that were ever logged.
    logged_requests: u64,
    /// The newest logged requests, oldest first.
    requests: Vec<RequestState>,
}

/// A kind that has objects or a history, or that a CRD defines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KindState {
    api_version: String,
    kind: String,
    resource: String,
    objects: usize,
    /// Number of events in the history.
    events: usize,
    history_bytes: usize,
    /// True for the kind of a custom resource.
    custom: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestState {
    number: u64,
    at_millis: u64,
    verb: Verb,
    /// The plural name of the resource with its API group, as `deployments.apps`.
    resource: Option<String>,
    path: String,
    query: String,
    user_agent: String,
    user: String,
    status: Option<u16>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FaultState {
    number: u64,
    /// The rule; `None` if it is too large.
    rule: Option<FaultRule>,
    matched: u64,
    fired: u64,
}

impl ServerState {
    /// Reads the state. The requests are those with a number greater than `after`.
    pub(super) fn read(shared: &Frontend, after: u64) -> Self {
        let open = shared.faults.open_watches();
        let newest = open.len().saturating_sub(MAX_WATCHES);
        let (requests, logged_requests) = shared.requests.newest(after, MAX_REQUESTS);
        let StoredState { resource_version, oldest_version, kinds } = StoredState::read(shared);
        Self {
            elapsed_millis: millis(shared.clock.elapsed()),
            resource_version,
            oldest_version,
            kinds,
            open_watches: open.len(),
            watches: open[newest..].iter().map(|watch| RequestState::of(watch.request())).collect(),
            faults: shared.faults.active().into_iter().take(MAX_ROWS).map(FaultState::of).collect(),
            logged_requests,
            requests: requests.iter().map(|request| RequestState::of(request)).collect(),
        }
    }
}

/// The part of the state that the storage contains.
struct StoredState {
    resource_version: u64,
    /// The oldest resourceVersion that can be restored.
    oldest_version: u64,
    kinds: Vec<KindState>,
}

impl StoredState {
    fn read(shared: &Frontend) -> Self {
        let registry = shared.registry.read();
        let storage = shared.storage.read();
        // Several API versions of a kind have one table.
        let mut tables = BTreeSet::new();
        let stored = registry.iter().filter(|resource| resource.stored_as.is_none());
        let kinds = stored.filter(|resource| tables.insert(resource.table)).filter_map(|resource| {
            let kind = &resource.kind;
            let TableUsage { objects, events, history_bytes } = storage.table_usage(resource.table);
            (objects + events > 0 || kind.is_custom()).then(|| KindState {
                api_version: kind.api_version.clone(),
                kind: kind.kind.clone(),
                resource: kind.gvr.resource.clone(),
                objects,
                events,
                history_bytes,
                custom: kind.is_custom(),
            })
        });
        let kinds = kinds.take(MAX_ROWS).collect();
        Self { resource_version: storage.version(), oldest_version: storage.rewind_floor(), kinds }
    }
}

impl RequestState {
    fn of(request: &RequestRecord) -> Self {
        let resource = request.gvr.as_ref().map(|gvr| match gvr.group.as_str() {
            "" => gvr.resource.clone(),
            group => format!("{}.{group}", gvr.resource),
        });
        let subresource = request.subresource.iter().map(|name| format!("/{name}")).collect::<String>();
        Self {
            number: request.number,
            at_millis: millis(request.at),
            verb: request.verb,
            resource: resource.map(|resource| bounded(&format!("{resource}{subresource}"))),
            path: bounded(&request.path),
            query: bounded(&request.query),
            user_agent: bounded(&request.user_agent),
            user: bounded(&request.user),
            status: request.status(),
        }
    }
}

impl FaultState {
    fn of(RuleState { number, rule, matched, fired }: RuleState) -> Self {
        let size = serde_json::to_vec(&rule).map_or(usize::MAX, |text| text.len());
        Self { number, rule: Some(rule).filter(|_| size <= MAX_RULE_BYTES), matched, fired }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Cuts a text that is longer than [`MAX_TEXT_BYTES`].
fn bounded(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= MAX_TEXT_BYTES) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
