//! The state of an election or of a shard group's member, for logs, metrics, health checks and debug pages.
//!
//! # Lock order
//!
//! The lock of the state is never held together with another lock, and nothing is logged or counted while it
//! is held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
#[cfg(feature = "prometheus")]
use prometheus_client::{metrics::counter::Counter, metrics::family::Family, registry::Registry};
use serde_json::{Value, json};

#[cfg(any(feature = "prometheus", test))]
use super::failures::FailureKind;
use super::failures::{Failure, LeaseFailures};
use crate::BoxError;
use crate::clock::now;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseUse {
    LeaderElection,
    ShardGroup,
}

impl LeaseUse {
    /// Returns the name of the purpose for which the Lease is used. It is a label in metrics, the kind on
    /// debug pages, and part of the name of the health check.
    fn as_str(self) -> &'static str {
        match self {
            Self::LeaderElection => "leader-election",
            Self::ShardGroup => "shard-group",
        }
    }
}

/// The state of one election, or of one member of a shard group. The task that sends its Lease requests
/// reports this state.
pub(crate) struct LeaseHealth {
    of: LeaseUse,
    /// The name of the election's Lease, or of the shard group.
    name: String,
    namespace: String,
    identity: String,
    state: Mutex<LeaseState>,
    #[cfg(feature = "prometheus")]
    counters: std::sync::OnceLock<[Counter; FailureKind::ALL.len()]>,
}

struct LeaseState {
    failures: LeaseFailures,
    /// True while this process is the leader of the election, or is a member of the shard group with a valid
    /// lease.
    active: bool,
    /// The last observed holder of an election's Lease; `None` for a shard group, in which each member has a
    /// Lease.
    holder: Option<String>,
}

impl LeaseHealth {
    /// Creates the state of an election or a shard group's member without failed requests. `tolerance` is the
    /// time for which this process stays ready while the API server cannot be reached.
    pub(crate) fn new(
        of: LeaseUse,
        namespace: &str,
        name: &str,
        identity: &str,
        tolerance: Duration,
    ) -> Arc<Self> {
        let state = LeaseState { failures: LeaseFailures::new(tolerance), active: false, holder: None };
        Arc::new(Self {
            of,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            state: Mutex::new(state),
            #[cfg(feature = "prometheus")]
            counters: std::sync::OnceLock::new(),
        })
    }

    /// Returns a reference to the Lease of an election; `None` for a shard group.
    #[cfg(feature = "console")]
    pub(crate) fn election_lease(&self) -> Option<crate::EventSubject> {
        let lease =
            || crate::EventSubject::new("coordination.k8s.io/v1", "Lease", &self.namespace, &self.name);
        matches!(self.of, LeaseUse::LeaderElection).then(lease)
    }

    pub(crate) fn check_name(&self) -> String {
        match self.of {
            LeaseUse::LeaderElection => self.of.as_str().to_owned(),
            LeaseUse::ShardGroup => format!("{}-{}", self.of.as_str(), self.name),
        }
    }

    /// Records and counts a failed Lease request. Logs the failure unless a similar one was logged recently.
    pub(crate) fn failed(&self, failure: Failure) {
        #[cfg(feature = "prometheus")]
        if let Some(counters) = self.counters.get() {
            counters[failure.kind as usize].inc();
        }
        let text = failure.to_string();
        let (log, total) = {
            let mut state = self.state.lock();
            (state.failures.failed(failure, now()), state.failures.total())
        };
        if log {
            let (kind, namespace, name) = (self.of.as_str(), &self.namespace, &self.name);
            tracing::warn!(kind, namespace, name, failures = total, error = text, "a Lease request failed");
        }
    }

    pub(crate) fn succeeded(&self) {
        let recovery = self.state.lock().failures.succeeded(now());
        if let Some(recovery) = recovery {
            let (kind, namespace, name) = (self.of.as_str(), &self.namespace, &self.name);
            let (failures, after) = (recovery.failures, recovery.after);
            tracing::info!(kind, namespace, name, failures, ?after, "Lease requests succeed again");
        }
    }

    /// Ends the current streak of failures, because the process has left the election or shard group and
    /// sends no more Lease requests. The health check then succeeds.
    pub(crate) fn stopped(&self) {
        self.state.lock().failures.succeeded(now());
    }

    pub(crate) fn set_active(&self, active: bool) {
        self.state.lock().active = active;
    }

    pub(crate) fn set_holder(&self, holder: &str) {
        self.state.lock().holder = Some(holder.to_owned());
    }

    /// Performs the readiness check of an election or a shard group. Returns an error while the API server
    /// rejects Lease requests, or after it could not be reached for the tolerance.
    pub(crate) fn ready(&self) -> Result<(), BoxError> {
        match self.state.lock().failures.unready(now()) {
            Some(reason) => Err(reason.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn page(&self, now: Instant) -> Value {
        let state = self.state.lock();
        let failing = state.failures.failing(now);
        json!({
            "kind": self.of.as_str(),
            "namespace": self.namespace,
            "name": self.name,
            "identity": self.identity,
            "active": state.active,
            "holder": state.holder,
            "failures": state.failures.total(),
            "failingSeconds": failing.map(|(_, duration)| duration.as_secs_f64()),
            "lastError": failing.map(|(failure, _)| failure.to_string()),
        })
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn count_in(&self, failures: &LeaseFailureMetrics) {
        let _ = self.counters.set(FailureKind::ALL.map(|kind| {
            failures.0.get_or_create_owned(&vec![
                ("kind", self.of.as_str().to_owned()),
                ("name", self.name.clone()),
                ("reason", kind.as_str().to_owned()),
            ])
        }));
    }
}

/// The metric `informer_lease_request_failures_total`, by the purpose of the Lease, its name, and the reason
/// of the failure.
#[cfg(feature = "prometheus")]
#[derive(Clone, Default)]
pub(crate) struct LeaseFailureMetrics(Family<Vec<(&'static str, String)>, Counter>);

#[cfg(feature = "prometheus")]
impl LeaseFailureMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Failed Lease requests of elections and shard groups";
        registry.register("informer_lease_request_failures", help, metrics.0.clone());
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_member_is_ready_and_keeps_its_count_of_failures() {
        let health = LeaseHealth::new(LeaseUse::ShardGroup, "ns", "group", "me", Duration::ZERO);
        health.failed(Failure::new(FailureKind::Forbidden, "403"));
        assert!(health.ready().is_err());
        health.stopped();
        assert!(health.ready().is_ok());
        let page = health.page(now());
        assert_eq!((&page["failures"], &page["lastError"]), (&json!(1), &Value::Null));
    }
}
