use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ShardMetrics;
use crate::shard::{NotOwned, ShardView};

type Labels = Vec<(&'static str, String)>;

/// The number of artificial keys for estimating which fraction of all keys a replica owns. The estimate is
/// accurate to about 0.06, and takes some microseconds after each change of the owned keys.
const SAMPLE: u32 = 256;

/// The metrics of all sharded controllers of a registry:
///
/// | name | type | meaning |
/// |---|---|---|
/// | `informer_shard_active` | gauge | 1 while the replica has a valid lease |
/// | `informer_shard_members` | gauge | the number of replicas in the group |
/// | `informer_shard_share` | gauge | the estimated fraction of all keys that the replica owns |
/// | `informer_shard_changes_total` | counter | changes of the owned keys: several for a replica that joins or leaves |
/// | `informer_shard_gained_requests_total` | counter | requests enqueued because their keys were gained |
/// | `informer_shard_refused_requests_total` | counter | rejected requests, by `reason` |
/// | `informer_shard_refused_writes_total` | counter | writes that were not sent, since the lease was uncertain |
///
/// Every series has the label `controller`.
#[derive(Debug, Clone)]
pub(crate) struct PrometheusShards {
    active: Family<Labels, Gauge>,
    members: Family<Labels, Gauge>,
    share: Family<Labels, Gauge<f64, AtomicU64>>,
    changes: Family<Labels, Counter>,
    gained: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    writes: Family<Labels, Counter>,
}

impl PrometheusShards {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            active: Family::default(),
            members: Family::default(),
            share: Family::default(),
            changes: Family::default(),
            gained: Family::default(),
            refused: Family::default(),
            writes: Family::default(),
        };
        let gauges = [
            ("active", "1 while the replica has a valid lease", &families.active),
            ("members", "Replicas in the shard group", &families.members),
        ];
        for (name, help, family) in gauges {
            registry.register(format!("informer_shard_{name}"), help, family.clone());
        }
        let help = "Estimated fraction of all keys that the replica owns";
        registry.register("informer_shard_share", help, families.share.clone());
        let counters = [
            ("changes", "Changes of the keys that the replica owns", &families.changes),
            ("gained_requests", "Requests whose keys were gained by the replica", &families.gained),
            ("refused_requests", "Requests of keys that the replica does not own", &families.refused),
            ("refused_writes", "Writes that were not sent because the lease was uncertain", &families.writes),
        ];
        for (name, help, family) in counters {
            registry.register(format!("informer_shard_{name}"), help, family.clone());
        }
        families
    }

    pub(crate) fn controller(&self, name: &str) -> Arc<dyn ShardMetrics> {
        let labels = vec![("controller", name.to_owned())];
        let refused = |reason: NotOwned| {
            let labels = vec![("controller", name.to_owned()), ("reason", reason.as_str().to_owned())];
            self.refused.get_or_create_owned(&labels)
        };
        Arc::new(ShardSeries {
            active: self.active.get_or_create_owned(&labels),
            members: self.members.get_or_create_owned(&labels),
            share: self.share.get_or_create_owned(&labels),
            changes: self.changes.get_or_create_owned(&labels),
            gained: self.gained.get_or_create_owned(&labels),
            refused: NotOwned::ALL.map(refused),
            writes: self.writes.get_or_create_owned(&labels),
        })
    }
}

struct ShardSeries {
    active: Gauge,
    members: Gauge,
    share: Gauge<f64, AtomicU64>,
    changes: Counter,
    gained: Counter,
    /// The counters of requests that were rejected because this replica does not own their keys, indexed by
    /// the reason ([`NotOwned`]).
    refused: [Counter; 3],
    writes: Counter,
}

impl ShardMetrics for ShardSeries {
    fn shares(&self, view: &ShardView) {
        self.active.set(i64::from(view.is_active()));
        self.members.set(i64::try_from(view.members()).unwrap_or(i64::MAX));
        let owned = (0..SAMPLE).filter(|number| view.owns(&format!("sample/{number}"))).count();
        self.share.set(owned as f64 / f64::from(SAMPLE));
        self.changes.inc();
    }

    fn gained(&self, requests: u64) {
        self.gained.inc_by(requests);
    }

    fn request_refused(&self, reason: NotOwned) {
        self.refused[reason as usize].inc();
    }

    fn write_refused(&self) {
        self.writes.inc();
    }
}
