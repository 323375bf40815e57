//! Limits the number of connections to an HTTP server. When all slots are taken, the connection whose peer
//! has been idle for the longest time is closed.
//!
//! # Invariants
//!
//! 1. At most `max` connections are open.
//! 2. A connection that serves a request is never closed to make room. Every other connection waits for its
//!    peer (the client of the connection): for the TLS handshake, a request head or a body, or for the peer
//!    to read a response.
//! 3. At most one connection at a time is being closed to make room for a new one.
//!
//! # Lock order
//!
//! Each slot has a lock for its activity, and all slots share the lock of the set of waiting connections. The
//! lock of the activity is taken first.

mod state;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use state::{SlotsState, Take};

#[derive(Clone)]
pub(crate) struct Slots {
    shared: Arc<SlotsInner>,
}

#[derive(Debug)]
struct SlotsInner {
    state: Mutex<SlotsState<CancellationToken>>,
    /// Notified when a slot was freed, or when a connection waits for its peer and may therefore be closed.
    changed: Notify,
}

impl Slots {
    pub(crate) fn new(max: usize) -> Self {
        let state = SlotsState::new(max);
        Self { shared: Arc::new(SlotsInner { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Takes a slot and returns true, or closes a connection to make room.
    fn try_take(&self) -> bool {
        let mut state = self.shared.state.lock();
        match state.take() {
            Take::Taken => true,
            Take::Full(close) => {
                // Under the lock, so that the slot of the connection is not freed before its token shows that
                // the connection was closed to make room.
                if let Some(close) = close {
                    close.cancel();
                }
                false
            }
        }
    }

    /// Takes a slot for a new connection. If all slots are taken, an idle connection is closed, and this call
    /// waits until a slot is free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no slot. A connection that waited for its peer may already have been closed
    /// to free a slot.
    pub(crate) async fn take(&self) -> Slot {
        while !self.try_take() {
            self.shared.changed.notified().await;
        }
        let close = CancellationToken::new();
        let position = self.shared.state.lock().wait(close.clone());
        let activity = Mutex::new(Activity::Waiting(position));
        Slot { shared: Arc::clone(&self.shared), close, activity }
    }
}

/// The slot of one open connection. A server has a limited number of slots. Dropping this value frees the
/// slot for another connection.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<SlotsInner>,
    close: CancellationToken,
    activity: Mutex<Activity>,
}

#[derive(Debug)]
enum Activity {
    /// The connection waits for its peer, at this position among the waiting connections.
    Waiting(u64),
    /// The connection serves this number of requests, so it must not be closed. Over HTTP/2 there may be
    /// several.
    Serving(usize),
}

impl Slot {
    /// Resolves when this connection must be closed, because a new connection needs its slot.
    pub(crate) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Marks the connection as serving a request until the returned guard is dropped. Meanwhile it is not
    /// closed to make room.
    pub(crate) fn serve(self: &Arc<Self>) -> Serving {
        let mut activity = self.activity.lock();
        *activity = match *activity {
            Activity::Serving(requests) => Activity::Serving(requests + 1),
            Activity::Waiting(position) => {
                self.shared.state.lock().resume(position);
                Activity::Serving(1)
            }
        };
        Serving(Arc::clone(self))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Activity::Waiting(position) = *self.activity.get_mut() {
            state.resume(position);
        }
        state.free(self.close.is_cancelled());
        drop(state);
        self.shared.changed.notify_one();
    }
}

/// Marks a connection as serving a request until it is dropped; see
/// [`Connection::serve`](crate::Connection::serve).
#[derive(Debug)]
#[must_use = "the request ends when this guard is dropped"]
pub struct Serving(Arc<Slot>);

impl Drop for Serving {
    fn drop(&mut self) {
        let Slot { shared, close, activity } = &*self.0;
        let mut activity = activity.lock();
        match &mut *activity {
            Activity::Serving(requests) if *requests > 1 => *requests -= 1,
            // If the server closed the connection before its handler began, it is about to end, so it is not
            // added to the waiting connections again.
            Activity::Serving(requests) if close.is_cancelled() => *requests = 0,
            Activity::Serving(_) => *activity = Activity::Waiting(shared.state.lock().wait(close.clone())),
            Activity::Waiting(_) => {}
        }
        drop(activity);
        shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
