//! Limits the number of connections to a server. When all slots are taken, the connection whose peer has been
//! idle for the longest time is closed.
//!
//! # Invariants
//!
//! 1. At most `max` connections are open.
//! 2. A connection whose handler runs is never closed to make room. Every other connection waits for its
//!    peer: for the TLS handshake, a request head, a body, or for the peer to read a response.
//! 3. At most one connection at a time is being closed to make room for a new one.
//!
//! # Lock order
//!
//! The lock of a slot's `position` is taken before `state`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(super) struct Slots {
    shared: Arc<SlotsInner>,
}

struct SlotsInner {
    state: Mutex<SlotsState>,
    /// Notified when a slot may be free, or when a connection must close.
    changed: Notify,
}

struct SlotsState {
    max: usize,
    open: usize,
    /// The number of connections that are closing to make room for new ones.
    closing: usize,
    next: u64,
    /// The connections that wait for their peer, the longest-waiting one first. The token closes the
    /// connection.
    waiting: BTreeMap<u64, CancellationToken>,
}

impl SlotsState {
    /// Adds a connection after all others that wait for their peer. Returns its position among them.
    fn wait(&mut self, close: CancellationToken) -> u64 {
        let position = self.next;
        self.next += 1;
        self.waiting.insert(position, close);
        position
    }

    /// Takes a slot if one is free, and returns true if so. If no slot is free and no connection is closing,
    /// cancels the token of the connection that has waited longest for its peer, so that this connection
    /// closes.
    fn take(&mut self) -> bool {
        if self.open < self.max {
            self.open += 1;
            return true;
        }
        if self.closing == 0
            && let Some((_, close)) = self.waiting.pop_first()
        {
            self.closing += 1;
            close.cancel();
        }
        false
    }
}

impl Slots {
    pub(super) fn new(max: usize) -> Self {
        let state = SlotsState { max, open: 0, closing: 0, next: 0, waiting: BTreeMap::new() };
        Self { shared: Arc::new(SlotsInner { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Takes a slot for a connection. Waits until a slot is free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no slot. A connection that waited for its peer may already have been closed
    /// to free a slot.
    pub(super) async fn take(&self) -> Slot {
        while !self.shared.state.lock().take() {
            self.shared.changed.notified().await;
        }
        let close = CancellationToken::new();
        let position = self.shared.state.lock().wait(close.clone());
        Slot { shared: Arc::clone(&self.shared), close, position: Mutex::new(Some(position)) }
    }
}

/// The slot of one connection. Dropping it frees the slot.
pub(super) struct Slot {
    shared: Arc<SlotsInner>,
    close: CancellationToken,
    /// The position of the connection among the waiting ones; `None` while its handler runs.
    position: Mutex<Option<u64>>,
}

impl Slot {
    /// Resolves when the connection must close to make room for another one.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Marks the connection as serving a request until the returned guard is dropped.
    pub(super) fn serve(&self) -> Serving<'_> {
        if let Some(position) = self.position.lock().take() {
            self.shared.state.lock().waiting.remove(&position);
        }
        Serving(self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let position = self.position.get_mut().take();
        let mut state = self.shared.state.lock();
        if let Some(position) = position {
            state.waiting.remove(&position);
        }
        state.open -= 1;
        state.closing -= usize::from(self.close.is_cancelled());
        drop(state);
        self.shared.changed.notify_one();
    }
}

pub(super) struct Serving<'a>(&'a Slot);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let Slot { shared, close, position } = self.0;
        // If the connection was closed before its handler began, it is ending and does not wait again.
        if !close.is_cancelled() {
            *position.lock() = Some(shared.state.lock().wait(close.clone()));
        }
        shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
