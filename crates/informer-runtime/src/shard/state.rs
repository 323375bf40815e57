//! The state machine of one member of a shard group. It decides which Lease requests the member sends, and on
//! which keys the member may act.
//!
//! ```text
//! no Lease ──created, claims nothing──▶ listed ──publishes all live members──▶ listed again ──▶ active
//!                                          ▲                                              │
//!                                          └── a member joined, left or died; its own lease expired
//! ```
//!
//! # Invariants
//!
//! 1. In its own Lease, a member publishes a set of members (a membership), by which it claims its share of
//!    the keys. It acts on a key only if every membership that its Lease may contain at that time assigns the
//!    key to it, and so does the membership that it is about to publish.
//! 2. A member acts on a newly claimed key only after a consistent list that was requested after the claim
//!    was accepted and in which no other possibly live member claims the key. Of two members that claim a
//!    key, the later one sees the other's claim.
//! 3. A membership that assigns a key to another member is published after the last work on that key has
//!    ended.
//! 4. A member relies on eight tenths of its lease, by its own clock, counted from before the renewal was
//!    sent. After that time all its claims are void, and it starts again with a write and a list. A response
//!    that arrives later than that is ignored.
//! 5. A member is considered dead when a list that was requested a whole lease duration after its record was
//!    first observed contains the same record. Only observed time counts; timestamps of other clocks are not
//!    read.
//! 6. At most one request is in flight, and every write has the version of the Lease as a precondition, so
//!    that a late write has no effect.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use informer_core::ResourceVersion;

use super::membership::Membership;
use super::peer::{Claims, Peer, Record};
use super::view::{Assignment, ShardView};
use super::{NotOwned, ShardFence, ShardTimes};

#[cfg(test)]
mod tests;

/// The number of tenths of the lease duration for which a member relies on its lease. Of the other two
/// tenths, one allows for clocks with different rates, and one for writes in flight.
const TRUSTED_TENTHS: u32 = 8;

/// The maximum number of members of a shard group; others get no keys. Each member publishes the names of all
/// members in an annotation of its Lease, and annotations are limited to 256 KiB.
pub(super) const MAX_MEMBERS: usize = 256;

/// The maximum number of different memberships that a member keeps as possible contents of its own Lease,
/// while the results of its writes are unknown. If there are more, the member acts on no key until a list
/// shows the published membership.
const MAX_UNCONFIRMED_CLAIMS: usize = 4;

/// The number of lease durations after which the unchanged Lease of a dead member is deleted. By then, every
/// other member has observed that this lease has expired.
const ABANDONED_LEASES: u32 = 4;

/// The maximum number of retry periods for which a leaving member waits until the other members have observed
/// that it left. It then deletes its Lease.
const LINGER_PERIODS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardAction {
    Create(Publication),
    /// Updates this member's Lease to contain the publication, if it still has this resourceVersion.
    Update(ResourceVersion, Publication),
    /// Lists the Leases of all members of the group. The read is consistent, so that it shows all earlier
    /// writes.
    List,
    /// Deletes the Lease with this name, if it still has this resourceVersion.
    Delete(Arc<str>, ResourceVersion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication {
    /// A counter that increases with each write of the Lease. Other members see from the change that this
    /// member is alive.
    pub(crate) beat: u64,
    pub(crate) membership: Membership,
    pub(crate) leaving: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardResponse {
    Written(ResourceVersion),
    Listed(ResourceVersion, Vec<Record>),
    Deleted,
    Missing,
    Conflict,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberPhase {
    Member,
    Leaving,
    /// The member has published that it left, and waits until the other members have observed that, at most
    /// until this time.
    Lingering(Instant),
    Gone,
}

#[derive(Debug)]
enum PendingRequest {
    Write { membership: Membership, leaving: bool },
    List { settles: bool },
    DeleteOwn,
    Sweep,
}

#[derive(Debug)]
pub(crate) struct MemberState {
    name: Arc<str>,
    times: ShardTimes,
    phase: MemberPhase,
    /// The resourceVersion of this member's Lease; `None` if the Lease does not exist or its version is
    /// unknown.
    own: Option<ResourceVersion>,
    beat: u64,
    /// The time until which this member relies on its lease; `None` while it has no valid lease.
    trusted: Option<Instant>,
    /// The time at which the last successful write of this member's Lease was sent. The lease counts from it.
    renewed: Option<Instant>,
    /// The memberships that this member's Lease may contain; the member wrote the last one most recently.
    /// There are several while the results of writes are unknown. A list that was requested after the last
    /// write succeeded removes the others.
    claims: Vec<Membership>,
    /// True if this member's Lease certainly contains the last of `claims`, because the write was successful.
    accepted: bool,
    /// The membership that this member will publish next: all live members of the group, or no member while
    /// this member leaves.
    target: Membership,
    peers: BTreeMap<Arc<str>, Peer>,
    listed: Option<ResourceVersion>,
    wants_list: bool,
    list_due: Instant,
    not_before: Instant,
    may_sweep: bool,
    in_flight: Option<(PendingRequest, Instant)>,
    action: Option<ShardAction>,
    /// The number of the current term: how often this member has lost its lease, because the lease expired or
    /// the Lease object was deleted. Work on a key that began in an earlier term must not continue.
    term: u64,
    /// The keys on which work that began in this term is running, each with the number of its unfinished
    /// [`enter`](Self::enter) calls. A key in this map is not moved to another member.
    active_keys: HashMap<Arc<str>, u32>,
    view: Arc<ShardView>,
}

impl MemberState {
    pub(crate) fn new(name: Arc<str>, times: ShardTimes, now: Instant) -> Self {
        Self {
            view: Arc::new(ShardView { name: Arc::clone(&name), ..ShardView::default() }),
            name,
            times,
            phase: MemberPhase::Member,
            own: None,
            beat: 0,
            trusted: None,
            renewed: None,
            claims: vec![Membership::default()],
            accepted: false,
            target: Membership::default(),
            peers: BTreeMap::new(),
            listed: None,
            wants_list: false,
            list_due: now,
            not_before: now,
            may_sweep: false,
            in_flight: None,
            action: None,
            term: 0,
            active_keys: HashMap::new(),
        }
    }

    pub(crate) fn view(&self) -> &Arc<ShardView> {
        &self.view
    }

    /// Returns true if the member has left the group and sends no more requests.
    pub(crate) fn is_gone(&self) -> bool {
        self.phase == MemberPhase::Gone
    }

    /// Returns the next Lease request, if one is due. The caller sends it and passes its result to
    /// [`handle_response`](Self::handle_response) before it calls this method again.
    pub(crate) fn poll_action(&mut self) -> Option<ShardAction> {
        self.action.take()
    }

    pub(crate) fn check(&mut self, key: &str, now: Instant) -> Result<ShardFence, NotOwned> {
        self.expire_lease(now);
        self.view.check(key)?;
        match (&self.listed, self.trusted) {
            (Some(version), Some(until)) => Ok(ShardFence { version: version.clone(), until }),
            _ => Err(NotOwned::NoLease),
        }
    }

    /// Begins work on a key if this member owns it, or returns why it does not. The key is not moved to
    /// another member before [`exit`](Self::exit), as long as this member keeps its lease. Returns the
    /// current term, which the caller passes to [`recheck`](Self::recheck) and `exit`. A term ends when this
    /// member loses its lease.
    pub(crate) fn enter(&mut self, key: &Arc<str>, now: Instant) -> Result<u64, NotOwned> {
        self.check(key, now)?;
        *self.active_keys.entry(Arc::clone(key)).or_default() += 1;
        Ok(self.term)
    }

    /// Checks whether work on a key that began in `term` may continue. It may continue even if the key is
    /// about to move to another member, which waits until this work ends.
    pub(crate) fn recheck(&mut self, key: &str, term: u64, now: Instant) -> Result<ShardFence, NotOwned> {
        self.expire_lease(now);
        match (&self.listed, self.trusted) {
            (Some(version), Some(until)) if self.term == term && self.active_keys.contains_key(key) => {
                Ok(ShardFence { version: version.clone(), until })
            }
            _ => Err(NotOwned::NoLease),
        }
    }

    /// Ends work on a key that began in `term`. Returns true if the caller must call [`tick`](Self::tick),
    /// because a change of membership may have waited for the end of this work.
    pub(crate) fn exit(&mut self, key: &str, term: u64) -> bool {
        if term != self.term {
            return false;
        }
        if let Some(count) = self.active_keys.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.active_keys.remove(key);
            }
        }
        self.claims.last() != Some(&self.target)
    }

    /// Makes the member leave the group after all running work on its keys has ended.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.phase == MemberPhase::Member {
            self.phase = MemberPhase::Leaving;
            self.target = Membership::default();
            self.refresh();
            self.tick(now);
        }
    }

    /// Returns the time at which [`tick`](Self::tick) must be called: the next Lease request is due, or the
    /// lease of this member expires.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.phase == MemberPhase::Gone {
            return None;
        }
        let request = self.in_flight.is_none().then(|| self.request_due().max(self.not_before));
        request.into_iter().chain(self.trusted).min()
    }

    fn request_due(&self) -> Instant {
        let at_once = self.wants_list || self.own.is_none();
        match (self.phase, self.renewed) {
            _ if at_once => self.not_before,
            (MemberPhase::Lingering(until), _) => self.next_list().min(until),
            (_, Some(renewed)) if !self.wants_write(self.not_before) => {
                self.next_list().min(renewed + self.times.retry)
            }
            _ => self.not_before,
        }
    }

    fn next_list(&self) -> Instant {
        self.peers.values().filter_map(Peer::next_look).fold(self.list_due, Instant::min)
    }

    /// Handles the time `now`: invalidates an expired lease, and prepares the next Lease request if one is
    /// due.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.expire_lease(now);
        if self.in_flight.is_none() && now >= self.not_before && self.phase != MemberPhase::Gone {
            self.next_request(now);
        }
        self.refresh();
    }

    fn next_request(&mut self, now: Instant) {
        let action = match (self.phase, self.own.clone()) {
            (MemberPhase::Lingering(until), Some(own)) if now >= until || !self.is_named_by_others() => {
                self.in_flight = Some((PendingRequest::DeleteOwn, now));
                ShardAction::Delete(Arc::clone(&self.name), own)
            }
            (MemberPhase::Leaving | MemberPhase::Lingering(_), None) if !self.wants_list => {
                self.phase = MemberPhase::Gone;
                return;
            }
            (MemberPhase::Lingering(_), _) if now < self.next_list() && !self.wants_list => return,
            _ if self.wants_list => self.list(now),
            (MemberPhase::Member, None) => self.write(None, Membership::default(), now),
            (MemberPhase::Member | MemberPhase::Leaving, Some(own)) if self.wants_write(now) => {
                let membership = if self.is_free() { self.target.clone() } else { self.published() };
                self.write(Some(own), membership, now)
            }
            _ if now >= self.next_list() => self.list(now),
            _ => match self.abandoned(now) {
                Some(sweep) => {
                    self.in_flight = Some((PendingRequest::Sweep, now));
                    sweep
                }
                None => return,
            },
        };
        self.action = Some(action);
    }

    fn list(&mut self, now: Instant) -> ShardAction {
        self.in_flight = Some((PendingRequest::List { settles: self.accepted }, now));
        ShardAction::List
    }

    fn write(&mut self, own: Option<ResourceVersion>, membership: Membership, now: Instant) -> ShardAction {
        let leaving = self.phase == MemberPhase::Leaving && membership == self.target;
        if self.published() != membership {
            self.claims.push(membership.clone());
            self.accepted = false;
        }
        if self.claims.len() > MAX_UNCONFIRMED_CLAIMS {
            self.claims = vec![Membership::default(), membership.clone()];
        }
        self.in_flight = Some((PendingRequest::Write { membership: membership.clone(), leaving }, now));
        self.beat += 1;
        let publication = Publication { beat: self.beat, membership, leaving };
        match own {
            Some(version) => ShardAction::Update(version, publication),
            None => ShardAction::Create(publication),
        }
    }

    /// Returns the membership in this member's last write of its Lease, whether or not the write succeeded.
    fn published(&self) -> Membership {
        self.claims.last().cloned().unwrap_or_default()
    }

    fn wants_write(&self, now: Instant) -> bool {
        let renew = self.renewed.is_none_or(|renewed| now >= renewed + self.times.retry);
        let publish = self.claims.last() != Some(&self.target) || self.phase == MemberPhase::Leaving;
        renew || self.trusted.is_none() || (publish && self.is_free())
    }

    /// Returns true if this member can publish its next membership now, because no key with running work
    /// would move to another member.
    fn is_free(&self) -> bool {
        self.active_keys.keys().all(|key| self.target.assigns(key, &self.name))
    }

    fn is_named_by_others(&self) -> bool {
        self.peers.values().any(|peer| match peer.claims() {
            Some(Claims::Members(membership)) => peer.is_member() && membership.contains(&self.name),
            _ => false,
        })
    }

    /// Returns the deletion of the Lease of a dead member, if there is one. To avoid duplicate requests, only
    /// the member whose name sorts first deletes such Leases, at most one after each list.
    fn abandoned(&mut self, now: Instant) -> Option<ShardAction> {
        let first = self.target.names().next() == Some(&self.name);
        if !(first && std::mem::take(&mut self.may_sweep)) {
            return None;
        }
        let peer = self.peers.values().find(|peer| peer.is_abandoned(ABANDONED_LEASES, now))?;
        Some(ShardAction::Delete(Arc::clone(&peer.record.name), peer.record.version.clone()))
    }

    /// Handles the API server's response to the Lease request in flight. If the request timed out, the
    /// response is [`ShardResponse::Failed`].
    pub(crate) fn handle_response(&mut self, response: ShardResponse, now: Instant) {
        self.expire_lease(now);
        let Some((flight, sent)) = self.in_flight.take() else { return };
        match (flight, response) {
            (PendingRequest::Write { membership, leaving }, ShardResponse::Written(version)) => {
                self.own = Some(version);
                self.renew(membership, sent, now);
                if leaving {
                    self.phase = MemberPhase::Lingering(now + self.times.retry * LINGER_PERIODS);
                }
            }
            (PendingRequest::Write { .. }, ShardResponse::Missing) => self.handle_missing_lease(),
            (PendingRequest::Write { .. }, ShardResponse::Conflict) => self.wants_list = true,
            (PendingRequest::List { settles }, ShardResponse::Listed(version, records)) => {
                self.update_peers(records, sent, now);
                self.listed = Some(version);
                if settles && self.accepted {
                    self.claims.drain(..self.claims.len() - 1);
                }
                self.update_target(now);
            }
            (PendingRequest::DeleteOwn, _) => self.phase = MemberPhase::Gone,
            (PendingRequest::Sweep, _) => {}
            (flight, _) => {
                self.not_before = now + self.times.retry / 2;
                // After a failed write, a list follows, because it shows whether the write was applied. After
                // a failed list, the member does not list again at once, so that renewals of its lease are
                // not delayed.
                self.wants_list = matches!(flight, PendingRequest::Write { .. });
            }
        }
        self.refresh();
    }

    /// Handles a successful write of this member's Lease. The lease counts from `sent`, the time at which the
    /// write was sent. A response that arrives after the trusted part of the lease comes too late: the
    /// member's claims to keys are void.
    fn renew(&mut self, membership: Membership, sent: Instant, now: Instant) {
        self.renewed = Some(sent);
        let until = sent + self.times.lease * TRUSTED_TENTHS / 10;
        if until <= now {
            return self.invalidate_claims();
        }
        self.trusted = Some(until);
        if self.published() != membership {
            self.claims.push(membership);
        }
        self.accepted = true;
        self.wants_list |= self.claims.len() > 1 || self.listed.is_none();
    }

    fn update_peers(&mut self, records: Vec<Record>, sent: Instant, now: Instant) {
        let mut before = std::mem::take(&mut self.peers);
        let mut own = None;
        for record in records {
            if record.name == self.name {
                own = Some(record.version);
                continue;
            }
            let name = Arc::clone(&record.name);
            let peer = match before.remove(&name) {
                Some(peer) => peer.observe(record, sent, now),
                None => Peer::new(record, self.times.lease, now),
            };
            self.peers.insert(name, peer);
        }
        let missed = before.into_iter().filter_map(|(name, peer)| Some((name, peer.missed(sent, now)?)));
        self.peers.extend(missed);
        match own {
            Some(version) => self.own = Some(version),
            None => self.handle_missing_lease(),
        }
    }

    /// Computes the next membership that this member publishes from the live members of the group. Sets the
    /// time of the next list, which is earlier while the memberships of the members differ.
    fn update_target(&mut self, now: Instant) {
        if self.phase == MemberPhase::Member {
            let members = self.peers.iter().filter(|(_, peer)| peer.is_member());
            let mut names: Vec<_> = members.map(|(name, _)| Arc::clone(name)).collect();
            names.push(Arc::clone(&self.name));
            names.sort_unstable();
            names.truncate(MAX_MEMBERS);
            self.target = Membership::new(names);
        }
        let agrees = |peer: &Peer| match peer.claims() {
            Some(Claims::Members(membership)) => *membership == self.target,
            _ => true,
        };
        let settled = self.claims == [self.target.clone()] && self.peers.values().all(agrees);
        let period = if settled { self.times.retry } else { self.times.retry / 4 };
        self.list_due = now + period;
        self.wants_list = false;
        self.may_sweep = true;
    }

    fn handle_missing_lease(&mut self) {
        self.own = None;
        self.invalidate_claims();
    }

    fn expire_lease(&mut self, now: Instant) {
        if self.trusted.is_some_and(|until| until <= now) {
            self.invalidate_claims();
            self.refresh();
        }
    }

    fn invalidate_claims(&mut self) {
        self.trusted = None;
        self.accepted = false;
        self.claims = vec![Membership::default()];
        self.term += 1;
        self.active_keys.clear();
    }

    fn refresh(&mut self) {
        let mut memberships = self.claims.clone();
        memberships.push(self.target.clone());
        memberships.dedup();
        let others = self.peers.iter().filter_map(|(name, peer)| match peer.claims()? {
            // This peer has published a membership that this member takes into account, too. The peer acts
            // only on keys that this membership assigns to it, and this member only on keys that the same
            // membership assigns to itself. So they never act on the same key, and the peer is omitted.
            Claims::Members(membership) if memberships.contains(membership) => None,
            claims => Some((Arc::clone(name), claims.clone())),
        });
        let share = Assignment {
            active: self.trusted.is_some() && self.phase == MemberPhase::Member,
            others: others.collect(),
            memberships,
        };
        if let Some(next) = self.view.next(share) {
            self.view = Arc::new(next);
        }
    }
}
