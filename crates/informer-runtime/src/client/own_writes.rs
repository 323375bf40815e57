//! Reads that show what was written through the same client.
//!
//! A write tells the version that it made. A read of that key, or of the kind, waits until the cache shows it: the object in that
//! version or a later one, or the whole store at that version. Writes wait for nothing.
//!
//! # Invariants
//!
//! 1. A read waits for the writes that were under way when it began, and for no later one.
//! 2. A write that was given up counts as ended: what became of it is not known to anybody.
//! 3. What is remembered is bounded: [`KEYS_MAX`](state::KEYS_MAX) keys a kind, then one version for all of them.
//!
//! # Lock order
//!
//! `state` alone, never held over an await.

mod state;

use std::sync::Arc;
use std::time::Duration;

use informer_core::{Labels, Object, ObjectKey};
use informer_store::Indexer;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{ClientMetrics, Operation, OperationVerb};
use crate::{CacheInformer, ReadError, ScopedKind};
use state::{Ended, State, Ticket};
pub(super) use state::{Expected, Scope};

/// What was written and may not be shown yet.
pub(super) struct OwnWrites {
    state: Mutex<State>,
    /// Counts the writes that ended.
    ended: watch::Sender<u64>,
    /// How long a read waits at most.
    bound: Duration,
    metrics: Arc<dyn ClientMetrics>,
}

/// A write under way.
pub(super) struct Writing {
    writes: Arc<OwnWrites>,
    kind: ScopedKind,
    ticket: Option<Ticket>,
}

impl OwnWrites {
    pub(super) fn new(bound: Duration, metrics: Arc<dyn ClientMetrics>) -> Self {
        Self { state: Mutex::default(), ended: watch::Sender::new(0), bound, metrics }
    }

    /// A write of an object begins. `None` for what is not awaited: collections, dry runs, and what is created below an object and
    /// answered with something else.
    pub(super) fn begin(self: &Arc<Self>, operation: &Operation) -> Option<Writing> {
        let below = operation.verb == OperationVerb::Create && operation.subresource.is_some();
        let dry = operation.query.iter().any(|(name, _)| name == "dryRun");
        if !operation.verb.is_write() || operation.verb == OperationVerb::DeleteCollection || below || dry {
            return None;
        }
        let ticket = self.state.lock().begin(operation.kind.gvk(), operation.key());
        Some(Writing { writes: Arc::clone(self), kind: operation.kind.clone(), ticket: Some(ticket) })
    }

    /// Waits until an informer shows what was written before in its scope.
    pub(super) async fn shown<O: Object>(
        &self,
        informer: &CacheInformer<O>,
        scope: &Scope,
    ) -> Result<(), ReadError> {
        let begin = Instant::now();
        let kind = informer.kind();
        let under_way = self.state.lock().under_way(kind.gvk(), scope);
        let awaited = !under_way.is_empty();
        if awaited {
            let mut ended = self.ended.subscribe();
            let all = ended.wait_for(|_| self.state.lock().have_ended(kind.gvk(), &under_way));
            // The sender is in `self`; that the wait ended in vain is found out below.
            let _ = tokio::time::timeout(self.bound, all).await;
        }
        let (keys, floor) = self.state.lock().expected(kind.gvk(), scope);
        let mut waited = Ok(awaited);
        let floor = floor.as_ref().map(|floor| (None, floor));
        let each = keys.iter().map(|(key, expected)| (Some(key), expected)).chain(floor);
        for (key, expected) in each {
            let left = self.bound.saturating_sub(begin.elapsed());
            let had_to = expected.awaited(informer, key, left).await;
            waited = had_to.and_then(|had_to| waited.map(|waited| waited || had_to));
            if waited.is_err() {
                break;
            }
        }
        if !matches!(waited, Ok(false)) {
            self.metrics.read_waited(kind.gvk(), begin.elapsed(), waited.is_ok());
        }
        waited.map(drop)
    }

    fn end(&self, kind: &ScopedKind, ticket: Ticket, ended: Ended) {
        self.state.lock().end(kind.gvk(), ticket, ended);
        self.ended.send_modify(|count| *count += 1);
    }
}

impl Writing {
    /// The server has answered with an object or a status.
    pub(super) fn answered(mut self, operation: &Operation, answer: &Value) {
        let ended = ended(operation, answer);
        if let Some(ticket) = self.ticket.take() {
            self.writes.end(&self.kind, ticket, ended);
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.writes.end(&self.kind, ticket, Ended::Unknown);
        }
    }
}

/// What an answer says about the object that was written.
fn ended(operation: &Operation, answer: &Value) -> Ended {
    let metadata = &answer["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = metadata["name"].as_str().or(operation.name.as_deref());
    let key = name.and_then(|name| operation.kind.key_of(operation.namespace.as_deref(), name));
    let Some(key) = key else { return Ended::Unknown };
    if operation.verb == OperationVerb::Delete && metadata["uid"].is_null() {
        return Ended::Gone { key, uid: text(&answer["details"]["uid"]) };
    }
    let stays = metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
        || metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
    let leaves = metadata["deletionTimestamp"].is_string() || operation.verb == OperationVerb::Delete;
    if leaves && !stays {
        return Ended::Gone { key, uid: text(&metadata["uid"]) };
    }
    let labels: Labels = metadata["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    Ended::Written { key, version: text(&metadata["resourceVersion"]).into(), labels }
}

impl Expected {
    /// Waits until an informer shows it, of a key or of all of them. Answers whether it had to wait.
    pub(super) async fn awaited<O: Object>(
        &self,
        informer: &CacheInformer<O>,
        key: Option<&ObjectKey>,
        timeout: Duration,
    ) -> Result<bool, ReadError> {
        let (begin, mut waited) = (Instant::now(), false);
        for part in informer.parts() {
            if key.is_some_and(|key| !informer.holds(part, key)) {
                continue;
            }
            let shows = |indexer: &Indexer<O>| {
                let held = key.and_then(|key| indexer.get(key));
                self.is_shown(held.as_deref(), &indexer.resource_version(), &part.selects)
            };
            if shows(part.informer.indexer()) {
                continue;
            }
            waited = true;
            let left = timeout.saturating_sub(begin.elapsed());
            if part.informer.wait_until_for(left, shows).await.is_err() {
                let key = key.map_or_else(|| "many objects".to_owned(), ToString::to_string);
                return Err(ReadError::Behind { kind: informer.name(), key, waited: begin.elapsed() });
            }
        }
        Ok(waited)
    }
}
