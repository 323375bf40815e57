mod coordinated;
mod stops;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{ElectionAction, ElectionNotice, ElectionResponse, ElectorState, LeaseRecord, LeaseWrite};
use crate::election::ElectionTimes;

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[derive(Default)]
struct Server {
    lease: Option<LeaseRecord>,
    version: u64,
    writes: u64,
}

impl Server {
    fn serve(&mut self, action: &ElectionAction) -> ElectionResponse {
        match (action, &self.lease) {
            (ElectionAction::Get, Some(lease)) => {
                ElectionResponse::Lease(lease.clone(), ResourceVersion::from(self.version))
            }
            (ElectionAction::Get | ElectionAction::Update(..), None) => ElectionResponse::NotFound,
            (ElectionAction::Create(_), Some(_)) => ElectionResponse::Conflict,
            (ElectionAction::Update(version, _), _) if *version != ResourceVersion::from(self.version) => {
                ElectionResponse::Conflict
            }
            (ElectionAction::Create(write) | ElectionAction::Update(_, write), _) => self.write(write),
        }
    }

    fn write(&mut self, write: &LeaseWrite) -> ElectionResponse {
        self.writes += 1;
        self.version += 1;
        let now = Some(format!("at {}", self.writes));
        let lease = LeaseRecord {
            holder: write.holder.clone(),
            duration: u32::try_from(write.duration.as_secs()).ok(),
            transitions: write.transitions,
            acquired: write.acquired.clone().or_else(|| now.clone()),
            renewed: now,
            preferred: self.lease.as_ref().map_or_else(String::new, |lease| lease.preferred.clone()),
        };
        self.lease = Some(lease.clone());
        ElectionResponse::Lease(lease, ResourceVersion::from(self.version))
    }

    fn held_by(holder: &str) -> Self {
        let lease = LeaseRecord { holder: holder.to_owned(), duration: Some(15), ..LeaseRecord::default() };
        Self { lease: Some(lease), version: 1, writes: 0 }
    }
}

struct TestElector {
    state: ElectorState,
    now: Instant,
}

impl TestElector {
    fn new(identity: &str) -> Self {
        let now = start();
        Self { state: ElectorState::new(identity.to_owned(), ElectionTimes::default(), true, now), now }
    }

    /// Advances the clock until the elector sends its next request.
    fn action(&mut self) -> ElectionAction {
        loop {
            self.state.tick(self.now);
            if let Some(action) = self.state.poll_action() {
                return action;
            }
            self.now = self.now.max(self.state.next_deadline().expect("a deadline"));
        }
    }

    fn exchange(&mut self, server: &mut Server) -> ElectionAction {
        let action = self.action();
        self.state.handle_response(server.serve(&action), self.now, 0.0);
        action
    }

    fn notices(&mut self) -> Vec<ElectionNotice> {
        std::iter::from_fn(|| self.state.poll_notice()).collect()
    }
}

fn verbs_until_leading(elector: &mut TestElector, server: &mut Server) -> Vec<&'static str> {
    let mut verbs = Vec::new();
    while !elector.state.leads() {
        verbs.push(match elector.exchange(server) {
            ElectionAction::Get => "get",
            ElectionAction::Create(_) => "create",
            ElectionAction::Update(..) => "update",
        });
    }
    verbs
}

#[test]
fn missing_lease_is_created() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    assert_eq!(verbs_until_leading(&mut elector, &mut server), ["get", "create"]);
    assert_eq!(server.lease.as_ref().map(|lease| lease.transitions), Some(0));
}

#[test]
fn released_lease_is_acquired_at_once_and_counts_a_transition() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by(""));
    assert_eq!(verbs_until_leading(&mut elector, &mut server), ["get", "update"]);
    assert_eq!(server.lease.as_ref().map(|lease| lease.transitions), Some(1));
}

#[test]
fn lease_is_acquired_after_it_was_observed_unchanged_for_its_duration() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    let begun = elector.now;
    let verbs = verbs_until_leading(&mut elector, &mut server);
    assert_eq!(elector.now - begun, seconds(15.0), "timestamps of the record do not count");
    assert_eq!(verbs.last(), Some(&"update"));
}

#[test]
fn renewed_lease_is_not_acquired() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    for renewal in 0..100 {
        elector.exchange(&mut server);
        let lease = server.lease.as_mut().expect("a Lease");
        lease.renewed = Some(format!("renewal {renewal}"));
        server.version += 1;
    }
    assert!(!elector.state.leads());
}

#[test]
fn change_of_labels_is_not_a_renewal() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    let begun = elector.now;
    while !elector.state.leads() {
        let action = elector.action();
        server.version += u64::from(action == ElectionAction::Get);
        elector.state.handle_response(server.serve(&action), elector.now, 0.0);
    }
    assert_eq!(elector.now - begun, seconds(15.0));
}

#[test]
fn invalid_lease_duration_counts_as_own_duration() {
    for duration in [None, Some(0)] {
        let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
        server.lease.as_mut().expect("a Lease").duration = duration;
        let begun = elector.now;
        verbs_until_leading(&mut elector, &mut server);
        assert_eq!(elector.now - begun, seconds(15.0));
    }
}

#[test]
fn leader_renews_without_reading_and_reads_after_a_conflict() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    let renewed = elector.now;
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Update(..)));
    assert_eq!(elector.now - renewed, seconds(2.0));
    server.version += 1; // Another client changes the labels of the Lease.
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Update(..)));
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Get));
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Update(..)));
    assert_eq!(elector.now - renewed, seconds(4.0), "one attempt");
    assert!(elector.state.leads());
}

#[test]
fn leader_recreates_deleted_lease() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    server.lease = None;
    while server.lease.is_none() {
        elector.exchange(&mut server);
    }
    assert!(elector.state.leads());
}

#[test]
fn leader_that_observes_no_holder_stays_leader_and_counts_a_transition() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    let lease = server.lease.as_mut().expect("a Lease");
    (lease.holder, lease.transitions) = (String::new(), 4);
    server.version += 1; // An administrator or another leader removed the holder.
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Update(..)));
    assert!(matches!(elector.exchange(&mut server), ElectionAction::Get));
    let ElectionAction::Update(_, write) = elector.exchange(&mut server) else { panic!("an update") };
    assert_eq!((write.holder.as_str(), write.transitions, write.acquired), ("a", 5, None));
    let ElectionAction::Update(_, write) = elector.exchange(&mut server) else { panic!("it renews") };
    assert_eq!(write.transitions, 5, "counted once");
    assert!(elector.state.leads());
}

#[test]
fn standby_waits_for_known_holder_of_deleted_lease() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    let begun = elector.now;
    elector.exchange(&mut server);
    server.lease = None;
    while server.lease.is_none() {
        elector.exchange(&mut server);
    }
    assert_eq!(elector.now - begun, seconds(15.0));
}

#[test]
fn leader_that_observes_another_holder_stops_at_once() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    server.lease.as_mut().expect("a Lease").holder = "b".to_owned();
    server.version += 1;
    let renewed = elector.now;
    elector.exchange(&mut server);
    elector.exchange(&mut server);
    let Some(ElectionNotice::Lost(lost)) = elector.notices().pop() else { panic!("lost") };
    assert_eq!(lost.to_string(), "the lease is lost: b is the holder");
    assert_eq!(elector.now - renewed, seconds(2.0), "before the renew deadline");
}

#[test]
fn leader_that_cannot_renew_gives_up_before_its_lease_expires() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    let renewed = elector.now;
    while elector.state.leads() {
        if elector.state.poll_action().is_some() {
            elector.state.handle_response(
                ElectionResponse::Failed("the server responded with 500".to_owned()),
                elector.now,
                0.0,
            );
        } else {
            elector.now = elector.state.next_deadline().expect("a deadline").max(elector.now);
            elector.state.tick(elector.now);
        }
    }
    assert_eq!(elector.now - renewed, seconds(12.0), "the retry period and the renew deadline");
    let Some(ElectionNotice::Lost(lost)) = elector.notices().pop() else { panic!("lost") };
    assert_eq!(lost.time_left(), seconds(1.5));
    assert_eq!(lost.to_string(), "the lease is lost: not renewed in time (the server responded with 500)");
}

#[test]
fn slow_response_does_not_extend_the_lease() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    let action = elector.action();
    elector.state.handle_response(server.serve(&action), elector.now, 0.0);
    let action = elector.action();
    let (response, sent) = (server.serve(&action), elector.now);
    elector.now += seconds(4.9);
    elector.state.handle_response(response, elector.now, 0.0);
    assert_eq!(elector.state.held_until(), Some(sent + seconds(13.5)), "counted from the request");
}

#[test]
fn suspended_process_does_not_lead_after_the_acquired_lease_expired() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    elector.exchange(&mut server);
    let create = elector.action();
    let response = server.serve(&create);
    elector.now += seconds(12.0);
    elector.state.handle_response(response, elector.now, 0.0);
    assert!(!elector.state.leads());
    assert!(!elector.notices().iter().any(|notice| matches!(notice, ElectionNotice::Leading(_))));
    assert_eq!(verbs_until_leading(&mut elector, &mut server), ["get", "update"], "still the holder");
}

#[test]
fn hints_cause_a_read_at_once_but_are_rate_limited() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    elector.exchange(&mut server);
    let last_get = elector.now;
    for _ in 0..100 {
        elector.state.hint(elector.now);
    }
    elector.exchange(&mut server);
    assert_eq!(elector.now - last_get, super::MIN_HINT_INTERVAL);
}

/// An event of the simulation. Events are processed in the order of their times, which are in microseconds on
/// the clock of the simulation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    /// The request of a candidate arrives at the server. The fields are the index of the candidate, the
    /// number of its request, and the index of the action. A request may arrive long after its timeout.
    Arrive(usize, u64, usize),
    Return(usize, u64),
    Restart(usize),
}

/// A simulated candidate, whose clock runs at its own rate.
struct Candidate {
    state: ElectorState,
    rate: f64,
    base: Instant,
    request: u64,
    response: Option<ElectionResponse>,
}

/// The simulation: candidates, a server, and a network that delays and drops messages.
struct World {
    rng: StdRng,
    server: Server,
    candidates: Vec<Candidate>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    actions: Vec<ElectionAction>,
    now: u64,
    lives: u32,
    terms: u32,
}

const SECOND: u64 = 1_000_000;

impl World {
    fn new(seed: u64, rates: &[f64]) -> Self {
        let events = BinaryHeap::new();
        let rng = StdRng::seed_from_u64(seed);
        let (server, candidates, actions) = (Server::default(), Vec::new(), Vec::new());
        let mut world = Self { rng, server, candidates, events, actions, now: 0, lives: 0, terms: 0 };
        for (index, rate) in rates.iter().enumerate() {
            let candidate = world.candidate(*rate);
            world.candidates.push(candidate);
            world.events.push(Reverse((0, Event::Wake(index))));
        }
        world
    }

    fn candidate(&mut self, rate: f64) -> Candidate {
        self.lives += 1;
        let base = start();
        let local = base + Duration::from_secs_f64(self.now as f64 / SECOND as f64 * rate);
        let state =
            ElectorState::new(format!("candidate {}", self.lives), ElectionTimes::default(), true, local);
        Candidate { state, rate, base, request: 0, response: None }
    }

    fn local(&self, index: usize) -> Instant {
        let candidate = &self.candidates[index];
        candidate.base + Duration::from_secs_f64(self.now as f64 / SECOND as f64 * candidate.rate)
    }

    /// Returns a random network delay, which is mostly short and sometimes seconds long.
    fn delay(&mut self, calm: bool) -> u64 {
        let slow = !calm && self.rng.random_bool(0.15);
        self.rng.random_range(1_000..if slow { 6 * SECOND } else { SECOND / 20 })
    }

    fn run(&mut self, until: u64, calm: bool) {
        while let Some(Reverse((at, _))) = self.events.peek()
            && *at <= until
        {
            let Some(Reverse((at, event))) = self.events.pop() else { return };
            self.now = self.now.max(at);
            self.step(event, calm);
        }
        self.now = until;
    }

    fn step(&mut self, event: Event, calm: bool) {
        match event {
            Event::Wake(index) => self.settle(index, calm),
            Event::Arrive(index, request, action) => {
                let lost = !calm && self.rng.random_bool(0.1);
                if lost && self.rng.random_bool(0.5) {
                    return;
                }
                let response = self.server.serve(&self.actions[action]);
                if !lost && self.candidates[index].request == request {
                    self.candidates[index].response = Some(response);
                    let delay = self.delay(calm);
                    self.events.push(Reverse((self.now + delay, Event::Return(index, request))));
                }
            }
            Event::Return(index, request) => {
                if self.candidates[index].request == request
                    && let Some(response) = self.candidates[index].response.take()
                {
                    self.respond(index, response);
                }
                self.settle(index, calm);
            }
            Event::Restart(index) => {
                let rate = self.candidates[index].rate;
                self.candidates[index] = self.candidate(rate);
                self.settle(index, calm);
            }
        }
    }

    fn respond(&mut self, index: usize, response: ElectionResponse) {
        let (local, random) = (self.local(index), self.rng.random());
        self.candidates[index].request += 1;
        self.candidates[index].state.handle_response(response, local, random);
    }

    /// Runs one turn of a candidate: advances its state, sends the next request, and checks that at most one
    /// candidate leads.
    fn settle(&mut self, index: usize, calm: bool) {
        let local = self.local(index);
        self.candidates[index].state.tick(local);
        while let Some(notice) = self.candidates[index].state.poll_notice() {
            match notice {
                ElectionNotice::Leading(_) => {
                    self.terms += 1;
                    self.check_single_leader(index);
                }
                ElectionNotice::Lost(_) | ElectionNotice::Stopped => {
                    let later = self.now + self.rng.random_range(0..20 * SECOND);
                    self.candidates[index].request += 1;
                    self.events.push(Reverse((later, Event::Restart(index))));
                    return;
                }
                ElectionNotice::Holder(_) => {}
            }
        }
        if let Some(action) = self.candidates[index].state.poll_action() {
            let delay = self.delay(calm);
            let candidate = &self.candidates[index];
            let request = candidate.request;
            self.events.push(Reverse((self.now + delay, Event::Arrive(index, request, self.actions.len()))));
            self.actions.push(action);
            // The timeout of a request is 5 s, as in `informer-runtime`, by the clock of the candidate.
            let timeout = self.now + (5.0 / candidate.rate * SECOND as f64) as u64;
            self.events.push(Reverse((timeout, Event::Return(index, request))));
            self.candidates[index].response = Some(ElectionResponse::Failed("no response".to_owned()));
        }
        if let Some(deadline) = self.candidates[index].state.next_deadline() {
            let candidate = &self.candidates[index];
            let at = (deadline.saturating_duration_since(candidate.base).as_secs_f64() / candidate.rate
                * SECOND as f64) as u64;
            self.events.push(Reverse((at.max(self.now) + 1, Event::Wake(index))));
        }
    }

    fn check_single_leader(&self, leader: usize) {
        for other in (0..self.candidates.len()).filter(|other| *other != leader) {
            let until = self.candidates[other].state.held_until();
            assert!(
                until.is_none_or(|until| until <= self.local(other)),
                "{leader} leads at {} us while {other} still may",
                self.now
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_two_candidates_lead_at_once_if_clock_rates_differ_by_less_than_a_tenth(
        seed: u64,
        rates in prop::collection::vec(0.955_f64..1.045, 2..4),
    ) {
        let mut world = World::new(seed, &rates);
        world.run(600 * SECOND, false);
        world.run(700 * SECOND, true);
        let leaders = world.candidates.iter().filter(|candidate| candidate.state.leads()).count();
        prop_assert_eq!(leaders, 1, "one leader once the network is stable");
        prop_assert!(world.terms > 0);
    }
}
