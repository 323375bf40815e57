//! The observed state of another member of the shard group, as read from its Lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use super::MAX_LEASE;
use super::membership::Membership;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claims {
    /// The peer claims the keys that this membership (a set of members) assigns to it.
    Members(Membership),
    /// Another release of this library published the claims, or they are invalid. The member may claim any
    /// key.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Arc<str>,
    pub(crate) version: ResourceVersion,
    /// The published annotation and the renew time of the Lease, joined to one string. The string changes
    /// with each renewal. It is only compared for equality, because the clocks of replicas may differ.
    pub(crate) beat: String,
    pub(crate) duration: Option<Duration>,
    pub(crate) claims: Claims,
    /// True if the member has left the group and acts on no key any more.
    pub(crate) left: bool,
}

impl Record {
    fn is_same_renewal(&self, other: &Self) -> bool {
        (&self.beat, &self.claims, self.left) == (&other.beat, &other.claims, other.left)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerState {
    Alive,
    /// The Lease object of the peer was deleted although the peer had not announced that it leaves. The peer
    /// may act until its lease expires.
    Missing,
    /// The lease of the peer has certainly expired.
    Dead,
}

/// Another member of the shard group, as its Lease shows it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) record: Record,
    /// The time at which this process first observed the current record.
    seen: Instant,
    state: PeerState,
    lease: Duration,
}

impl Peer {
    /// Creates a peer from its first record. `lease` is the lease duration if the record contains none.
    pub(crate) fn new(record: Record, lease: Duration, now: Instant) -> Self {
        let lease = record.duration.unwrap_or(lease).clamp(Duration::from_secs(1), MAX_LEASE);
        Self { record, seen: now, state: PeerState::Alive, lease }
    }

    /// Updates the peer from a list that was requested at `sent` and contains this record.
    pub(crate) fn observe(self, record: Record, sent: Instant, now: Instant) -> Self {
        if self.state == PeerState::Missing || !self.record.is_same_renewal(&record) {
            return Self::new(record, self.lease, now);
        }
        let state = if sent >= self.expires() { PeerState::Dead } else { self.state };
        Self { record, state, ..self }
    }

    /// Updates the peer from a list that was requested at `sent` and does not contain its Lease. Returns
    /// `None` if the peer can be removed.
    pub(crate) fn missed(self, sent: Instant, now: Instant) -> Option<Self> {
        match self.state {
            _ if self.record.left => None,
            PeerState::Dead => None,
            PeerState::Alive => Some(Self { state: PeerState::Missing, seen: now, ..self }),
            PeerState::Missing => (sent < self.expires()).then_some(self),
        }
    }

    /// Returns the earliest request time of a list that can prove that the peer's lease has expired.
    fn expires(&self) -> Instant {
        self.seen + self.lease
    }

    /// Returns the time at which the Lease of the peer must be read again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        (self.state != PeerState::Dead && !self.record.left).then(|| self.expires())
    }

    /// Returns true if keys can be assigned to the peer.
    pub(crate) fn is_member(&self) -> bool {
        self.state == PeerState::Alive && !self.record.left
    }

    /// Returns the keys on which the peer may act; `None` if it certainly acts on no key.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        (self.state != PeerState::Dead && !self.record.left).then_some(&self.record.claims)
    }

    /// Returns true if the peer's Lease has been abandoned for `leases` times its lease duration.
    pub(crate) fn is_abandoned(&self, leases: u32, now: Instant) -> bool {
        let over = self.state == PeerState::Dead || (self.record.left && self.state == PeerState::Alive);
        over && now >= self.seen + self.lease * leases
    }
}
