use std::time::{Duration, Instant};

use informer_control::election::{ElectionNotice, ElectionTimes, ElectorState};

use super::{Micros, REQUESTS_A_SECOND, REQUESTS_SPARE, SECOND};
use crate::check::{Checked, ensure};
use crate::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    StandsBy,
    Leads,
    /// The candidate is releasing its lease. The work of its term has already ended.
    Releases,
    Gone,
}

impl Doing {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::StandsBy => "standby",
            Self::Leads => "leading",
            Self::Releases => "releasing",
            Self::Gone => "gone",
        }
    }
}

#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) identity: String,
    state: ElectorState,
    times: ElectionTimes,
    pub(super) release: bool,
    /// The rate of the candidate's clock relative to the true time, in thousandths. The rates of any two
    /// candidates differ by at most a tenth.
    rate: u64,
    /// The initial value of the candidate's clock.
    offset: Micros,
    /// How far the candidate's wall clock is ahead of the true time. The election must not depend on it.
    wall: u64,
    lives: u32,
    pub(super) doing: Doing,
    /// The time at which the candidate was asked to stop, by its own clock.
    stopping: Option<Instant>,
    /// The number of the candidate's newest request. Responses to earlier requests are ignored.
    pub(super) request: u64,
    /// Number of requests of the current process of the candidate, and the start time of this process.
    pub(super) requests: u64,
    since: Micros,
    pub(super) timeout: Option<Micros>,
    pub(super) paused_until: Micros,
    pub(super) cut_until: Micros,
    pub(super) returns_at: Option<Micros>,
    /// The true time until which the work of the candidate's last term may continue.
    pub(super) works_until: Micros,
    pub(super) seen: u64,
}

impl Candidate {
    pub(super) fn new(index: u32, times: ElectionTimes, origin: Instant, random: &mut Random) -> Self {
        let (identity, rate) = (format!("c{index}"), random.between(955, 1046) as u64);
        let offset = random.below(1_000_000_000) as Micros;
        let begin = origin + Duration::from_micros(offset);
        Self {
            state: ElectorState::new(identity.clone(), times, true, begin),
            identity,
            times,
            release: true,
            rate,
            offset,
            wall: random.draw() >> 8,
            lives: 0,
            doing: Doing::StandsBy,
            stopping: None,
            request: 0,
            requests: 0,
            since: 0,
            timeout: None,
            paused_until: 0,
            cut_until: 0,
            returns_at: None,
            works_until: 0,
            seen: 0,
        }
    }

    pub(super) fn local(&self, now: Micros, origin: Instant) -> Instant {
        origin + Duration::from_micros(self.offset + now * self.rate / 1000)
    }

    /// Returns the first true time at which the candidate's clock shows `local`.
    fn true_time(&self, local: Instant, origin: Instant) -> Micros {
        let shown = local.saturating_duration_since(origin).as_micros() as Micros;
        (shown.saturating_sub(self.offset) * 1000).div_ceil(self.rate)
    }

    /// Returns the true time at which `time` has passed on the candidate's clock since `now`.
    pub(super) fn after(&self, now: Micros, time: Duration) -> Micros {
        now + (time.as_micros() as Micros * 1000).div_ceil(self.rate)
    }

    pub(super) fn wall(&self, now: Micros) -> u64 {
        self.wall.wrapping_add(now)
    }

    pub(super) fn jump(&mut self, random: &mut Random) {
        self.wall = random.draw() >> 8;
    }

    pub(super) fn state_mut(&mut self) -> &mut ElectorState {
        &mut self.state
    }

    pub(super) fn poll_notice(&mut self) -> Option<ElectionNotice> {
        self.state.poll_notice()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.doing != Doing::Gone
    }

    /// Starts to release the lease of a candidate whose state machine no longer leads, although it has not
    /// reported that the lease was lost. Returns whether the release began.
    pub(super) fn gives_back(&mut self) -> bool {
        let begins = self.doing == Doing::Leads && !self.state.leads();
        self.doing = if begins { Doing::Releases } else { self.doing };
        begins
    }

    pub(super) fn awaits(&self, request: u64) -> bool {
        self.is_alive() && self.timeout.is_some() && self.request == request
    }

    pub(super) fn is_cut_off(&self, now: Micros) -> bool {
        self.cut_until > now
    }

    pub(super) fn wakes_at(&self, origin: Instant) -> Option<Micros> {
        if !self.is_alive() {
            return self.returns_at;
        }
        let deadline = self.state.next_deadline().map(|local| self.true_time(local, origin));
        deadline.into_iter().chain(self.timeout).min()
    }

    pub(super) fn held_until(&self, origin: Instant) -> Option<Micros> {
        let until = self.state.held_until().filter(|_| self.is_alive())?;
        Some(self.true_time(until, origin))
    }

    pub(super) fn pause(&mut self, until: Micros) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Returns true if the candidate was paused at any time within the last lease duration.
    pub(super) fn was_paused(&self, now: Micros, lease: Duration) -> bool {
        self.paused_until > 0 && self.paused_until + 2 * lease.as_micros() as Micros >= now
    }

    pub(super) fn stop(&mut self, local: Instant) {
        self.stopping.get_or_insert(local);
        self.state.stop(local);
    }

    /// Checks that stopping the candidate takes no longer than the renew deadline.
    pub(super) fn check_stop(&self, local: Instant, renew: Duration) -> Checked {
        let late = self.stopping.is_some_and(|since| local > since + renew);
        ensure!("stops-in-time", !late, "{} continues after the stop request", self.identity);
        Ok(())
    }

    pub(super) fn check_effort(&self, now: Micros) -> Checked {
        let explained = REQUESTS_SPARE + (now - self.since) / SECOND * REQUESTS_A_SECOND;
        let few = self.requests <= explained;
        ensure!(
            "no-request-storm",
            few,
            "{} requests of {}, expected at most {explained}",
            self.requests,
            self.identity
        );
        Ok(())
    }

    /// Crashes the process of the candidate, which restarts later. Its messages in flight still arrive.
    pub(super) fn end(&mut self, later: Micros) {
        (self.doing, self.timeout, self.stopping) = (Doing::Gone, None, None);
        self.returns_at = Some(later);
    }

    /// Starts a new process for a crashed candidate, in some cases with the identity of the old process.
    pub(super) fn return_anew(&mut self, now: Micros, origin: Instant, random: &mut Random) {
        if random.one_in(2) {
            self.lives += 1;
            self.identity = format!("{}-{}", self.identity.split('-').next().unwrap_or("c"), self.lives);
        } else {
            // Only one process may use an identity at a time. The old process has ended, and with it the work
            // of its term.
            self.works_until = self.works_until.min(now);
        }
        self.release = !random.one_in(4);
        let begin = self.local(now, origin);
        self.state = ElectorState::new(self.identity.clone(), self.times, self.release, begin);
        (self.doing, self.returns_at, self.seen) = (Doing::StandsBy, None, 0);
        (self.requests, self.since) = (0, now);
    }
}
