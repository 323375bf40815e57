//! Limits the number of connections to an HTTP server. When all slots are taken, the connection whose peer
//! has been idle for the longest time is closed.
//!
//! # Invariants
//!
//! 1. At most `max` connections are open.
//! 2. A connection whose handler runs is never closed to make room. Every other connection waits for its peer
//!    (the client of the connection): for the TLS handshake, a request head or a body, or for the peer to
//!    read a response.
//! 3. At most one connection at a time is being closed to make room for a new one.
//!
//! # Lock order
//!
//! Each slot has a lock for its position among the waiting connections, and all slots share the lock of the
//! set of waiting connections. The lock of the position is taken first.

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
    /// Notified when a slot was freed, or when a connection waits for its peer and may therefore be closed.
    changed: Notify,
}

struct SlotsState {
    max: usize,
    open: usize,
    /// The number of connections that the server is closing to make room for new ones. It is at most one.
    closing: usize,
    next: u64,
    /// The connections that wait for their peer, the longest-waiting one first. Cancelling the token of a
    /// connection closes it.
    waiting: BTreeMap<u64, CancellationToken>,
}

impl SlotsState {
    /// Adds a connection as the last one to those that wait for their peer. Cancelling `close` closes the
    /// connection. Returns its position among the waiting connections.
    fn wait(&mut self, close: CancellationToken) -> u64 {
        let position = self.next;
        self.next += 1;
        self.waiting.insert(position, close);
        position
    }

    /// Takes a slot for a new connection and returns true if a slot is free. Otherwise returns false. If then
    /// no other connection is closing, the connection that has waited longest for its peer is closed.
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

    /// Takes a slot for a new connection. If all slots are taken, an idle connection is closed, and this call
    /// waits until a slot is free.
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

/// The right of one connection to exist, of which a server grants a limited number. Dropping this value frees
/// it for another connection.
pub(super) struct Slot {
    shared: Arc<SlotsInner>,
    close: CancellationToken,
    /// The position of this connection among the connections that wait for their peer. `None` while a request
    /// handler of the connection runs, because the connection must not be closed then.
    position: Mutex<Option<u64>>,
}

impl Slot {
    /// Resolves when this connection must be closed, because a new connection needs its slot.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Marks the connection as serving a request until the returned guard is dropped. Meanwhile it is not
    /// closed to make room.
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
        // If the server closed the connection before its handler began, it is about to end, so it is not
        // added to the waiting connections again.
        if !close.is_cancelled() {
            *position.lock() = Some(shared.state.lock().wait(close.clone()));
        }
        shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
