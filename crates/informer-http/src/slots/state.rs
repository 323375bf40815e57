//! The connection slots of a server as a sans-io state machine: no lock, and no notification.

use std::collections::BTreeMap;

/// The slots of a server. `C` is the handle with which the driver closes a connection.
#[derive(Debug)]
pub(super) struct SlotsState<C> {
    max: usize,
    open: usize,
    /// The number of connections that the server is closing to make room for new ones. It is at most one.
    closing: usize,
    next: u64,
    /// The connections that wait for their peer, the longest-waiting one first.
    waiting: BTreeMap<u64, C>,
}

pub(super) enum Take<C> {
    Taken,
    /// There is no free slot. The driver must close this connection, if any, and try again after a slot is
    /// freed.
    Full(Option<C>),
}

impl<C> SlotsState<C> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, open: 0, closing: 0, next: 0, waiting: BTreeMap::new() }
    }

    /// Takes a slot for a new connection. If all are taken and no other connection is closing, selects the
    /// connection that has waited longest for its peer to be closed.
    pub(super) fn take(&mut self) -> Take<C> {
        if self.open < self.max {
            self.open += 1;
            return Take::Taken;
        }
        let oldest = if self.closing == 0 { self.waiting.pop_first() } else { None };
        self.closing += usize::from(oldest.is_some());
        Take::Full(oldest.map(|(_, connection)| connection))
    }

    /// Adds a connection as the last one to those that wait for their peer. Returns its position.
    pub(super) fn wait(&mut self, connection: C) -> u64 {
        let position = self.next;
        self.next += 1;
        self.waiting.insert(position, connection);
        position
    }

    /// Removes a connection from those that wait for their peer.
    pub(super) fn resume(&mut self, position: u64) {
        self.waiting.remove(&position);
    }

    /// Frees the slot of a connection that does not wait for its peer. `closing` states whether it was closed
    /// to make room.
    pub(super) fn free(&mut self, closing: bool) {
        self.open -= 1;
        self.closing -= usize::from(closing);
    }
}
