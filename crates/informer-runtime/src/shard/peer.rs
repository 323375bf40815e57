//! What is known of another member, by its Lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use super::MAX_LEASE;
use super::membership::Membership;

/// What a member says it may act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claims {
    /// Its share of the keys among these members.
    Members(Membership),
    /// What it says is of another release, or garbage: it may act on any key.
    Unreadable,
}

/// The Lease of a member, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Arc<str>,
    pub(crate) version: ResourceVersion,
    /// Counts renewals. Only whether it changes is looked at, as with the time beside it.
    pub(crate) beat: String,
    pub(crate) duration: Option<Duration>,
    pub(crate) claims: Claims,
    /// It has stopped, and acts on nothing.
    pub(crate) left: bool,
}

impl Record {
    fn says_the_same(&self, other: &Self) -> bool {
        (&self.beat, &self.claims, self.left) == (&other.beat, &other.claims, other.left)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerState {
    /// Its lease may hold.
    Alive,
    /// Its Lease is gone, though it never said that it left: until its lease has passed it may act.
    Missing,
    /// Its lease has certainly passed.
    Dead,
}

/// Another member.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) record: Record,
    /// When this process first saw the record.
    seen: Instant,
    state: PeerState,
    lease: Duration,
}

impl Peer {
    /// One that was seen for the first time. `lease` is what counts where the record does not say how long it holds.
    pub(crate) fn new(record: Record, lease: Duration, now: Instant) -> Self {
        let lease = record.duration.unwrap_or(lease).clamp(Duration::from_secs(1), MAX_LEASE);
        Self { record, seen: now, state: PeerState::Alive, lease }
    }

    /// A list that was asked for at `sent` showed this record of it.
    pub(crate) fn observe(self, record: Record, sent: Instant, now: Instant) -> Self {
        if self.state == PeerState::Missing || !self.record.says_the_same(&record) {
            return Self::new(record, self.lease, now);
        }
        let state = if sent >= self.expires() { PeerState::Dead } else { self.state };
        Self { record, state, ..self }
    }

    /// A list that was asked for at `sent` did not show it. Nothing where it can be forgotten.
    pub(crate) fn missed(self, sent: Instant, now: Instant) -> Option<Self> {
        match self.state {
            _ if self.record.left => None,
            PeerState::Dead => None,
            PeerState::Alive => Some(Self { state: PeerState::Missing, seen: now, ..self }),
            PeerState::Missing => (sent < self.expires()).then_some(self),
        }
    }

    /// From when on a list can show that its lease has passed.
    fn expires(&self) -> Instant {
        self.seen + self.lease
    }

    /// When it has to be looked at again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        (self.state != PeerState::Dead && !self.record.left).then(|| self.expires())
    }

    /// True where keys can be given to it.
    pub(crate) fn is_member(&self) -> bool {
        self.state == PeerState::Alive && !self.record.left
    }

    /// What it may act on; nothing where it certainly does not act.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        (self.state != PeerState::Dead && !self.record.left).then_some(&self.record.claims)
    }

    /// True where its Lease has been left behind for `leases` of its own leases.
    pub(crate) fn is_abandoned(&self, leases: u32, now: Instant) -> bool {
        let over = self.state == PeerState::Dead || (self.record.left && self.state == PeerState::Alive);
        over && now >= self.seen + self.lease * leases
    }
}
