#[cfg(feature = "prometheus")]
mod prometheus;

#[cfg(feature = "prometheus")]
pub(crate) use prometheus::PrometheusShards;

use super::{NotOwned, ShardView};

pub(crate) trait ShardMetrics: Send + Sync + 'static {
    /// Called when the owned keys have changed.
    fn shares(&self, view: &ShardView);

    /// Called when requests were enqueued because their keys were gained.
    fn gained(&self, requests: u64);

    fn request_refused(&self, reason: NotOwned);

    /// Called when a write was not sent.
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
