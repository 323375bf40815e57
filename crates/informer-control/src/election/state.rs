//! The state machine of one election candidate on one Lease.
//!
//! ```text
//! Standby ──a write acquires the lease──▶ Leading ──not renewed in time, or another holder──▶ Ended(lost)
//!    │ stop                                  │ stop
//!    └───────────▶ Ended ◀──released, or not─┴─▶ Releasing
//! ```
//!
//! # Invariants
//!
//! 1. Only observed time counts: how long this process has seen a record unchanged. The timestamps in the
//!    record come from other clocks and are only compared for equality.
//! 2. At most one request is in flight.
//! 3. A leader counts its lease from before it sent the renewal, since other candidates see the renewal
//!    later. It gives up leadership before nine tenths of the lease have passed by its own clock, so clock
//!    rates may differ by a tenth.
//! 4. A term begins with a write that the server accepted for the version that was read, never with a read.
//!    It does not begin if the response arrives after the lease has expired, for example in a process that
//!    was suspended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use super::{ElectionTimes, Fence, LeaderLost};

#[cfg(test)]
mod tests;

/// The part of the lease duration, in tenths, during which a leader relies on its lease. The rest allows for
/// clocks of other candidates that run faster.
const TRUSTED_TENTHS: u32 = 9;

/// The part of the lease duration, in tenths, after which a leader that could not renew its lease gives up
/// leadership. The leader's work can end in the remaining time.
const GIVE_UP_TENTHS: u32 = 8;

/// The minimum time between two reads of the Lease if [`hint`](ElectorState::hint) reports that it may have
/// changed. This interval turns a burst of watch events into few requests, and is shorter than usual renewal
/// intervals.
const MIN_HINT_INTERVAL: Duration = Duration::from_millis(500);

/// The duration written into a released Lease, as in client-go. Candidates ignore it, because a released
/// Lease has no holder.
const RELEASED_LEASE_DURATION: Duration = Duration::from_secs(1);

/// The fields of a Lease's `spec` that leader election uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// The identity of the Lease's holder; empty if the Lease has no holder.
    pub holder: String,
    /// The duration of the lease in seconds; `None` if it is missing or invalid in the Lease.
    pub duration: Option<u32>,
    /// How often the holder of the Lease has changed (`leaseTransitions`).
    pub transitions: i32,
    /// The time at which the holder's term began, as written in the Lease. This time is only compared for
    /// equality, because the clocks of candidates may differ.
    pub acquired: Option<String>,
    /// The time at which the holder last renewed the lease, as written in the Lease. This time is only
    /// compared for equality.
    pub renewed: Option<String>,
    /// The candidate that the coordinator of a [coordinated](ElectorState::coordinated) election has chosen
    /// instead of the holder (`preferredHolder`); empty if there is none.
    pub preferred: String,
}

/// A request that the driver must send to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionAction {
    /// Read the Lease.
    Get,
    /// Create the Lease. The server rejects the request with a conflict if the Lease exists.
    Create(LeaseWrite),
    /// Update the Lease. The server rejects the request with a conflict if the Lease's resourceVersion
    /// differs from this one.
    Update(ResourceVersion, LeaseWrite),
}

/// The values to write to the Lease. The driver writes the time of the request as the renew time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// The identity of the holder to write; empty to release the Lease.
    pub holder: String,
    /// The lease duration to write, in whole seconds.
    pub duration: Duration,
    /// The number of holder changes to write, including the change by this write.
    pub transitions: i32,
    /// The time at which the term began; `None` if the term begins with this write.
    pub acquired: Option<String>,
}

/// The response of the API server to an [`ElectionAction`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionResponse {
    /// The Lease as read or written by this request, and its resourceVersion.
    Lease(LeaseRecord, ResourceVersion),
    /// The Lease that was read or updated does not exist.
    NotFound,
    /// The server rejected the write, because the Lease has another resourceVersion or already exists.
    Conflict,
    /// Any other response, or a timeout. The server may have performed the request, or may still perform it.
    Failed(String),
}

/// A notice for the application: a change of the Lease's holder, or the start or the end of this candidate's
/// leadership. The driver reads notices with [`poll_notice`](ElectorState::poll_notice).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionNotice {
    /// This candidate has become the leader. The fencing token identifies its term.
    Leading(Fence),
    /// The Lease has another holder, with this identity; empty if the Lease has no holder now.
    Holder(String),
    /// This candidate lost its leadership before [`stop`](ElectorState::stop) was called. No notice follows.
    Lost(LeaderLost),
    /// This candidate stopped after [`stop`](ElectorState::stop) was called. No notice follows.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Standby,
    Leading {
        /// A time just before the leader sent its last successful renewal.
        renewed: Instant,
        /// The time at which the renewal in progress was first due; `None` if no renewal is in progress.
        renew_due: Option<Instant>,
        last_error: String,
    },
    Releasing {
        until: Instant,
    },
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Get,
    Write,
}

#[derive(Debug)]
struct ObservedLease {
    record: LeaseRecord,
    version: ResourceVersion,
    /// The time at which this candidate first observed the record in its current state.
    first_seen: Instant,
}

/// The state machine of one candidate for the leadership that one Lease represents.
#[derive(Debug)]
#[must_use = "it does nothing until it is driven"]
pub struct ElectorState {
    identity: String,
    times: ElectionTimes,
    release: bool,
    /// True if a coordinator chooses the holder.
    coordinated: bool,
    role: Role,
    observed: Option<ObservedLease>,
    in_flight: Option<(RequestKind, Instant)>,
    next: Option<Instant>,
    /// The deadline of a requested stop that waits for the response to a write in flight.
    stopping: Option<Instant>,
    last_get: Option<Instant>,
    action: Option<ElectionAction>,
    notices: VecDeque<ElectionNotice>,
}

impl ElectorState {
    /// Creates a standby that first reads the Lease at `now`. If `release` is true, a leader releases its
    /// lease when it is stopped.
    pub fn new(identity: String, times: ElectionTimes, release: bool, now: Instant) -> Self {
        Self {
            identity,
            times,
            release,
            coordinated: false,
            role: Role::Standby,
            observed: None,
            in_flight: None,
            next: Some(now),
            stopping: None,
            last_get: None,
            action: None,
            notices: VecDeque::new(),
        }
    }

    /// Makes a coordinator choose the holder of the Lease (KEP-4355). This candidate never creates the Lease,
    /// and acquires it only if the coordinator wrote its identity into it. It gives up its leadership when
    /// the coordinator prefers another candidate, or when the Lease was deleted.
    pub fn coordinated(self) -> Self {
        Self { coordinated: true, ..self }
    }

    /// Returns the next request to send. The caller must pass the response to
    /// [`handle_response`](Self::handle_response) before the next call.
    pub fn poll_action(&mut self) -> Option<ElectionAction> {
        self.action.take()
    }

    /// Returns the next notice, if there is one.
    pub fn poll_notice(&mut self) -> Option<ElectionNotice> {
        self.notices.pop_front()
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.next.filter(|_| self.in_flight.is_none());
        next.into_iter().chain(self.deadline()).min()
    }

    /// Returns true while this candidate is the leader.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leading { .. })
    }

    /// Returns the time until which this leader's lease keeps other candidates from leading, whatever their
    /// clock rates. Returns `None` if this candidate is not the leader.
    pub fn held_until(&self) -> Option<Instant> {
        match self.role {
            Role::Leading { renewed, .. } => Some(renewed + self.times.lease * TRUSTED_TENTHS / 10),
            _ => None,
        }
    }

    /// Advances the time of the state machine: creates the request that is due at `now`, or ends the
    /// leadership after a deadline.
    pub fn tick(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return self.on_deadline(now);
        }
        if self.in_flight.is_some() || self.next.is_none_or(|next| next > now) {
            return;
        }
        match &mut self.role {
            Role::Standby => self.send(ElectionAction::Get, now),
            Role::Leading { renew_due, .. } => {
                renew_due.get_or_insert(now);
                self.renew(now);
            }
            Role::Releasing { .. } => self.send(ElectionAction::Get, now),
            Role::Ended => self.next = None,
        }
    }

    /// Reports that the Lease may have changed, for example after a watch event. A standby then reads the
    /// Lease soon.
    pub fn hint(&mut self, now: Instant) {
        if self.role == Role::Standby
            && let Some(next) = &mut self.next
        {
            let soon = self.last_get.map_or(now, |last_get| now.max(last_get + MIN_HINT_INTERVAL));
            *next = soon.min(*next);
        }
    }

    /// Handles the response to the request in flight. `random` is a random number from 0 to 1, which sets the
    /// jitter of the next attempt.
    pub fn handle_response(&mut self, response: ElectionResponse, now: Instant, random: f64) {
        let Some((request, sent)) = self.in_flight.take() else { return };
        let written = request == RequestKind::Write && matches!(response, ElectionResponse::Lease(..));
        if let ElectionResponse::Lease(record, version) = &response {
            self.observe(record.clone(), version.clone(), now);
        }
        match self.role {
            Role::Standby if written && self.is_holder() && now < self.renew_deadline(sent) => {
                self.begin_term(sent, now)
            }
            Role::Standby => self.handle_standby(request, &response, now, random),
            Role::Leading { .. } if written && self.is_holder() => self.record_renewal(sent, now),
            Role::Leading { .. } => self.handle_leading(request, response, now),
            Role::Releasing { .. } => self.handle_releasing(request, &response, now),
            Role::Ended => {}
        }
        if let Some(until) = self.stopping
            && self.in_flight.is_none()
        {
            self.end(until, now);
        }
    }

    /// Stops this candidate. A leader releases its lease if [`new`](Self::new) was called with `release`.
    pub fn stop(&mut self, now: Instant) {
        let until = now + self.times.renew;
        match self.role {
            // A write in flight may make this process the leader, so the stop waits for its response.
            Role::Standby | Role::Leading { .. }
                if matches!(self.in_flight, Some((RequestKind::Write, _))) =>
            {
                self.stopping.get_or_insert(until);
            }
            Role::Standby | Role::Leading { .. } => {
                self.in_flight = None;
                self.end(until, now);
            }
            Role::Releasing { .. } | Role::Ended => {}
        }
    }

    fn end(&mut self, until: Instant, now: Instant) {
        self.stopping = None;
        if matches!(self.role, Role::Leading { .. }) && self.release {
            self.role = Role::Releasing { until };
            if self.is_holder() {
                self.write_release(now)
            } else {
                // The last read showed a Lease without this holder, but a write sent after that read may have
                // been applied. Read the Lease to find out whether it must be released.
                self.send(ElectionAction::Get, now)
            }
        } else if self.role != Role::Ended {
            self.finish(ElectionNotice::Stopped);
        }
    }

    fn finish(&mut self, notice: ElectionNotice) {
        self.role = Role::Ended;
        (self.next, self.action, self.in_flight) = (None, None, None);
        self.notices.push_back(notice);
    }

    /// Returns the time at which this candidate gives up its current activity: leading, releasing the lease,
    /// or waiting for a write before a stop.
    fn deadline(&self) -> Option<Instant> {
        let own = match &self.role {
            Role::Leading { renewed, renew_due, .. } => {
                let safe = self.renew_deadline(*renewed);
                Some(renew_due.map_or(safe, |renew_due| safe.min(renew_due + self.times.renew)))
            }
            Role::Releasing { until } => Some(*until),
            Role::Standby | Role::Ended => None,
        };
        own.into_iter().chain(self.stopping).min()
    }

    fn on_deadline(&mut self, now: Instant) {
        match &self.role {
            Role::Leading { last_error, .. } if self.stopping.is_none() => {
                let reason = format!("not renewed in time ({last_error})");
                self.lose(reason, now);
            }
            _ => self.finish(ElectionNotice::Stopped),
        }
    }

    fn lose(&mut self, reason: String, now: Instant) {
        let left = self.held_until().unwrap_or(now).saturating_duration_since(now);
        self.finish(ElectionNotice::Lost(LeaderLost { reason, left }));
    }

    fn observe(&mut self, record: LeaseRecord, version: ResourceVersion, now: Instant) {
        let before = self.observed.as_ref().map(|observed| &observed.record);
        if before.is_none_or(|before| before.holder != record.holder) {
            self.notices.push_back(ElectionNotice::Holder(record.holder.clone()));
        }
        let first_seen = match &self.observed {
            // The record is unchanged, so the time of its first observation stays the same. A change of other
            // fields of the Lease, such as a label, is not a renewal.
            Some(observed) if is_unchanged(&observed.record, &record) => observed.first_seen,
            _ => now,
        };
        self.observed = Some(ObservedLease { record, version, first_seen });
    }

    fn is_holder(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.record.holder == self.identity)
    }

    fn held_by_another(&self, now: Instant) -> bool {
        let holder = self.observed.as_ref().map_or("", |observed| &observed.record.holder);
        !holder.is_empty() && holder != self.identity && self.expiry().is_none_or(|expiry| expiry > now)
    }

    fn expiry(&self) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let held = observed.record.duration.filter(|seconds| *seconds > 0);
        let held = held.map_or(self.times.lease, |seconds| Duration::from_secs(seconds.into()));
        observed.first_seen.checked_add(held)
    }

    fn handle_standby(
        &mut self,
        request: RequestKind,
        response: &ElectionResponse,
        now: Instant,
        random: f64,
    ) {
        self.last_get = Some(now);
        let wait = self.times.retry.mul_f64(1.0 + random.clamp(0.0, 1.0) * self.times.jitter);
        self.next = now.checked_add(wait);
        match (request, response) {
            // The Lease was deleted, but its former holder may lead until its lease expires, so wait until
            // then.
            (RequestKind::Get, ElectionResponse::NotFound) if self.held_by_another(now) => {
                self.next = self.next.into_iter().chain(self.expiry()).min();
            }
            (RequestKind::Get, ElectionResponse::NotFound)
                if self.stopping.is_none() && !self.coordinated =>
            {
                let write = self.lease_write(0, None);
                self.send(ElectionAction::Create(write), now);
            }
            (RequestKind::Get, ElectionResponse::Lease(record, version)) if self.stopping.is_none() => {
                if self.coordinated && !self.is_chosen(record, now) {
                    // The coordinator notices an expired Lease.
                } else if self.held_by_another(now) {
                    self.next = self.next.into_iter().chain(self.expiry()).min();
                } else {
                    let write = self.next_lease_write(record);
                    self.send(ElectionAction::Update(version.clone(), write), now);
                }
            }
            _ => {}
        }
    }

    /// Returns true if the coordinator has chosen this candidate, and the Lease has not expired since.
    fn is_chosen(&self, record: &LeaseRecord, now: Instant) -> bool {
        let is_chosen = record.holder == self.identity && record.preferred.is_empty();
        is_chosen && self.expiry().is_some_and(|expiry| expiry > now)
    }

    fn lease_write(&self, transitions: i32, acquired: Option<String>) -> LeaseWrite {
        LeaseWrite { holder: self.identity.clone(), duration: self.times.lease, transitions, acquired }
    }

    /// Returns the values with which this candidate acquires or renews the Lease. The number of transitions
    /// grows by one if the observed holder is another candidate, or if the Lease has no holder. A leader that
    /// observes no holder, because an administrator or another leader removed the holder, stays the leader,
    /// as in client-go.
    fn next_lease_write(&self, record: &LeaseRecord) -> LeaseWrite {
        let ours = record.holder == self.identity;
        let transitions = record.transitions.saturating_add(i32::from(!ours));
        self.lease_write(transitions, record.acquired.clone().filter(|_| ours))
    }

    /// Returns the time at which a leader gives up if it sent its last successful write at `sent` and cannot
    /// renew its lease.
    fn renew_deadline(&self, sent: Instant) -> Instant {
        sent + self.times.lease * GIVE_UP_TENTHS / 10
    }

    fn begin_term(&mut self, sent: Instant, now: Instant) {
        let Some(observed) = &self.observed else { return };
        let fence = Fence { transitions: observed.record.transitions, version: observed.version.clone() };
        self.role = Role::Leading { renewed: sent, renew_due: None, last_error: String::new() };
        self.next = Some(now + self.times.retry);
        self.notices.push_back(ElectionNotice::Leading(fence));
    }

    fn record_renewal(&mut self, sent: Instant, now: Instant) {
        self.role = Role::Leading { renewed: sent, renew_due: None, last_error: String::new() };
        self.next = Some(now + self.times.retry);
    }

    /// Renews the lease by writing the Lease without reading it first. The server rejects the write if the
    /// Lease has changed.
    fn renew(&mut self, now: Instant) {
        let Some(ObservedLease { record, version, .. }) = &self.observed else { return };
        let write = self.next_lease_write(record);
        self.send(ElectionAction::Update(version.clone(), write), now);
    }

    fn handle_leading(&mut self, request: RequestKind, response: ElectionResponse, now: Instant) {
        let Role::Leading { last_error, .. } = &mut self.role else { return };
        if let ElectionResponse::Failed(error) = &response {
            last_error.clone_from(error);
        }
        match (request, response) {
            (_, ElectionResponse::Lease(record, _))
                if !record.holder.is_empty() && record.holder != self.identity =>
            {
                self.lose(format!("{} is the holder", record.holder), now);
            }
            (_, ElectionResponse::Lease(record, _))
                if self.coordinated
                    && self.stopping.is_none()
                    && !record.preferred.is_empty()
                    && record.preferred != self.identity =>
            {
                self.lose(format!("the coordinator prefers {}", record.preferred), now);
            }
            (RequestKind::Get, ElectionResponse::NotFound) if self.coordinated && self.stopping.is_none() => {
                self.lose("the Lease was deleted".to_owned(), now);
            }
            _ if self.stopping.is_some() => {}
            // After a failed renewal, immediately read the Lease and try the renewal once more. If the second
            // attempt fails, too, wait for `retry`.
            (RequestKind::Write, _) if self.next.is_some() => {
                self.next = None;
                self.send(ElectionAction::Get, now);
            }
            (RequestKind::Get, ElectionResponse::Lease(..)) => self.renew(now),
            (RequestKind::Get, ElectionResponse::NotFound) => {
                let write = self.lease_write(0, None);
                self.send(ElectionAction::Create(write), now);
            }
            _ => self.next = Some(now + self.times.retry),
        }
    }

    /// Releases the lease by removing the holder from the Lease, so that other candidates need not wait for
    /// its expiry.
    fn write_release(&mut self, now: Instant) {
        let Some(ObservedLease { record, version, .. }) = &self.observed else { return };
        let write = LeaseWrite {
            holder: String::new(),
            duration: RELEASED_LEASE_DURATION,
            transitions: record.transitions,
            acquired: None,
        };
        self.send(ElectionAction::Update(version.clone(), write), now);
    }

    fn handle_releasing(&mut self, request: RequestKind, response: &ElectionResponse, now: Instant) {
        match (request, response) {
            (RequestKind::Get, ElectionResponse::Lease(..)) if self.is_holder() => self.write_release(now),
            (RequestKind::Write, ElectionResponse::Conflict) => self.send(ElectionAction::Get, now),
            (_, ElectionResponse::Failed(_)) => self.next = Some(now + self.times.retry),
            _ => self.finish(ElectionNotice::Stopped),
        }
    }

    fn send(&mut self, action: ElectionAction, now: Instant) {
        let request = if action == ElectionAction::Get { RequestKind::Get } else { RequestKind::Write };
        self.in_flight = Some((request, now));
        self.action = Some(action);
    }
}

/// Returns true if the holder has not renewed the lease between two reads. A preference of the coordinator is
/// not a renewal.
fn is_unchanged(before: &LeaseRecord, now: &LeaseRecord) -> bool {
    *before == LeaseRecord { preferred: before.preferred.clone(), ..now.clone() }
}
