//! The observed state of another member of the shard group (a peer), as read from its Lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use super::MAX_LEASE;
use super::membership::Membership;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claims {
    /// The peer claims the keys that this membership (a set of members) assigns to it.
    Members(Membership),
    /// The peer's claims are invalid or were published by a release of this library with another algorithm,
    /// so the peer may claim any key.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: Arc<str>,
    pub(crate) version: ResourceVersion,
    /// The annotation and the renew time of the Lease, joined to one string. It changes with each renewal. It
    /// is only compared for equality, because the clocks of replicas may differ.
    pub(crate) beat: String,
    pub(crate) duration: Option<Duration>,
    pub(crate) claims: Claims,
    /// True if the member has announced that it left the group, so that it acts on no key any more.
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
    /// The peer's Lease was deleted, although the peer has not announced that it left. The peer may act on
    /// its keys until its lease expires.
    Missing,
    /// The lease of the peer has certainly expired, so the peer acts on no key.
    Dead,
}

/// Another member of the shard group (a peer), as observed in its Lease.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) record: Record,
    /// The time at which this process first observed the current record of the peer, or that its Lease is
    /// missing. The lease duration counts from this time, because clocks of other replicas are not trusted.
    seen: Instant,
    state: PeerState,
    lease: Duration,
}

impl Peer {
    /// Creates a peer from the first record that was observed in its Lease. If the record contains no lease
    /// duration, `lease` is used.
    pub(crate) fn new(record: Record, lease: Duration, now: Instant) -> Self {
        let lease = record.duration.unwrap_or(lease).clamp(Duration::from_secs(1), MAX_LEASE);
        Self { record, seen: now, state: PeerState::Alive, lease }
    }

    /// Updates the peer from a list of the group's Leases that contains its Lease. `sent` is the time at
    /// which the list was requested.
    pub(crate) fn observe(self, record: Record, sent: Instant, now: Instant) -> Self {
        if self.state == PeerState::Missing || !self.record.is_same_renewal(&record) {
            return Self::new(record, self.lease, now);
        }
        let state = if sent >= self.expires() { PeerState::Dead } else { self.state };
        Self { record, state, ..self }
    }

    /// Updates the peer from a list of the group's Leases that does not contain its Lease. `sent` is the time
    /// at which the list was requested. Returns `None` if the peer left or its lease has expired, so that it
    /// can be forgotten.
    pub(crate) fn missed(self, sent: Instant, now: Instant) -> Option<Self> {
        match self.state {
            _ if self.record.left => None,
            PeerState::Dead => None,
            PeerState::Alive => Some(Self { state: PeerState::Missing, seen: now, ..self }),
            PeerState::Missing => (sent < self.expires()).then_some(self),
        }
    }

    /// Returns the time at which the peer's lease has expired if its Lease does not change. Only a list that
    /// was requested after this time proves the expiry.
    fn expires(&self) -> Instant {
        self.seen + self.lease
    }

    /// Returns the time at which the Leases must be listed again, to see whether this peer has renewed its
    /// lease. Returns `None` for a peer that left or is dead.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        (self.state != PeerState::Dead && !self.record.left).then(|| self.expires())
    }

    /// Returns true if the peer is a live member of the group, to which keys can be assigned.
    pub(crate) fn is_member(&self) -> bool {
        self.state == PeerState::Alive && !self.record.left
    }

    /// Returns the claims of the peer, which determine the keys on which it may act. Returns `None` if it
    /// certainly acts on no key, because it left or is dead.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        (self.state != PeerState::Dead && !self.record.left).then_some(&self.record.claims)
    }

    /// Returns true if the peer left or is dead, and its Lease has not changed for `leases` times its lease
    /// duration. The Lease can then be deleted.
    pub(crate) fn is_abandoned(&self, leases: u32, now: Instant) -> bool {
        let over = self.state == PeerState::Dead || (self.record.left && self.state == PeerState::Alive);
        over && now >= self.seen + self.lease * leases
    }
}
