//! Sharded controllers. Before each reconcile, the controller verifies that this replica owns the key of the
//! request, and keeps the key until the reconcile ends (`enter`). When the replica gains keys, the controller
//! enqueues their requests.
//!
//! # Invariants
//!
//! 1. No reconcile begins for a key that the replica does not own, and no write for it is sent once the lease
//!    is uncertain.
//! 2. A rejected request is stored before the replica checks whether the key was gained meanwhile. So either
//!    that check or the task that enqueues gained keys handles the request.
//!
//! # Lock order
//!
//! The lock of `rejected` is never held together with another lock, in particular that of the [`Sharding`];
//! requests are cloned, compared and dropped without it.
//!
//! # Shutdown
//!
//! The task that follows changes of the shard ends with the sources. The member of the shard group is a
//! runnable in a group of the manager before that of controllers, so it leaves the shard group after their
//! reconciles have ended.

mod rejected;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use informer_core::panics::panic_text;
use parking_lot::Mutex;

use super::engine::Engine;
use crate::clock::now;
use crate::shard::{ShardMetrics, ShardView};
use crate::source::Enqueuer;
use crate::{BoxError, OwnedKey, ReconcileCause, ReconcileRequest, Services, ShardMember, Sharding};
use rejected::RejectedRequests;

pub(super) type KeyOf<R> = Arc<dyn Fn(&R) -> String + Send + Sync>;

/// Returns the shard key of a request, as the program's function `key_of` computes it. If `key_of` panics,
/// the panic message is returned as an error.
fn shard_key<R>(key_of: &KeyOf<R>, request: &R) -> Result<Arc<str>, String> {
    let key = catch_unwind(AssertUnwindSafe(|| key_of(request)));
    key.map(Into::into).map_err(|panic| format!("the shard key function: {}", panic_text(&*panic)))
}

/// The reason why a request is not reconciled by this replica now.
pub(super) enum EnterError<R> {
    /// This replica does not own the key of the request. The variant contains the request if the replica
    /// gained the key while the request was being stored as rejected; the caller must then enqueue the
    /// request again.
    Refused(Option<R>),
    KeyPanicked(String),
}

/// The state of this replica's shard of a controller, with counters of rejected requests and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardState {
    /// True while this replica holds the lease of its membership in the shard group.
    pub active: bool,
    /// The number of replicas in the shard group.
    pub members: usize,
    /// Number of requests that were not reconciled by this replica, since another replica, or none, owns
    /// their keys.
    pub refused: u64,
    /// Number of rejected requests that are stored in case this replica gains their keys.
    pub remembered: usize,
    /// Number of writes that were not sent, since this replica might no longer have owned the key of the
    /// request, or since the reconcile had ended.
    pub writes_refused: u64,
}

pub(super) struct Sharded<R> {
    sharding: Sharding,
    key_of: KeyOf<R>,
    rejected: Mutex<RejectedRequests<R>>,
    keep: Duration,
    counters: Arc<ShardCounters>,
}

struct ShardCounters {
    refused: AtomicU64,
    writes_refused: AtomicU64,
    metrics: Option<Arc<dyn ShardMetrics>>,
}

impl ShardCounters {
    fn report(&self, call: impl FnOnce(&dyn ShardMetrics)) {
        if let Some(metrics) = &self.metrics {
            call(&**metrics);
        }
    }
}

/// A guard that, when the controller stops, reports to the metrics that this replica owns no shard any more.
struct ClearSharesOnDrop(Arc<ShardCounters>);

impl Drop for ClearSharesOnDrop {
    fn drop(&mut self) {
        self.0.report(|metrics| metrics.shares(&ShardView::default()));
    }
}

impl<R: ReconcileRequest> Sharded<R> {
    pub(super) fn new(
        member: &ShardMember,
        key_of: KeyOf<R>,
        metrics: Option<Arc<dyn ShardMetrics>>,
    ) -> Self {
        // Replicas agree on a change of shards within a lease duration and some seconds, so it is enough to
        // store requests for two lease durations.
        let keep = member.lease_duration() * 2;
        let counters =
            ShardCounters { refused: AtomicU64::new(0), writes_refused: AtomicU64::new(0), metrics };
        Self {
            sharding: member.sharding(),
            key_of,
            rejected: Mutex::new(RejectedRequests::new(keep)),
            keep,
            counters: Arc::new(counters),
        }
    }

    /// Begins the reconcile of a request. If this replica does not own the key of the request, the request is
    /// stored as rejected and an error is returned.
    pub(super) fn enter(&self, request: &R) -> Result<OwnedKey, EnterError<R>> {
        let key = shard_key(&self.key_of, request).map_err(EnterError::KeyPanicked)?;
        let refused = match self.sharding.enter(&key) {
            Ok(owned) => return Ok(owned),
            Err(refused) => refused,
        };
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.counters.report(|metrics| metrics.request_refused(refused));
        let text: Arc<str> = request.to_string().into();
        let (kept, now) = (request.clone(), now());
        let forgotten = self.rejected.lock().insert(Arc::clone(&text), kept, Arc::clone(&key), now);
        drop(forgotten);
        let gained = self.sharding.owns(&key);
        Err(EnterError::Refused(gained.then(|| self.rejected.lock().take(&text)).flatten()))
    }

    /// Returns false if this replica does not own the key of a request. If the shard key function panics, the
    /// owner is unknown and this method returns true; the worker that gets the request reports the panic.
    #[cfg(feature = "console")]
    pub(super) fn may_own(&self, request: &R) -> bool {
        shard_key(&self.key_of, request).map_or(true, |key| self.sharding.owns(&key))
    }

    /// Returns the services of one reconcile. They are those of the controller, with a client that writes
    /// only while this replica certainly owns the key.
    pub(super) fn services(&self, services: &Services, owned: &Arc<OwnedKey>) -> Services {
        let (owned, counters) = (Arc::downgrade(owned), Arc::clone(&self.counters));
        let client = services.client.fenced(move || {
            check_key(&owned).inspect_err(|_| {
                counters.writes_refused.fetch_add(1, Ordering::Relaxed);
                counters.report(|metrics| metrics.write_refused());
            })
        });
        let mut services = services.clone();
        services.client = client;
        services
    }

    pub(super) fn state(&self) -> ShardState {
        let view = Arc::clone(&*self.sharding.changes().borrow());
        ShardState {
            active: view.is_active(),
            members: view.members(),
            refused: self.counters.refused.load(Ordering::Relaxed),
            remembered: self.rejected.lock().len(),
            writes_refused: self.counters.writes_refused.load(Ordering::Relaxed),
        }
    }

    fn forget(&self, now: Instant) {
        let forgotten = self.rejected.lock().forget(now);
        drop(forgotten);
    }
}

/// Returns an error if this replica may not write for the key of a reconcile any more. After the reconcile
/// has ended it always returns an error, because a client that outlives its reconcile must not write.
fn check_key(owned: &Weak<OwnedKey>) -> Result<(), BoxError> {
    let owned = owned.upgrade().ok_or("the reconcile of this client has ended")?;
    owned.check()?;
    Ok(())
}

/// Enqueues the requests whose keys this replica gains, after each change of the shard. The returned future
/// runs until it is dropped or the member of the shard group stops.
pub(super) async fn follow_shares<R: ReconcileRequest>(engine: Arc<Engine<R>>, enqueuer: Enqueuer<R>) {
    let Some(sharded) = &engine.sharded else { return };
    let _clear = ClearSharesOnDrop(Arc::clone(&sharded.counters));
    let mut changes = sharded.sharding.changes();
    let mut before: Arc<ShardView> = Arc::default();
    loop {
        let after = Arc::clone(&*changes.borrow_and_update());
        sharded.counters.report(|metrics| metrics.shares(&after));
        if after.is_active() {
            handle_gained_keys(&engine, sharded, &enqueuer, before, &after).await;
        }
        before = after;
        loop {
            let waited = tokio::time::timeout(sharded.keep, changes.changed()).await;
            sharded.forget(now());
            match waited {
                Ok(Ok(())) => break,
                // The channel of changes is closed because the member of the shard group has stopped, so the
                // shard no longer changes.
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        }
    }
}

async fn handle_gained_keys<R: ReconcileRequest>(
    engine: &Engine<R>,
    sharded: &Sharded<R>,
    enqueuer: &Enqueuer<R>,
    before: Arc<ShardView>,
    after: &Arc<ShardView>,
) {
    let refused = sharded.rejected.lock().take_owned(|key| after.owns(key));
    let mut gained = u64::try_from(refused.len()).unwrap_or(u64::MAX);
    for request in refused {
        engine.enqueue(request, ReconcileCause::KeyGained);
    }
    let count = Arc::new(AtomicU64::new(0));
    let (view, key_of, counter) = (Arc::clone(after), Arc::clone(&sharded.key_of), Arc::clone(&count));
    let only = move |request: &R| {
        // If the shard key function panics, the owner of the request is unknown. The request is then
        // enqueued, and the worker that gets it reports the panic.
        let Ok(key) = shard_key(&key_of, request) else { return true };
        let gained = view.gained_since(&before, &key);
        counter.fetch_add(u64::from(gained), Ordering::Relaxed);
        gained
    };
    let enqueuer = Enqueuer { only: Some(Arc::new(only)), ..enqueuer.clone() };
    for source in engine.sources() {
        enqueuer.contain("the replay of a source", async { source.replay(enqueuer.clone()).await }).await;
    }
    gained += count.load(Ordering::Relaxed);
    if gained > 0 {
        sharded.counters.report(|metrics| metrics.gained(gained));
        tracing::info!(controller = engine.name(), requests = gained, "this replica gained keys");
    }
}

impl<R> fmt::Debug for Sharded<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharded").field("sharding", &self.sharding).finish_non_exhaustive()
    }
}
