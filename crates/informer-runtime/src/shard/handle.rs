use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::clock::now;

use super::state::MemberState;
use super::{NotOwned, ShardFence, ShardView};

pub(super) struct SharedMember {
    pub(super) state: Mutex<MemberState>,
    pub(super) view: watch::Sender<Arc<ShardView>>,
    pub(super) wake: Notify,
}

/// Shows which keys of a shard group this replica owns, and guards work on them. Cheap to clone.
#[derive(Clone)]
pub struct Sharding {
    pub(super) shared: Arc<SharedMember>,
}

impl Sharding {
    /// Begins work on a key. While the returned guard exists and the lease is renewed, the key is not moved
    /// to another replica.
    ///
    /// # Errors
    ///
    /// Returns an error if another replica owns the key or may still act on it, or if this replica has no
    /// valid lease. In this case drop the request: if the key moves to this replica later, it is
    /// [gained](Self::enqueue_gained).
    pub fn enter(&self, key: impl AsRef<str>) -> Result<OwnedKey, NotOwned> {
        let key: Arc<str> = key.as_ref().into();
        let term = self.shared.state.lock().enter(&key, now())?;
        Ok(OwnedKey { shared: Arc::clone(&self.shared), key, term })
    }

    /// Checks whether this replica owns the key now. Use this method to filter keys. Before work on a key,
    /// call [`enter`](Self::enter), so that the key is not moved.
    ///
    /// # Errors
    ///
    /// The same errors as [`enter`](Self::enter).
    pub fn check(&self, key: impl AsRef<str>) -> Result<ShardFence, NotOwned> {
        self.shared.state.lock().check(key.as_ref(), now())
    }

    /// Returns true if this replica owns the key now. If not, [`check`](Self::check) returns the reason.
    pub fn owns(&self, key: impl AsRef<str>) -> bool {
        self.check(key).is_ok()
    }

    /// Enqueues gained keys until this replica has left the group. `keys` returns all keys, for example those
    /// of the objects in the cache; it is called after each change of the owned keys.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the enqueueing; a later call begins with all owned keys.
    pub async fn enqueue_gained<K: AsRef<str>>(&self, keys: impl Fn() -> Vec<K>, mut enqueue: impl FnMut(K)) {
        let mut changes = self.changes();
        let mut before: Arc<ShardView> = Arc::default();
        loop {
            let after = Arc::clone(&*changes.borrow_and_update());
            keys().into_iter().filter(|key| after.gained_since(&before, key.as_ref())).for_each(&mut enqueue);
            before = after;
            if changes.wait_for(|view| view.number != before.number).await.is_err() {
                return;
            }
        }
    }

    /// Returns a receiver of the owned keys as [`ShardView`]s. If there are many changes in a short time, the
    /// receiver may skip views, and [`ShardView::gained_since`] accounts for that.
    pub fn changes(&self) -> watch::Receiver<Arc<ShardView>> {
        self.shared.view.subscribe()
    }
}

impl fmt::Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = Arc::clone(&*self.shared.view.borrow());
        f.debug_struct("Sharding")
            .field("name", &view.name)
            .field("active", &view.is_active())
            .finish_non_exhaustive()
    }
}

/// A key on which this replica works. While this value exists and the replica renews its lease, the key does
/// not move to another replica.
#[must_use = "dropping it lets the key move to another replica"]
pub struct OwnedKey {
    shared: Arc<SharedMember>,
    key: Arc<str>,
    term: u64,
}

impl OwnedKey {
    /// Checks whether the work on the key may continue. Call this method before each write.
    ///
    /// # Errors
    ///
    /// Returns an error if the lease has expired since the work began, because another replica may then own
    /// the key.
    pub fn check(&self) -> Result<ShardFence, NotOwned> {
        self.shared.state.lock().recheck(&self.key, self.term, now())
    }
}

impl Drop for OwnedKey {
    fn drop(&mut self) {
        if self.shared.state.lock().exit(&self.key, self.term) {
            self.shared.wake.notify_one();
        }
    }
}

impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedKey").field("key", &self.key).field("term", &self.term).finish_non_exhaustive()
    }
}
