use std::time::Duration;

use informer_control::election::ElectionTimes;

/// A Lease says its duration in seconds, as a number of 32 bits with a sign.
const MAX_LEASE: Duration = Duration::from_secs(i32::MAX as u64);

/// An election that cannot be held as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot hold an election on the lease {lease:?}: {problem}")]
pub struct ElectionConfigError {
    lease: String,
    problem: String,
}

impl ElectionConfigError {
    pub(super) fn check(
        lease: &str,
        namespace: &str,
        identity: &str,
        times: ElectionTimes,
    ) -> Result<(), Self> {
        let slowest = Duration::try_from_secs_f64(times.retry.as_secs_f64() * times.jitter);
        let slowest = slowest.unwrap_or(Duration::MAX);
        let problem = if lease.is_empty() {
            "it needs a name".to_owned()
        } else if !lease.chars().chain(namespace.chars()).all(is_of_names) {
            "its name and namespace may have lower-case letters, digits, dots and dashes".to_owned()
        } else if identity.is_empty() {
            "this process needs an identity".to_owned()
        } else if times.lease < Duration::from_secs(1) {
            "the lease has to last a second at least".to_owned()
        } else if times.lease > MAX_LEASE {
            format!("the lease can last {MAX_LEASE:?} at most")
        } else if times.retry.is_zero() {
            "the retry period must not be zero".to_owned()
        } else if times.lease <= times.renew {
            format!(
                "the lease ({:?}) has to last longer than the renew deadline ({:?})",
                times.lease, times.renew
            )
        } else if times.renew <= slowest {
            format!(
                "the renew deadline ({:?}) has to be longer than {} retry periods ({slowest:?})",
                times.renew, times.jitter
            )
        } else {
            return Ok(());
        };
        Err(Self { lease: lease.to_owned(), problem })
    }
}

fn is_of_names(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'
}
