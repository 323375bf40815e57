//! The rules of an election on one Lease, as pure state.
//!
//! ```text
//! Standby ──a write that took the lease──▶ Leading ──no renewal in time, or another holder──▶ Ended(lost)
//!    │ stop                                   │ stop
//!    └───────────▶ Ended ◀──released, or not──┴─▶ Releasing
//! ```
//!
//! # Invariants
//!
//! 1. Only observed time counts: how long this process has seen a record unchanged. The times in the record are of other clocks,
//!    and are never read.
//! 2. One request is on its way at a time.
//! 3. A leader counts its lease from before the request that renewed it was sent: whoever sees the renewal sees it later. It stops
//!    before nine tenths of the lease have passed by its own clock, so clocks may differ in rate by a tenth.
//! 4. Leadership begins with a write that the server accepted under the version that was read, never with a read; and not where its
//!    answer comes when the lease has passed, as to a process that stood still.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use super::{ElectionTimes, Fence, LeaderLost};

#[cfg(test)]
mod tests;

/// The share of a lease that its holder relies on: the rest is for clocks that run at another rate.
const TRUSTED_TENTHS: u32 = 9;

/// The share of a lease after which a leader gives up, so that its work can end while the lease still holds.
const GIVE_UP_TENTHS: u32 = 8;

/// Between two looks at the Lease that hints caused: a leader renews far less often, and a storm of changes must not become
/// one of requests.
const HINT_GAP: Duration = Duration::from_millis(500);

/// How long a released Lease says it is held, as upstream: it names no holder, so nobody waits for it.
const RELEASED: Duration = Duration::from_secs(1);

/// What a Lease says of its holder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// Its identity; empty where nobody holds it.
    pub holder: String,
    /// In seconds; nothing where the Lease says nothing that makes sense.
    pub duration: Option<u32>,
    /// How often the holder has changed.
    pub transitions: i32,
    /// When the term began, as it is written; only whether it changes is looked at.
    pub acquired: Option<String>,
    /// When it was renewed, likewise.
    pub renewed: Option<String>,
}

/// What is to be asked of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The Lease as it is.
    Get,
    /// A new Lease; refused where there is one.
    Create(LeaseWrite),
    /// Only if the Lease has this version.
    Update(ResourceVersion, LeaseWrite),
}

/// The record to be written. Its renewal is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseWrite {
    /// Its identity; empty to give the Lease back.
    pub holder: String,
    /// How long others are to wait; written in whole seconds.
    pub duration: Duration,
    /// How often the holder has changed, with this write.
    pub transitions: i32,
    /// When the term began; now, where it begins with this write.
    pub acquired: Option<String>,
}

/// What the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The Lease as it is now: read, or written by us.
    Seen(LeaseRecord, ResourceVersion),
    /// There is no Lease.
    Missing,
    /// It is another version by now, or there is one already.
    Conflict,
    /// Anything else, or no answer in time: what was sent may have been done, or may still be.
    Failed(String),
}

/// What is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The term begins.
    Leading(Fence),
    /// Another holder was seen, or none (empty).
    Holder(String),
    /// The term ended before it was asked to: nothing follows.
    Lost(LeaderLost),
    /// It is over, as asked.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Standby,
    Leading {
        /// Before the request that renewed the lease last was sent.
        renewed: Instant,
        /// When the renewal that is being tried was first due.
        round: Option<Instant>,
        /// Why it has not worked so far.
        trouble: String,
    },
    Releasing {
        until: Instant,
    },
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Get,
    Write,
}

#[derive(Debug)]
struct Observed {
    record: LeaseRecord,
    version: ResourceVersion,
    /// When this record was first seen.
    at: Instant,
}

/// One candidate of one Lease.
#[derive(Debug)]
#[must_use = "it does nothing until it is driven"]
pub struct ElectorState {
    identity: String,
    times: ElectionTimes,
    release: bool,
    role: Role,
    observed: Option<Observed>,
    in_flight: Option<(Request, Instant)>,
    next: Option<Instant>,
    /// The stop that waits for a write on its way.
    stopping: Option<Instant>,
    looked: Option<Instant>,
    action: Option<Action>,
    notices: VecDeque<Notice>,
}

impl ElectorState {
    /// A candidate that has not looked yet. Its first look is due at `now`. A leader that is stopped gives its lease back if `release`.
    pub fn new(identity: String, times: ElectionTimes, release: bool, now: Instant) -> Self {
        Self {
            identity,
            times,
            release,
            role: Role::Standby,
            observed: None,
            in_flight: None,
            next: Some(now),
            stopping: None,
            looked: None,
            action: None,
            notices: VecDeque::new(),
        }
    }

    /// The next request. Its [`answer`](Self::answer) comes before another one.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// The next thing to tell.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When [`tick`](Self::tick) has to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.next.filter(|_| self.in_flight.is_none());
        next.into_iter().chain(self.give_up()).min()
    }

    /// True while this candidate leads.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leading { .. })
    }

    /// Until when a leader's lease holds off others, whatever their clocks.
    pub fn held_until(&self) -> Option<Instant> {
        match self.role {
            Role::Leading { renewed, .. } => Some(renewed + self.times.lease * TRUSTED_TENTHS / 10),
            _ => None,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        if self.give_up().is_some_and(|deadline| deadline <= now) {
            return self.out_of_time(now);
        }
        if self.in_flight.is_some() || self.next.is_none_or(|next| next > now) {
            return;
        }
        match &mut self.role {
            Role::Standby => self.ask(Action::Get, now),
            Role::Leading { round, .. } => {
                round.get_or_insert(now);
                self.renew(now);
            }
            Role::Releasing { .. } => self.ask(Action::Get, now),
            Role::Ended => self.next = None,
        }
    }

    /// Somebody says that the Lease has changed.
    pub fn hint(&mut self, now: Instant) {
        if self.role == Role::Standby
            && let Some(next) = &mut self.next
        {
            let soon = self.looked.map_or(now, |looked| now.max(looked + HINT_GAP));
            *next = soon.min(*next);
        }
    }

    /// The answer to the request on its way. `random` is a number from 0 to 1.
    pub fn answer(&mut self, answer: Answer, now: Instant, random: f64) {
        let Some((request, sent)) = self.in_flight.take() else { return };
        let written = request == Request::Write && matches!(answer, Answer::Seen(..));
        if let Answer::Seen(record, version) = &answer {
            self.observe(record.clone(), version.clone(), now);
        }
        match self.role {
            Role::Standby if written && self.holds() && now < self.relied_on(sent) => self.lead(sent, now),
            Role::Standby => self.standby(request, &answer, now, random),
            Role::Leading { .. } if written && self.holds() => self.renewed(sent, now),
            Role::Leading { .. } => self.leading(request, answer, now),
            Role::Releasing { .. } => self.releasing(request, &answer, now),
            Role::Ended => {}
        }
        if let Some(until) = self.stopping
            && self.in_flight.is_none()
        {
            self.end(until, now);
        }
    }

    /// Ends the candidacy; a leader gives its lease back.
    pub fn stop(&mut self, now: Instant) {
        let until = now + self.times.renew;
        match self.role {
            // A write that is on its way may make this process the leader: its answer is waited for.
            Role::Standby | Role::Leading { .. } if matches!(self.in_flight, Some((Request::Write, _))) => {
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
            match self.holds() {
                true => self.give_back(now),
                // It found no holder, and its write since may have been done.
                false => self.ask(Action::Get, now),
            }
        } else if self.role != Role::Ended {
            self.over(Notice::Stopped);
        }
    }

    fn over(&mut self, notice: Notice) {
        self.role = Role::Ended;
        (self.next, self.action, self.in_flight) = (None, None, None);
        self.notices.push_back(notice);
    }

    /// When something ends that has taken too long.
    fn give_up(&self) -> Option<Instant> {
        let own = match &self.role {
            Role::Leading { renewed, round, .. } => {
                let safe = self.relied_on(*renewed);
                Some(round.map_or(safe, |round| safe.min(round + self.times.renew)))
            }
            Role::Releasing { until } => Some(*until),
            Role::Standby | Role::Ended => None,
        };
        own.into_iter().chain(self.stopping).min()
    }

    fn out_of_time(&mut self, now: Instant) {
        match &self.role {
            Role::Leading { trouble, .. } if self.stopping.is_none() => {
                let reason = format!("it could not be renewed in time ({trouble})");
                self.lose(reason, now);
            }
            _ => self.over(Notice::Stopped),
        }
    }

    fn lose(&mut self, reason: String, now: Instant) {
        let left = self.held_until().unwrap_or(now).saturating_duration_since(now);
        self.over(Notice::Lost(LeaderLost { reason, left }));
    }

    fn observe(&mut self, record: LeaseRecord, version: ResourceVersion, now: Instant) {
        let before = self.observed.as_ref().map(|observed| &observed.record);
        if before.is_none_or(|before| before.holder != record.holder) {
            self.notices.push_back(Notice::Holder(record.holder.clone()));
        }
        let at = match &self.observed {
            // A change of labels renews nothing.
            Some(observed) if observed.record == record => observed.at,
            _ => now,
        };
        self.observed = Some(Observed { record, version, at });
    }

    fn holds(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| observed.record.holder == self.identity)
    }

    /// True where somebody else was seen to hold the lease, and it has not passed.
    fn held_by_another(&self, now: Instant) -> bool {
        let holder = self.observed.as_ref().map_or("", |observed| &observed.record.holder);
        !holder.is_empty() && holder != self.identity && self.expiry().is_none_or(|expiry| expiry > now)
    }

    /// When the lease that was seen has passed.
    fn expiry(&self) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let held = observed.record.duration.filter(|seconds| *seconds > 0);
        let held = held.map_or(self.times.lease, |seconds| Duration::from_secs(seconds.into()));
        observed.at.checked_add(held)
    }

    fn standby(&mut self, request: Request, answer: &Answer, now: Instant, random: f64) {
        self.looked = Some(now);
        let wait = self.times.retry.mul_f64(1.0 + random.clamp(0.0, 1.0) * self.times.jitter);
        self.next = now.checked_add(wait);
        match (request, answer) {
            // Whoever held a Lease that was deleted may go on for as long as it trusts its own.
            (Request::Get, Answer::Missing) if self.held_by_another(now) => {
                self.next = self.next.into_iter().chain(self.expiry()).min();
            }
            (Request::Get, Answer::Missing) if self.stopping.is_none() => {
                let write = self.term(0, None);
                self.ask(Action::Create(write), now);
            }
            (Request::Get, Answer::Seen(record, version)) if self.stopping.is_none() => {
                if self.held_by_another(now) {
                    self.next = self.next.into_iter().chain(self.expiry()).min();
                } else {
                    let write = self.term_after(record);
                    self.ask(Action::Update(version.clone(), write), now);
                }
            }
            _ => {}
        }
    }

    fn term(&self, transitions: i32, acquired: Option<String>) -> LeaseWrite {
        LeaseWrite { holder: self.identity.clone(), duration: self.times.lease, transitions, acquired }
    }

    /// Who is not the holder that is written there becomes it, which counts. That holds for a leader, too, that finds no holder:
    /// somebody emptied the Lease, or held it after a deletion and gave it back. It leads on, as upstream.
    fn term_after(&self, record: &LeaseRecord) -> LeaseWrite {
        let ours = record.holder == self.identity;
        let transitions = record.transitions.saturating_add(i32::from(!ours));
        self.term(transitions, record.acquired.clone().filter(|_| ours))
    }

    /// Until when a leader goes on without another renewal, after a write that was sent then.
    fn relied_on(&self, sent: Instant) -> Instant {
        sent + self.times.lease * GIVE_UP_TENTHS / 10
    }

    fn lead(&mut self, sent: Instant, now: Instant) {
        let Some(observed) = &self.observed else { return };
        let fence = Fence { transitions: observed.record.transitions, version: observed.version.clone() };
        self.role = Role::Leading { renewed: sent, round: None, trouble: String::new() };
        self.next = Some(now + self.times.retry);
        self.notices.push_back(Notice::Leading(fence));
    }

    fn renewed(&mut self, sent: Instant, now: Instant) {
        self.role = Role::Leading { renewed: sent, round: None, trouble: String::new() };
        self.next = Some(now + self.times.retry);
    }

    /// Writes the lease again, without a look at it: the version says whether it is still the one that was seen.
    fn renew(&mut self, now: Instant) {
        let Some(Observed { record, version, .. }) = &self.observed else { return };
        let write = self.term_after(record);
        self.ask(Action::Update(version.clone(), write), now);
    }

    fn leading(&mut self, request: Request, answer: Answer, now: Instant) {
        let Role::Leading { trouble, .. } = &mut self.role else { return };
        if let Answer::Failed(error) = &answer {
            trouble.clone_from(error);
        }
        match (request, answer) {
            (_, Answer::Seen(record, _)) if !record.holder.is_empty() && record.holder != self.identity => {
                self.lose(format!("{} holds it", record.holder), now);
            }
            _ if self.stopping.is_some() => {}
            // One look, then one more write: then the rest of the period is waited for.
            (Request::Write, _) if self.next.is_some() => {
                self.next = None;
                self.ask(Action::Get, now);
            }
            (Request::Get, Answer::Seen(..)) => self.renew(now),
            (Request::Get, Answer::Missing) => {
                let write = self.term(0, None);
                self.ask(Action::Create(write), now);
            }
            _ => self.next = Some(now + self.times.retry),
        }
    }

    /// Names no holder, so that others need not wait.
    fn give_back(&mut self, now: Instant) {
        let Some(Observed { record, version, .. }) = &self.observed else { return };
        let write = LeaseWrite {
            holder: String::new(),
            duration: RELEASED,
            transitions: record.transitions,
            acquired: None,
        };
        self.ask(Action::Update(version.clone(), write), now);
    }

    fn releasing(&mut self, request: Request, answer: &Answer, now: Instant) {
        match (request, answer) {
            (Request::Get, Answer::Seen(..)) if self.holds() => self.give_back(now),
            (Request::Write, Answer::Conflict) => self.ask(Action::Get, now),
            (_, Answer::Failed(_)) => self.next = Some(now + self.times.retry),
            _ => self.over(Notice::Stopped),
        }
    }

    fn ask(&mut self, action: Action, now: Instant) {
        let request = if action == Action::Get { Request::Get } else { Request::Write };
        self.in_flight = Some((request, now));
        self.action = Some(action);
    }
}
