//! The causes and reconciles that the console shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::recent::ReconcileRecord;
use super::{CauseLog, MAX_RUNNING, now, texts};
use crate::ReconcileRequest;

/// The reason why the console cannot enqueue a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnqueueError {
    #[error("the controller does not run in this replica")]
    NotRunning,
    /// Only the requests of controllers of objects are created from their text.
    #[error(
        "the key is not valid for this controller; a controller with its own request type accepts only keys \
         that it reconciles now or has recorded"
    )]
    UnknownKey,
    #[error("the key belongs to another replica")]
    OtherReplica,
}

impl<R: ReconcileRequest> CauseLog<R> {
    pub(crate) fn running(&self, run: u64, now: Instant) -> Vec<Value> {
        self.recent.running(MAX_RUNNING).iter().map(|record| record.page(run, now)).collect()
    }

    pub(crate) fn ended(&self, after: u64, max: usize, run: u64, now: Instant) -> (Vec<Value>, u64) {
        let (records, total) = self.recent.ended(after, max);
        (records.iter().map(|record| record.page(run, now)).collect(), total)
    }

    /// Notes the result of a reconcile, so that the failing keys are known.
    pub(crate) fn note_result(&self, request: &R, has_failed: bool) {
        if has_failed && self.is_available() {
            self.failing.add(request, now());
        } else {
            self.failing.remove(request);
        }
    }

    /// Returns the number of keys whose last reconcile failed, and the time for which the first of them has
    /// been failing.
    pub(crate) fn failing(&self, now: Instant) -> (usize, Option<Duration>) {
        self.failing.state(now)
    }

    pub(crate) fn kept(&self, after: u64) -> usize {
        self.recent.kept(after)
    }

    /// Returns a recorded request that is queued, runs or has ended recently, by its text.
    pub(crate) fn find(&self, key: &str) -> Option<R> {
        // `Display` of a request is code of the program, so it does not run under the lock.
        let queued: Vec<R> = self.by_request.lock().keys().cloned().collect();
        let running = self.recent.running(usize::MAX);
        let (ended, _) = self.recent.ended(0, usize::MAX);
        let known = running.iter().chain(&ended).map(|record| &record.request);
        known.chain(&queued).find(|request| request.to_string() == key).cloned()
    }

    pub(crate) fn history(&self, key: &str, run: u64, now: Instant) -> Option<Value> {
        let all: Vec<R> = self.by_request.lock().keys().cloned().collect();
        // `Display` of a request is code of the program, so it does not run under the lock.
        let request = all.into_iter().find(|request| request.to_string() == key);
        let queued = request.and_then(|request| {
            let by_request = self.by_request.lock();
            by_request.get(&request).map(|pending| (pending.since, pending.causes.clone()))
        });
        let queued = queued.map(|(since, causes)| {
            let age = now.saturating_duration_since(since).as_secs_f64();
            json!({"ageSeconds": age, "causes": texts(&causes), "omitted": causes.omitted()})
        });
        let of_key = |records: Vec<Arc<ReconcileRecord<R>>>| -> Vec<Value> {
            records.iter().filter(|record| record.concerns(key)).map(|record| record.page(run, now)).collect()
        };
        let (running, ended) =
            (of_key(self.recent.running(usize::MAX)), of_key(self.recent.ended(0, usize::MAX).0));
        let known = queued.is_some() || !running.is_empty() || !ended.is_empty();
        known.then(|| json!({"queued": queued, "running": running, "reconciles": ended}))
    }
}
