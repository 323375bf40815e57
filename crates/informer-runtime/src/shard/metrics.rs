//! What sharing keys tells about itself.

#[cfg(feature = "prometheus")]
mod prometheus;

#[cfg(feature = "prometheus")]
pub(crate) use prometheus::PrometheusShards;

use super::{NotOwned, ShardView};

/// Receives what becomes of the shares of a controller.
pub(crate) trait ShardMetrics: Send + Sync + 'static {
    /// The shares have changed.
    fn shares(&self, view: &ShardView);

    /// So many requests were enqueued, because their keys came here.
    fn gained(&self, requests: u64);

    /// A request was not worked on.
    fn request_refused(&self, why: NotOwned);

    /// A write was not sent.
    fn write_refused(&self);
}

#[cfg(feature = "prometheus")]
impl NotOwned {
    const ALL: [Self; 3] = [Self::NoLease, Self::Elsewhere, Self::HandOver];

    /// The word for it in metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::NoLease => "no_lease",
            Self::Elsewhere => "elsewhere",
            Self::HandOver => "hand_over",
        }
    }
}
