//! Records failed Lease requests of an election or a shard group. Decides when failures are logged, and
//! whether they make the replica unready. The current time is an argument, so this module has no clock.
//!
//! # Invariants
//!
//! 1. A streak is a sequence of failures without a success between them. Its first failure is logged
//!    immediately, and so is the first failure of each kind. Other failures are logged at intervals that
//!    double from [`LOG_INTERVAL`] to [`MAX_LOG_INTERVAL`].
//! 2. A streak ends only when all requests of one attempt to acquire or renew the lease succeed, so that
//!    successful reads do not hide rejected writes.

use std::fmt;
use std::time::{Duration, Instant};

use http::StatusCode;

const LOG_INTERVAL: Duration = Duration::from_secs(10);

const MAX_LOG_INTERVAL: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The API server could not be reached: a timeout, a failed connection, or a temporary error (429, 5xx).
    Unreachable,
    /// The API server responded with 401 or 403: credentials or permissions for Leases are missing.
    Forbidden,
    /// The API server responded with 404 to a request that creates a Lease or lists Leases, so the namespace
    /// or the resource `leases` does not exist.
    NotFound,
    /// The API server rejected a Lease request for another reason, for example because the Lease is invalid.
    Rejected,
}

impl FailureKind {
    #[cfg(feature = "prometheus")]
    pub(crate) const ALL: [Self; 4] = [Self::Unreachable, Self::Forbidden, Self::NotFound, Self::Rejected];

    pub(crate) fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Self::Unreachable,
            status if status.is_server_error() => Self::Unreachable,
            _ => Self::Rejected,
        }
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Rejected => "refused",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => "check that the API server is running and reachable",
            Self::Forbidden => "grant the permissions on leases of coordination.k8s.io",
            Self::NotFound => {
                "check that the namespace exists and that the server serves coordination.k8s.io/v1"
            }
            Self::Rejected => "check that the Lease is valid",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) problem: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, problem: impl Into<String>) -> Self {
        Self { kind, problem: problem.into() }
    }

    pub(crate) fn of_status(status: StatusCode, body: &serde_json::Value) -> Self {
        let message = body["message"].as_str().unwrap_or("no message");
        Self::new(
            FailureKind::of(status),
            format!("the server responded with {}: {message}", status.as_u16()),
        )
    }

    /// Creates the failure of a Lease request for which no complete response was received. `problem`
    /// describes the cause.
    pub(crate) fn unreachable(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Unreachable, problem)
    }

    pub(crate) fn timed_out(timeout: Duration) -> Self {
        Self::new(FailureKind::Unreachable, format!("no response within {timeout:?}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.kind.remedy())
    }
}

#[derive(Debug)]
pub(crate) struct LeaseFailures {
    /// The time for which the replica stays ready after the first failure of a streak if the server cannot be
    /// reached. Short outages then do not make it unready.
    tolerance: Duration,
    total: u64,
    streak: Option<Streak>,
}

#[derive(Debug)]
struct Streak {
    since: Instant,
    count: u64,
    last: Failure,
    logged: Vec<FailureKind>,
    log_at: Instant,
    interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) failures: u64,
    pub(crate) after: Duration,
}

impl LeaseFailures {
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self { tolerance, total: 0, streak: None }
    }

    /// Records a failed Lease request. Returns true if the failure should be logged, which limits the number
    /// of log messages in a long outage.
    pub(crate) fn failed(&mut self, failure: Failure, now: Instant) -> bool {
        self.total += 1;
        let streak = self.streak.get_or_insert_with(|| Streak {
            since: now,
            count: 0,
            last: failure.clone(),
            logged: Vec::new(),
            log_at: now,
            interval: LOG_INTERVAL,
        });
        streak.count += 1;
        let new_kind = !streak.logged.contains(&failure.kind);
        let due = streak.log_at <= now;
        if new_kind {
            streak.logged.push(failure.kind);
        }
        if due {
            streak.log_at = now + streak.interval;
            streak.interval = (streak.interval * 2).min(MAX_LOG_INTERVAL);
        }
        streak.last = failure;
        new_kind || due
    }

    /// Records that all requests of one attempt to acquire or renew the lease succeeded. If a streak of
    /// failures ends with it, returns the number of failures and the duration of the streak.
    pub(crate) fn succeeded(&mut self, now: Instant) -> Option<Recovery> {
        let streak = self.streak.take()?;
        Some(Recovery { failures: streak.count, after: now.saturating_duration_since(streak.since) })
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the last failure of the current streak of failed requests, and the time since the first one;
    /// `None` if the last requests succeeded.
    pub(crate) fn failing(&self, now: Instant) -> Option<(&Failure, Duration)> {
        let streak = self.streak.as_ref()?;
        Some((&streak.last, now.saturating_duration_since(streak.since)))
    }

    /// Returns the reason for which the replica is not ready, if any. A rejected request counts immediately,
    /// because it will be rejected again. An unreachable server counts only after the tolerance.
    pub(crate) fn unready(&self, now: Instant) -> Option<String> {
        let (failure, duration) = self.failing(now)?;
        let tolerated = failure.kind == FailureKind::Unreachable && duration < self.tolerance;
        (!tolerated).then(|| format!("failing for {} s: {failure}", duration.as_secs()))
    }
}

#[cfg(test)]
mod tests;
