use std::time::Duration;

use informer_control::election::ElectionTimes;

use crate::api_request::is_name;

/// The maximum duration of a lease, because `leaseDurationSeconds` of a Lease is an i32.
const MAX_LEASE: Duration = Duration::from_secs(i32::MAX as u64);

/// The error for an invalid configuration of a leader election, such as conflicting periods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configure leader election on Lease {lease:?}: {problem}")]
pub struct ElectionConfigError {
    lease: String,
    problem: String,
}

impl ElectionConfigError {
    pub(super) fn check(
        lease: &str,
        namespace: &str,
        (identity, is_coordinated): (&str, bool),
        times: ElectionTimes,
    ) -> Result<(), Self> {
        let slowest = Duration::try_from_secs_f64(times.retry.as_secs_f64() * times.jitter);
        let slowest = slowest.unwrap_or(Duration::MAX);
        let problem = if lease.is_empty() {
            "the name is missing; set it".to_owned()
        } else if !is_name(lease) || !is_name(namespace) {
            "the name or namespace is invalid; use lower-case letters, digits, dots and dashes".to_owned()
        } else if identity.is_empty() {
            "the identity is empty; set it, or leave the default".to_owned()
        } else if is_coordinated && !is_name(identity) {
            "the identity is no name of a LeaseCandidate; use lower-case letters, digits, dots and dashes"
                .to_owned()
        } else if times.lease < Duration::from_secs(1) {
            "the lease duration is less than a second; increase it".to_owned()
        } else if times.lease > MAX_LEASE {
            format!("the lease duration is greater than {MAX_LEASE:?}; decrease it")
        } else if times.retry.is_zero() {
            "the retry period is zero; increase it".to_owned()
        } else if times.lease <= times.renew {
            format!(
                "the lease duration ({:?}) must be greater than the renew deadline ({:?})",
                times.lease, times.renew
            )
        } else if times.renew <= slowest {
            format!(
                "the renew deadline ({:?}) must be greater than {} retry periods ({slowest:?})",
                times.renew, times.jitter
            )
        } else {
            return Ok(());
        };
        Err(Self { lease: lease.to_owned(), problem })
    }
}
