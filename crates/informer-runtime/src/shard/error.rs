use std::time::Duration;

use super::{MAX_LEASE, ShardGroup};

/// A key that this replica must not act on now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOwned {
    /// This replica has no lease: it has not joined yet, could not renew in time, or leaves.
    #[error("this replica holds no lease of its group")]
    NoLease,
    /// The key belongs to another replica.
    #[error("the key belongs to another replica")]
    Elsewhere,
    /// The key is to be this replica's, and another may still act on it.
    #[error("the key is about to move here")]
    HandOver,
}

/// A group that cannot work as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot join the shard group {group:?}: {problem}")]
pub struct ShardConfigError {
    group: String,
    problem: String,
}

/// The longest value of a label.
const MAX_NAME_BYTES: usize = 63;

impl ShardConfigError {
    pub(super) fn check(group: &ShardGroup, namespace: &str) -> Result<(), Self> {
        let times = group.times;
        let problem = if !is_name(&group.name) || !is_name(namespace) {
            "its name and namespace may have up to 63 lower-case letters, digits and dashes between"
                .to_owned()
        } else if times.lease < Duration::from_secs(1) || times.lease > MAX_LEASE {
            format!("the lease ({:?}) has to last from a second to an hour", times.lease)
        } else if times.retry.is_zero() || times.retry > times.lease / 3 {
            format!(
                "a lease ({:?}) has to last three retry periods ({:?}) at least",
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
