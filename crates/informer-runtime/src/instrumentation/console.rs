//! The counters that the console shows in addition to the debug pages, and the caches for its actions.
//!
//! # Lock order
//!
//! The locks of the request counts and of the caches are never held together with another lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_core::Gvk;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Instrumentation, MAX_PROBES};
use crate::cache::WeakCache;
use crate::causes::{CauseSwitch, ConsoleReads};
use crate::{Cache, ClientMetrics, OperationVerb};

/// The maximum number of combinations of verb and status code that are counted. There are eight verbs, and an
/// API server uses some ten status codes.
const MAX_REQUEST_COUNTS: usize = 512;

#[derive(Default)]
pub(crate) struct ConsoleCounters {
    /// The reads of the console, during which controllers record causes and reconciles.
    pub(crate) reads: Arc<ConsoleReads>,
    pub(crate) requests: Arc<RequestCounts>,
    /// The caches that the manager shows.
    caches: Mutex<Vec<WeakCache>>,
}

impl ConsoleCounters {
    pub(super) fn add_cache(&self, cache: &Cache) {
        let mut caches = self.caches.lock();
        caches.retain(WeakCache::is_alive);
        let is_shown = |held: &WeakCache| held.upgrade().is_some_and(|held| held.is_same(cache));
        if caches.len() < MAX_PROBES && !caches.iter().any(is_shown) {
            caches.push(cache.downgrade());
        }
    }

    pub(crate) fn caches(&self) -> Vec<Cache> {
        let caches = self.caches.lock().clone();
        caches.iter().filter_map(WeakCache::upgrade).collect()
    }
}

/// The requests of a client, by verb and status code.
#[derive(Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<(&'static str, u16), RequestCount>>);

#[derive(Clone, Copy, Default)]
struct RequestCount {
    count: u64,
    took: Duration,
}

/// Counts the requests of a client for the console, and forwards them to the metrics of the manager.
pub(super) struct CountedClient {
    pub(super) counts: Arc<RequestCounts>,
    #[cfg(feature = "prometheus")]
    pub(super) prometheus: super::PrometheusClient,
}

/// Counts of additions, results and retries of one queue since it was created.
#[derive(Default)]
pub(super) struct QueueCounters {
    added: AtomicU64,
    retries: AtomicU64,
    started: AtomicU64,
    queued_nanos: AtomicU64,
    done: AtomicU64,
    worked_nanos: AtomicU64,
}

impl Instrumentation {
    pub(crate) fn cause_switch(&self) -> CauseSwitch {
        CauseSwitch::Console(Arc::clone(&self.console.reads))
    }
}

impl RequestCounts {
    fn add(&self, verb: OperationVerb, code: u16, took: Duration) {
        let key = (verb.kubernetes_name(), code);
        let mut counts = self.0.lock();
        if counts.len() < MAX_REQUEST_COUNTS || counts.contains_key(&key) {
            let count = counts.entry(key).or_default();
            count.count += 1;
            count.took = count.took.saturating_add(took);
        }
    }

    pub(crate) fn page(&self) -> Value {
        let counts = self.0.lock().clone();
        let one = |(&(verb, code), count): (&(&str, u16), &RequestCount)| json!({"verb": verb, "code": code, "count": count.count, "seconds": count.took.as_secs_f64()});
        counts.iter().map(one).collect()
    }
}

impl ClientMetrics for CountedClient {
    fn request(&self, verb: OperationVerb, kind: &Gvk, code: u16, took: Duration) {
        self.counts.add(verb, code, took);
        #[cfg(feature = "prometheus")]
        self.prometheus.request(verb, kind, code, took);
        #[cfg(not(feature = "prometheus"))]
        let _ = kind;
    }

    #[cfg(feature = "prometheus")]
    fn read_waited(&self, kind: &Gvk, waited: Duration, shown: bool) {
        self.prometheus.read_waited(kind, waited, shown);
    }

    #[cfg(feature = "prometheus")]
    fn unknown_fields(&self, kind: &Gvk) {
        self.prometheus.unknown_fields(kind);
    }
}

impl QueueCounters {
    pub(super) fn added(&self, keys: usize) {
        self.added.fetch_add(keys as u64, Ordering::Relaxed);
    }

    pub(super) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn queued_for(&self, time: Duration) {
        self.started.fetch_add(1, Ordering::Relaxed);
        self.queued_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(super) fn worked_for(&self, time: Duration) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.worked_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, page: &mut Value) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let seconds = |counter: &AtomicU64| Duration::from_nanos(count(counter)).as_secs_f64();
        page["added"] = json!(count(&self.added));
        page["retries"] = json!(count(&self.retries));
        page["started"] = json!(count(&self.started));
        page["queuedSecondsTotal"] = json!(seconds(&self.queued_nanos));
        page["done"] = json!(count(&self.done));
        page["workedSecondsTotal"] = json!(seconds(&self.worked_nanos));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
