//! Simulates leader election: the shipped state machines of several candidates, one Lease on a server, and
//! the network between them. The simulation has one true time. Each candidate has a clock that runs at its
//! own rate, and a wall clock that shows an arbitrary time.

mod candidate;
mod lease;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use informer_control::election::{
    ElectionAction, ElectionNotice, ElectionResponse, ElectionTimes, LeaderLost,
};

use self::candidate::{Candidate, Doing};
use self::lease::Lease;
use crate::check::{Checked, ensure};
use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::random::Random;
use crate::script::Setup;

/// A point in the simulation's true time, in microseconds.
type Micros = u64;

const SECOND: Micros = 1_000_000;

/// The time after the last fault within which a candidate must lead. It covers the return of paused or
/// crashed candidates, the expiry of an abandoned lease, and the next check by a standby.
const LEADER_WITHIN: Micros = 150 * SECOND;

/// The time after the last fault within which all paused or crashed candidates are back, and requests without
/// response have timed out.
const SETTLED_AFTER: Micros = 22 * SECOND;

/// The number of requests of a candidate that are tolerated in addition to [`REQUESTS_A_SECOND`].
const REQUESTS_SPARE: u64 = 24;

/// The number of requests per second of a candidate's clock that are tolerated. Notifications of changes
/// allow two reads per second, and each may be followed by a write.
const REQUESTS_A_SECOND: u64 = 5;

enum Message {
    Request(ElectionAction),
    Response(ElectionResponse),
    /// The watch of the Lease notifies a candidate of a change.
    Hint,
}

struct Flight {
    at: Micros,
    candidate: usize,
    /// The number of the request. It also identifies the process that sent the request.
    request: u64,
    message: Message,
    sent: Micros,
    response_lost: bool,
}

pub(crate) struct Election {
    origin: Instant,
    now: Micros,
    times: ElectionTimes,
    lease: Lease,
    candidates: Vec<Candidate>,
    flights: Vec<Flight>,
    /// Faults that the next requests for the Lease will have.
    armed: VecDeque<Fault>,
    refusals: u32,
    /// Until this time, two candidates may lead, because the Lease was deleted or its holder was removed
    /// while a candidate held it. No election can prevent that.
    forked_until: Micros,
    /// The lines of the log since it was last taken; `None` if no log is recorded.
    pub(crate) lines: Option<Vec<String>>,
}

enum Next {
    Arrives(usize),
    Wakes(usize),
}

macro_rules! tell {
    ($election:expr, $($text:tt)+) => {
        if let Some(lines) = &mut $election.lines {
            lines.push(format!("election at {:.3} s: {}", $election.now as f64 / SECOND as f64, format!($($text)+)));
        }
    };
}

impl Election {
    pub(crate) fn new(setup: &Setup, origin: Instant, random: &mut Random) -> Self {
        let seconds = Duration::from_secs;
        let times = match setup.lease {
            0 => ElectionTimes { lease: seconds(6), renew: seconds(4), retry: seconds(1), jitter: 1.2 },
            _ => ElectionTimes::default(),
        };
        let candidates = (0..setup.candidates).map(|index| Candidate::new(index, times, origin, random));
        Self {
            origin,
            now: 0,
            times,
            lease: Lease::default(),
            candidates: candidates.collect(),
            flights: Vec::new(),
            armed: VecDeque::new(),
            refusals: 0,
            forked_until: 0,
            lines: None,
        }
    }

    /// Advances the election by up to the given number of events. Returns the number of processed events.
    pub(crate) fn go_on(
        &mut self,
        most: usize,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Checked<u64> {
        for done in 0..most {
            if !self.step(random, coverage, Micros::MAX)? {
                return Ok(done as u64);
            }
        }
        Ok(most as u64)
    }

    fn step(&mut self, random: &mut Random, coverage: &mut Coverage, until: Micros) -> Checked<bool> {
        let flights = self.flights.iter().enumerate().map(|(index, flight)| {
            let to_candidate = !matches!(flight.message, Message::Request(_));
            let ready = if to_candidate { self.candidates[flight.candidate].paused_until } else { 0 };
            (flight.at.max(ready), Next::Arrives(index))
        });
        let wakes = self.candidates.iter().enumerate().filter_map(|(index, candidate)| {
            Some((candidate.wakes_at(self.origin)?.max(candidate.paused_until), Next::Wakes(index)))
        });
        // At the same moment, messages are processed before timers, as in the driver of the election.
        let Some((at, next)) = flights.chain(wakes).min_by_key(|(at, _)| *at) else { return Ok(false) };
        if at > until {
            self.now = self.now.max(until);
            return Ok(false);
        }
        self.now = self.now.max(at);
        match next {
            Next::Arrives(index) => {
                let flight = self.flights.remove(index);
                self.arrive(flight, random, coverage)?;
            }
            Next::Wakes(index) => self.wake(index, random, coverage)?,
        }
        self.check_leaders()?;
        Ok(true)
    }

    fn arrive(&mut self, flight: Flight, random: &mut Random, coverage: &mut Coverage) -> Checked {
        let Flight { candidate: index, request, message, sent, response_lost, .. } = flight;
        match message {
            Message::Request(action) => {
                let response = self.serve(index, &action, sent, random)?;
                tell!(self, "candidate {index} requested {action:?}: {response:?}");
                if !response_lost && !self.candidates[index].is_cut_off(self.now) {
                    self.fly(index, request, Message::Response(response), random);
                }
            }
            Message::Response(response) if self.candidates[index].awaits(request) => {
                self.deliver(index, response, random, coverage)?;
            }
            Message::Hint if self.candidates[index].is_alive() => {
                let local = self.local(index);
                self.candidates[index].state_mut().hint(local);
                self.turn(index, random, coverage)?;
            }
            Message::Response(_) | Message::Hint => {}
        }
        Ok(())
    }

    fn serve(
        &mut self,
        index: usize,
        action: &ElectionAction,
        sent: Micros,
        random: &mut Random,
    ) -> Checked<ElectionResponse> {
        let before = self.lease.version;
        let wall = self.candidates[index].wall(self.now);
        // If the creation request was sent before the Lease was deleted, the request did not take the
        // deletion into account, whatever the sender has observed since.
        let knew_last =
            self.candidates[index].seen == self.lease.deleted_at && sent >= self.lease.deleted_when;
        let response = self.lease.serve(action, wall)?;
        if self.lease.version == before {
            return Ok(response);
        }
        if matches!(action, ElectionAction::Create(_)) && !knew_last {
            self.forked_until = self.now + 3 * self.times.lease.as_micros() as Micros;
        }
        for other in (0..self.candidates.len()).filter(|other| *other != index) {
            if random.one_in(3) {
                let request = self.candidates[other].request;
                self.fly(other, request, Message::Hint, random);
            }
        }
        Ok(response)
    }

    fn fly(&mut self, candidate: usize, request: u64, message: Message, random: &mut Random) {
        let at = self.now + 1000 + random.below(100_000) as Micros;
        self.flights.push(Flight { at, candidate, request, message, sent: self.now, response_lost: false });
    }

    fn deliver(
        &mut self,
        index: usize,
        response: ElectionResponse,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Checked {
        let (local, share) = (self.local(index), random.below(1001) as f64 / 1000.0);
        let candidate = &mut self.candidates[index];
        if let ElectionResponse::Lease(_, version) = &response {
            candidate.seen = version.as_u64().unwrap_or_default();
        }
        candidate.timeout = None;
        candidate.state_mut().handle_response(response, local, share);
        self.turn(index, random, coverage)
    }

    fn wake(&mut self, index: usize, random: &mut Random, coverage: &mut Coverage) -> Checked {
        if self.candidates[index].returns_at.is_some_and(|at| at <= self.now) {
            self.candidates[index].return_anew(self.now, self.origin, random);
            tell!(self, "candidate {index} restarts as {}", self.candidates[index].identity);
        }
        if self.candidates[index].timeout.is_some_and(|at| at <= self.now) {
            return self.deliver(index, ElectionResponse::Failed("no response".to_owned()), random, coverage);
        }
        self.turn(index, random, coverage)
    }

    fn local(&self, index: usize) -> Instant {
        self.candidates[index].local(self.now, self.origin)
    }

    /// Runs one iteration of a candidate's driver loop: it handles timers, then notifications, then sends
    /// requests.
    fn turn(&mut self, index: usize, random: &mut Random, coverage: &mut Coverage) -> Checked {
        if !self.candidates[index].is_alive() {
            return Ok(());
        }
        let local = self.local(index);
        self.candidates[index].state_mut().tick(local);
        while let Some(notice) = self.candidates[index].poll_notice() {
            tell!(self, "candidate {index}: {notice:?}");
            match notice {
                ElectionNotice::Holder(_) => {}
                ElectionNotice::Leading(fence) => {
                    coverage.passed("standby", "leading");
                    self.lease.begin_term(&fence, self.forked_until > self.now)?;
                    self.check_alone(index)?;
                    self.candidates[index].doing = Doing::Leads;
                }
                ElectionNotice::Lost(lost) => {
                    coverage.passed("leading", "lost");
                    return self.lost(index, &lost, random);
                }
                ElectionNotice::Stopped => {
                    let from = self.candidates[index].doing.as_str();
                    coverage.passed(from, "ended");
                    return self.ended(index, random);
                }
            }
        }
        if self.candidates[index].gives_back() {
            coverage.passed("leading", "releasing");
        }
        self.candidates[index].check_stop(local, self.times.renew)?;
        if let Some(action) = self.candidates[index].state_mut().poll_action() {
            self.send(index, action, random, coverage)?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        index: usize,
        action: ElectionAction,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Checked {
        let candidate = &mut self.candidates[index];
        if let ElectionAction::Update(version, _) = &action {
            let fresh = version.as_u64() == Some(candidate.seen);
            ensure!(
                "fresh-writes",
                fresh,
                "a write at version {version} by a candidate that has read version {}",
                candidate.seen
            );
        }
        candidate.request += 1;
        candidate.requests += 1;
        candidate.timeout =
            Some(candidate.after(self.now, (self.times.renew / 2).max(Duration::from_secs(1))));
        candidate.check_effort(self.now)?;
        let (request, cut) = (candidate.request, candidate.is_cut_off(self.now));
        if self.refusals > 0 {
            self.refusals -= 1;
            coverage.hit(Fault::LeaseRefused);
            self.fly(
                index,
                request,
                Message::Response(ElectionResponse::Failed("the server responded with 500".to_owned())),
                random,
            );
            return Ok(());
        }
        if cut {
            coverage.hit(Fault::CandidateCutOff);
            return Ok(());
        }
        self.fly(index, request, Message::Request(action), random);
        if let (Some(fault), Some(flight)) = (self.armed.pop_front(), self.flights.last_mut()) {
            coverage.hit(fault);
            match fault {
                Fault::LeaseResponseLost => flight.response_lost = true,
                _ => flight.at += (1 + random.below(20)) as Micros * SECOND,
            }
        }
        Ok(())
    }

    /// Checks, when a candidate becomes the leader, that the work of the previous leader has ended, including
    /// its grace period.
    fn check_alone(&self, leader: usize) -> Checked {
        for (index, other) in self.candidates.iter().enumerate().filter(|(index, _)| *index != leader) {
            let held = other.held_until(self.origin).is_some_and(|until| until > self.now);
            let alone = !held && other.works_until <= self.now || self.forked_until > self.now;
            ensure!(
                "one-leader",
                alone,
                "candidate {leader} leads while candidate {index} may still act: {other:?}"
            );
        }
        Ok(())
    }

    /// Checks that every running leader has a deadline at which it stops leading unless it renews the lease.
    fn check_leaders(&self) -> Checked {
        let running = self.candidates.iter().enumerate().filter(|(_, it)| it.paused_until <= self.now);
        let mut leaders = 0;
        for (index, candidate) in running.filter(|(_, candidate)| candidate.doing == Doing::Leads) {
            leaders += 1;
            let held = candidate.held_until(self.origin).is_some_and(|until| until > self.now);
            // A candidate that was paused until now has not run its driver yet, so its deadline may have
            // passed.
            let waits = candidate.wakes_at(self.origin).is_some_and(|at| at <= self.now);
            ensure!("lost-in-time", held || waits, "candidate {index} leads after its lease has expired");
        }
        let alone = leaders <= 1 || self.forked_until > self.now;
        let waits =
            self.candidates.iter().any(|it| it.wakes_at(self.origin).is_some_and(|at| at <= self.now));
        ensure!(
            "one-leader",
            alone || waits,
            "{leaders} candidates lead at the same time: {:?}",
            self.candidates
        );
        Ok(())
    }

    fn lost(&mut self, index: usize, lost: &LeaderLost, random: &mut Random) -> Checked {
        let candidate = &mut self.candidates[index];
        let left = lost.time_left();
        ensure!(
            "lost-in-time",
            !left.is_zero() || candidate.was_paused(self.now, self.times.lease),
            "candidate {index} has lost its lease without time left to end its work: {lost}"
        );
        candidate.works_until = candidate.after(self.now, left).saturating_sub(1);
        self.ended(index, random)
    }

    fn ended(&mut self, index: usize, random: &mut Random) -> Checked {
        let later = self.now + random.below(10_000_000) as Micros;
        self.candidates[index].end(later);
        Ok(())
    }

    pub(crate) fn suffer(
        &mut self,
        fault: Fault,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Checked<u64> {
        let index = random.below(self.candidates.len());
        // Prefers the leader as the candidate that has the fault, because faults of a leader have the largest
        // effect.
        let index = self
            .candidates
            .iter()
            .position(|it| it.doing == Doing::Leads && random.one_in(2))
            .unwrap_or(index);
        let until = self.now + (1 + random.below(20)) as Micros * SECOND;
        tell!(self, "fault {} at candidate {index}", fault.as_str());
        match fault {
            Fault::LeaseResponseLost | Fault::LeaseLate => {
                self.armed.push_back(fault);
                return Ok(0);
            }
            Fault::LeaseRefused => {
                self.refusals += 1 + random.below(6) as u32;
                return Ok(0);
            }
            Fault::CandidateCutOff => {
                let all = random.one_in(3);
                let cut = self.candidates.iter_mut().enumerate().filter(|(nth, _)| all || *nth == index);
                cut.for_each(|(_, candidate)| candidate.cut_until = until);
                return Ok(0);
            }
            Fault::LeaseTouched if self.lease.record.is_none() => return Ok(0),
            Fault::LeaseDeleted if self.lease.record.is_none() => return Ok(0),
            Fault::LeaseTouched => {
                if self.lease.touch(random) {
                    self.forked_until = self.now + 3 * self.times.lease.as_micros() as Micros;
                }
            }
            Fault::LeaseDeleted => self.lease.delete(self.now),
            Fault::CandidatePaused => self.candidates[index].pause(until),
            Fault::WallClockJumps => self.candidates[index].jump(random),
            _ if !self.candidates[index].is_alive() => return Ok(0),
            // A paused candidate does not receive the stop request, so another fault is chosen.
            Fault::CandidateStops if self.candidates[index].paused_until > self.now => return Ok(0),
            Fault::CandidateCrashes => {
                coverage.passed(self.candidates[index].doing.as_str(), "crashed");
                self.candidates[index].end(until);
            }
            _ => {
                let local = self.local(index);
                self.candidates[index].stop(local);
                self.turn(index, random, coverage)?;
            }
        }
        coverage.hit(fault);
        Ok(1)
    }

    /// Checks that, without further faults, a candidate leads, keeps leading, and is replaced immediately
    /// after releasing the lease.
    pub(crate) fn come_to_rest(&mut self, random: &mut Random, coverage: &mut Coverage) -> Checked<u64> {
        self.armed.clear();
        self.refusals = 0;
        self.candidates.iter_mut().for_each(|candidate| candidate.cut_until = 0);
        let mut steps = 0;
        // A leader that could not renew during the faults may still lose its lease. If a deletion allowed a
        // second leader, one of the two must stop leading.
        let settled = self.forked_until.max(self.now) + SETTLED_AFTER;
        while self.step(random, coverage, settled)? {
            steps += 1;
        }
        let within = self.now + LEADER_WITHIN;
        let leader = loop {
            if let Some(leader) = self.leader() {
                break leader;
            }
            let went = self.step(random, coverage, within)?;
            ensure!("election-liveness", went, "no candidate leads: {:?}", self.candidates);
            steps += 1;
        };
        let term = self.lease.terms;
        let kept = self.now + self.times.lease.as_micros() as Micros;
        while self.step(random, coverage, kept)? {
            steps += 1;
        }
        ensure!("leader-is-kept", self.lease.terms == term, "the leader changed without a fault");
        ensure!(
            "leader-is-kept",
            self.leader() == Some(leader),
            "the leader stopped leading without a fault"
        );
        Ok(steps + self.hand_over(leader, random, coverage)?)
    }

    /// Checks the handover. A standby takes a released lease at its next check; otherwise it waits until the
    /// lease expires.
    fn hand_over(&mut self, leader: usize, random: &mut Random, coverage: &mut Coverage) -> Checked<u64> {
        let (local, terms, mut steps) = (self.local(leader), self.lease.terms, 0);
        self.candidates[leader].stop(local);
        self.turn(leader, random, coverage)?;
        // The longest time until a standby checks the lease, measured by the slowest clock, plus the time of
        // the requests.
        let looks = self.times.retry.mul_f64(1.0 + self.times.jitter).as_micros() as Micros;
        let lease = if self.candidates[leader].release { Duration::ZERO } else { self.times.lease };
        let within = self.now + (looks + lease.as_micros() as Micros) * 11 / 10 + 2 * SECOND;
        // The loop waits for another term instead of another leader, because a restarted candidate may lead
        // again.
        while self.lease.terms == terms {
            let went = self.step(random, coverage, within)?;
            ensure!("released-is-taken", went, "no candidate takes the released lease: {:?}", self.lease);
            steps += 1;
        }
        Ok(steps)
    }

    fn leader(&self) -> Option<usize> {
        self.candidates.iter().position(|it| it.doing == Doing::Leads && it.paused_until <= self.now)
    }
}
