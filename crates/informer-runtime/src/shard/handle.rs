use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::leader::driver::now;

use super::state::MemberState;
use super::{NotOwned, ShardFence, ShardView};

pub(super) struct SharedMember {
    pub(super) state: Mutex<MemberState>,
    pub(super) view: watch::Sender<Arc<ShardView>>,
    /// Wakes the driver.
    pub(super) wake: Notify,
}

/// Which keys this replica may act on. A clone is the same.
#[derive(Clone)]
pub struct Sharding {
    pub(super) shared: Arc<SharedMember>,
}

impl Sharding {
    /// Begins work on a key. While the guard lives, the key is not given to another replica, as long as the lease is renewed.
    ///
    /// # Errors
    ///
    /// When another replica owns it, may still act on it, or this one has no lease. To be dropped: it is gained later, or never.
    pub fn enter(&self, key: impl AsRef<str>) -> Result<OwnedKey, NotOwned> {
        let key: Arc<str> = key.as_ref().into();
        let term = self.shared.state.lock().enter(&key, now())?;
        Ok(OwnedKey { shared: Arc::clone(&self.shared), key, term })
    }

    /// Whether the key may be acted on at this moment. For a filter; work needs [`enter`](Self::enter), so that the key stays.
    ///
    /// # Errors
    ///
    /// As those of [`enter`](Self::enter).
    pub fn check(&self, key: impl AsRef<str>) -> Result<ShardFence, NotOwned> {
        self.shared.state.lock().check(key.as_ref(), now())
    }

    /// True where the key may be acted on at this moment.
    pub fn owns(&self, key: impl AsRef<str>) -> bool {
        self.check(key).is_ok()
    }

    /// Enqueues the keys that are gained, until this replica is gone for good. `keys` tells all there are, such as those of the
    /// cache; it is asked after each change.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends it; a later call begins with all keys that are owned.
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

    /// What this replica owns, now and later. Views may be skipped where many come at once: what is gained between two is said by
    /// [`ShardView::gained_since`].
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

/// A key that is being worked on. Dropping it ends the work.
#[must_use = "the key may be given away when it is dropped"]
pub struct OwnedKey {
    shared: Arc<SharedMember>,
    key: Arc<str>,
    term: u64,
}

impl OwnedKey {
    /// Whether the work may go on; to be asked before each write.
    ///
    /// # Errors
    ///
    /// When the lease has passed since the work began: another replica may act on the key.
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
