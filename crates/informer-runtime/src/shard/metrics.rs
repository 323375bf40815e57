#[cfg(feature = "prometheus")]
mod prometheus;

#[cfg(feature = "prometheus")]
pub(crate) use prometheus::PrometheusShards;

use super::{NotOwned, ShardView};

pub(crate) trait ShardMetrics: Send + Sync + 'static {
    /// Called when the keys that this replica owns have changed. `view` has the new keys.
    fn shares(&self, view: &ShardView);

    /// Called after requests were added to the controller's queue because this replica gained their keys.
    /// `requests` is their number.
    fn gained(&self, requests: u64);

    fn request_refused(&self, reason: NotOwned);

    /// Called when a client did not send a write, because the replica was not certain to own the key.
    fn write_refused(&self);
}

#[cfg(feature = "prometheus")]
impl NotOwned {
    const ALL: [Self; 3] = [Self::NoLease, Self::Elsewhere, Self::HandOver];

    fn as_str(self) -> &'static str {
        match self {
            Self::NoLease => "no_lease",
            Self::Elsewhere => "elsewhere",
            Self::HandOver => "hand_over",
        }
    }
}
