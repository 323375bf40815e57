//! A controller whose keys are shared by several replicas: each request is entered before it is reconciled, and what is gained is looked
//! at.
//!
//! # Invariants
//!
//! 1. No reconcile begins for a key that the replica does not own, and no write of one is sent after its lease has become uncertain.
//! 2. A request that is refused is remembered before it is known whether the key was gained meanwhile, so that one of the two sees it.
//!
//! # Lock order
//!
//! `aside` alone; requests are made, compared and dropped outside of it. The lock of the [`Sharding`] is never taken under it.
//!
//! # Shutdown
//!
//! The task that follows the shares ends with the sources; the member, a part of the manager in a group before that of controllers, leaves
//! when their reconciles have ended.

mod aside;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use informer_core::panics::panic_text;
use parking_lot::Mutex;

use super::engine::Engine;
use crate::leader::driver::now;
use crate::shard::{ShardMetrics, ShardView};
use crate::source::Feed;
use crate::{BoxError, OwnedKey, ReconcileRequest, Services, ShardMember, Sharding};
use aside::Aside;

/// Says which key decides who owns a request.
pub(super) type KeyOf<R> = Arc<dyn Fn(&R) -> String + Send + Sync>;

/// The key of a request; a panic of the function is the program's, and its text the answer.
fn key<R>(key_of: &KeyOf<R>, request: &R) -> Result<Arc<str>, String> {
    let key = catch_unwind(AssertUnwindSafe(|| key_of(request)));
    key.map(Into::into).map_err(|panic| format!("its shard key: {}", panic_text(&*panic)))
}

/// Why a request is not worked on here and now.
pub(super) enum NotEntered<R> {
    /// Another replica owns its key, or nobody yet. The request comes back where the key was gained while it was put aside.
    Refused(Option<R>),
    /// The function that says its key panicked, with this text.
    KeyPanicked(String),
}

/// What the shares of a controller are, and what became of its requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardState {
    /// True while this replica holds a lease.
    pub active: bool,
    /// How many replicas share the keys.
    pub members: usize,
    /// Requests that were not worked on here, since another replica owns them, or nobody yet.
    pub refused: u64,
    /// Refused requests that are remembered for the case that their keys come here.
    pub aside: usize,
    /// Writes that were not sent, since the lease had become uncertain.
    pub writes_refused: u64,
}

/// The part of a controller that shares its keys.
pub(super) struct Sharded<R> {
    sharding: Sharding,
    key_of: KeyOf<R>,
    aside: Mutex<Aside<R>>,
    keep: Duration,
    tally: Arc<Tally>,
}

/// What is counted, and whoever wants to hear of it.
struct Tally {
    refused: AtomicU64,
    writes_refused: AtomicU64,
    metrics: Option<Arc<dyn ShardMetrics>>,
}

impl Tally {
    fn tell(&self, what: impl FnOnce(&dyn ShardMetrics)) {
        if let Some(metrics) = &self.metrics {
            what(&**metrics);
        }
    }
}

/// Tells that the replica owns nothing any more, however the following ends.
struct Inactive(Arc<Tally>);

impl Drop for Inactive {
    fn drop(&mut self) {
        self.0.tell(|metrics| metrics.shares(&ShardView::default()));
    }
}

impl<R: ReconcileRequest> Sharded<R> {
    pub(super) fn new(
        member: &ShardMember,
        key_of: KeyOf<R>,
        metrics: Option<Arc<dyn ShardMetrics>>,
    ) -> Self {
        // Shares are agreed on within a lease and some seconds; twice that is enough.
        let keep = member.lease_duration() * 2;
        let tally = Tally { refused: AtomicU64::new(0), writes_refused: AtomicU64::new(0), metrics };
        Self {
            sharding: member.sharding(),
            key_of,
            aside: Mutex::new(Aside::new(keep)),
            keep,
            tally: Arc::new(tally),
        }
    }

    /// Begins work on a request, or puts it aside.
    pub(super) fn enter(&self, request: &R) -> Result<OwnedKey, NotEntered<R>> {
        let key = key(&self.key_of, request).map_err(NotEntered::KeyPanicked)?;
        let refused = match self.sharding.enter(&key) {
            Ok(owned) => return Ok(owned),
            Err(refused) => refused,
        };
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        self.tally.tell(|metrics| metrics.request_refused(refused));
        let text: Arc<str> = request.to_string().into();
        let (kept, now) = (request.clone(), now());
        let forgotten = self.aside.lock().put(Arc::clone(&text), kept, Arc::clone(&key), now);
        drop(forgotten);
        let gained = self.sharding.owns(&key);
        Err(NotEntered::Refused(gained.then(|| self.aside.lock().take(&text)).flatten()))
    }

    /// The services of one reconcile: those of the controller, but for a client that writes only while the key is certainly owned.
    pub(super) fn services(&self, services: &Services, owned: &Arc<OwnedKey>) -> Services {
        let (owned, tally) = (Arc::downgrade(owned), Arc::clone(&self.tally));
        let client = services.client.fenced(move || {
            certain(&owned).inspect_err(|_| {
                tally.writes_refused.fetch_add(1, Ordering::Relaxed);
                tally.tell(|metrics| metrics.write_refused());
            })
        });
        Services { client, ..services.clone() }
    }

    pub(super) fn state(&self) -> ShardState {
        let view = Arc::clone(&*self.sharding.changes().borrow());
        ShardState {
            active: view.is_active(),
            members: view.members(),
            refused: self.tally.refused.load(Ordering::Relaxed),
            aside: self.aside.lock().len(),
            writes_refused: self.tally.writes_refused.load(Ordering::Relaxed),
        }
    }

    fn forget(&self, now: Instant) {
        let forgotten = self.aside.lock().forget(now);
        drop(forgotten);
    }
}

/// A client that outlives its reconcile writes nothing more: nobody holds the key for it.
fn certain(owned: &Weak<OwnedKey>) -> Result<(), BoxError> {
    let owned = owned.upgrade().ok_or("the reconcile that it belongs to has ended")?;
    owned.check()?;
    Ok(())
}

/// Looks at what is gained, whenever the shares change, until it is dropped.
pub(super) async fn follow<R: ReconcileRequest>(engine: Arc<Engine<R>>, feed: Feed<R>) {
    let Some(sharded) = &engine.sharded else { return };
    let _inactive = Inactive(Arc::clone(&sharded.tally));
    let mut changes = sharded.sharding.changes();
    let mut before: Arc<ShardView> = Arc::default();
    loop {
        let after = Arc::clone(&*changes.borrow_and_update());
        sharded.tally.tell(|metrics| metrics.shares(&after));
        if after.is_active() {
            gain(&engine, sharded, &feed, before, &after).await;
        }
        before = after;
        loop {
            let waited = tokio::time::timeout(sharded.keep, changes.changed()).await;
            sharded.forget(now());
            match waited {
                Ok(Ok(())) => break,
                // The member is gone for good.
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        }
    }
}

async fn gain<R: ReconcileRequest>(
    engine: &Engine<R>,
    sharded: &Sharded<R>,
    feed: &Feed<R>,
    before: Arc<ShardView>,
    after: &Arc<ShardView>,
) {
    let refused = sharded.aside.lock().take_owned(|key| after.owns(key));
    let mut gained = u64::try_from(refused.len()).unwrap_or(u64::MAX);
    for request in refused {
        engine.queue.add(request);
    }
    let count = Arc::new(AtomicU64::new(0));
    let (view, key_of, counter) = (Arc::clone(after), Arc::clone(&sharded.key_of), Arc::clone(&count));
    let only = move |request: &R| {
        // Where nobody can say whose it is, the worker that gets it tells of the panic.
        let Ok(key) = key(&key_of, request) else { return true };
        let gained = view.gained_since(&before, &key);
        counter.fetch_add(u64::from(gained), Ordering::Relaxed);
        gained
    };
    let feed = Feed { only: Some(Arc::new(only)), ..feed.clone() };
    for source in engine.sources() {
        feed.contain("the replay of a source", async { source.replay(feed.clone()).await }).await;
    }
    gained += count.load(Ordering::Relaxed);
    if gained > 0 {
        sharded.tally.tell(|metrics| metrics.gained(gained));
        tracing::info!(controller = engine.name(), requests = gained, "keys came to this replica");
    }
}

impl<R> fmt::Debug for Sharded<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharded").field("sharding", &self.sharding).finish_non_exhaustive()
    }
}
