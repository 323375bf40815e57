use std::time::Duration;

use super::{MAX_LEASE, ShardGroup};

/// The reason for which this replica must not act on a key of its shard group now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOwned {
    /// This replica has no valid lease, so it owns no key: it has not joined the group yet, could not renew
    /// its lease in time, or is leaving.
    #[error("this replica has no valid lease of its shard group")]
    NoLease,
    /// The key belongs to another replica of the group.
    #[error("the key belongs to another replica")]
    Elsewhere,
    /// The key is moving to this replica, and another replica may still act on the key.
    #[error("the key is moving to this replica")]
    HandOver,
}

/// The error for an invalid configuration of a shard group, such as conflicting periods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("join shard group {group:?}: {problem}")]
pub struct ShardConfigError {
    group: String,
    problem: String,
}

/// The maximum length in bytes of a group's name, which is a label value of its Leases. Kubernetes allows no
/// longer label values.
const MAX_NAME_BYTES: usize = 63;

impl ShardConfigError {
    pub(super) fn check(group: &ShardGroup, namespace: &str) -> Result<(), Self> {
        let times = group.times;
        let problem = if !is_name(&group.name) || !is_name(namespace) {
            "the name or namespace is invalid; use up to 63 lower-case letters, digits and inner dashes"
                .to_owned()
        } else if times.lease < Duration::from_secs(1) || times.lease > MAX_LEASE {
            format!("the lease duration ({:?}) must be between a second and an hour", times.lease)
        } else if times.retry.is_zero() || times.retry > times.lease / 3 {
            format!(
                "the lease duration ({:?}) must be at least three retry periods ({:?})",
                times.lease, times.retry
            )
        } else {
            return Ok(());
        };
        Err(Self { group: group.name.clone(), problem })
    }
}

fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let dash = |c: char| c == '-';
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.chars().all(inner)
        && !name.starts_with(dash)
        && !name.ends_with(dash)
}
