use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Action, Answer, ElectorState, LeaseRecord, LeaseWrite, Notice};
use crate::election::ElectionTimes;

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A server with one Lease.
#[derive(Default)]
struct Server {
    lease: Option<LeaseRecord>,
    version: u64,
    writes: u64,
}

impl Server {
    fn serve(&mut self, action: &Action) -> Answer {
        match (action, &self.lease) {
            (Action::Get, Some(lease)) => Answer::Seen(lease.clone(), ResourceVersion::from(self.version)),
            (Action::Get | Action::Update(..), None) => Answer::Missing,
            (Action::Create(_), Some(_)) => Answer::Conflict,
            (Action::Update(version, _), _) if *version != ResourceVersion::from(self.version) => {
                Answer::Conflict
            }
            (Action::Create(write) | Action::Update(_, write), _) => self.write(write),
        }
    }

    fn write(&mut self, write: &LeaseWrite) -> Answer {
        self.writes += 1;
        self.version += 1;
        let now = Some(format!("at {}", self.writes));
        let lease = LeaseRecord {
            holder: write.holder.clone(),
            duration: u32::try_from(write.duration.as_secs()).ok(),
            transitions: write.transitions,
            acquired: write.acquired.clone().or_else(|| now.clone()),
            renewed: now,
        };
        self.lease = Some(lease.clone());
        Answer::Seen(lease, ResourceVersion::from(self.version))
    }

    fn held_by(holder: &str) -> Self {
        let lease = LeaseRecord { holder: holder.to_owned(), duration: Some(15), ..LeaseRecord::default() };
        Self { lease: Some(lease), version: 1, writes: 0 }
    }
}

/// One candidate and a clock of its own.
struct One {
    state: ElectorState,
    now: Instant,
}

impl One {
    fn new(identity: &str) -> Self {
        let now = start();
        Self { state: ElectorState::new(identity.to_owned(), ElectionTimes::default(), true, now), now }
    }

    /// The next request, after as long as it takes.
    fn action(&mut self) -> Action {
        loop {
            self.state.tick(self.now);
            if let Some(action) = self.state.poll_action() {
                return action;
            }
            self.now = self.now.max(self.state.next_deadline().expect("it goes on"));
        }
    }

    fn exchange(&mut self, server: &mut Server) -> Action {
        let action = self.action();
        self.state.answer(server.serve(&action), self.now, 0.0);
        action
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.state.poll_notice()).collect()
    }
}

/// The verbs of the requests until the candidate leads.
fn verbs_until_it_leads(one: &mut One, server: &mut Server) -> Vec<&'static str> {
    let mut verbs = Vec::new();
    while !one.state.leads() {
        verbs.push(match one.exchange(server) {
            Action::Get => "get",
            Action::Create(_) => "create",
            Action::Update(..) => "update",
        });
    }
    verbs
}

#[test]
fn a_lease_that_is_not_there_is_created() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    assert_eq!(verbs_until_it_leads(&mut one, &mut server), ["get", "create"]);
    assert_eq!(server.lease.as_ref().map(|lease| lease.transitions), Some(0));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once_and_counts_a_transition() {
    let (mut one, mut server) = (One::new("a"), Server::held_by(""));
    assert_eq!(verbs_until_it_leads(&mut one, &mut server), ["get", "update"]);
    assert_eq!(server.lease.as_ref().map(|lease| lease.transitions), Some(1));
}

#[test]
fn a_lease_is_taken_when_it_was_seen_unchanged_for_its_duration() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    let begun = one.now;
    let verbs = verbs_until_it_leads(&mut one, &mut server);
    assert_eq!(one.now - begun, seconds(15.0), "not when the record's times say so");
    assert_eq!(verbs.last(), Some(&"update"));
}

#[test]
fn a_lease_that_is_renewed_is_not_taken() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    for renewal in 0..100 {
        one.exchange(&mut server);
        let lease = server.lease.as_mut().expect("it is there");
        lease.renewed = Some(format!("renewal {renewal}"));
        server.version += 1;
    }
    assert!(!one.state.leads());
}

#[test]
fn a_change_of_something_else_renews_nothing() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    let begun = one.now;
    while !one.state.leads() {
        let action = one.action();
        server.version += u64::from(action == Action::Get);
        one.state.answer(server.serve(&action), one.now, 0.0);
    }
    assert_eq!(one.now - begun, seconds(15.0));
}

#[test]
fn a_lease_with_garbage_in_it_is_taken_after_ones_own_duration() {
    for duration in [None, Some(0)] {
        let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
        server.lease.as_mut().expect("it is there").duration = duration;
        let begun = one.now;
        verbs_until_it_leads(&mut one, &mut server);
        assert_eq!(one.now - begun, seconds(15.0));
    }
}

#[test]
fn a_leader_renews_without_a_look_and_looks_when_that_fails() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    let renewed = one.now;
    assert!(matches!(one.exchange(&mut server), Action::Update(..)));
    assert_eq!(one.now - renewed, seconds(2.0));
    server.version += 1; // Somebody has changed its labels.
    assert!(matches!(one.exchange(&mut server), Action::Update(..)));
    assert!(matches!(one.exchange(&mut server), Action::Get));
    assert!(matches!(one.exchange(&mut server), Action::Update(..)));
    assert_eq!(one.now - renewed, seconds(4.0), "all that in one attempt");
    assert!(one.state.leads());
}

#[test]
fn a_leader_whose_lease_is_deleted_makes_a_new_one() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    server.lease = None;
    while server.lease.is_none() {
        one.exchange(&mut server);
    }
    assert!(one.state.leads());
}

#[test]
fn a_leader_that_finds_no_holder_leads_on_and_counts_a_transition() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    let lease = server.lease.as_mut().expect("it leads");
    (lease.holder, lease.transitions) = (String::new(), 4);
    server.version += 1; // Somebody has emptied it, or has given back what he held.
    assert!(matches!(one.exchange(&mut server), Action::Update(..)));
    assert!(matches!(one.exchange(&mut server), Action::Get));
    let Action::Update(_, write) = one.exchange(&mut server) else { panic!("it takes what nobody holds") };
    assert_eq!((write.holder.as_str(), write.transitions, write.acquired), ("a", 5, None));
    let Action::Update(_, write) = one.exchange(&mut server) else { panic!("it renews") };
    assert_eq!(write.transitions, 5, "once");
    assert!(one.state.leads());
}

#[test]
fn a_leader_that_found_no_holder_and_is_stopped_gives_back_only_what_it_holds() {
    for done in [true, false] {
        let (mut one, mut server) = (One::new("a"), Server::default());
        verbs_until_it_leads(&mut one, &mut server);
        server.lease.as_mut().expect("it leads").holder = String::new();
        server.version += 1;
        one.exchange(&mut server);
        one.exchange(&mut server);
        let write = one.action();
        if done {
            server.serve(&write);
        }
        one.state.answer(Answer::Failed("no answer".to_owned()), one.now, 0.0);
        one.state.stop(one.now);
        assert!(matches!(one.exchange(&mut server), Action::Get));
        if done {
            one.exchange(&mut server);
        }
        assert_eq!(one.notices().pop(), Some(Notice::Stopped));
        assert_eq!(server.lease.expect("it is there").holder, "");
        assert_eq!(server.version, if done { 4 } else { 2 });
    }
}

#[test]
fn a_standby_that_knows_the_holder_of_a_deleted_lease_waits_as_long_as_that_may_lead() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    let begun = one.now;
    one.exchange(&mut server);
    server.lease = None;
    while server.lease.is_none() {
        one.exchange(&mut server);
    }
    assert_eq!(one.now - begun, seconds(15.0));
}

#[test]
fn a_leader_that_sees_another_holder_stops_at_once() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    server.lease.as_mut().expect("it is there").holder = "b".to_owned();
    server.version += 1;
    let renewed = one.now;
    one.exchange(&mut server);
    one.exchange(&mut server);
    let Some(Notice::Lost(lost)) = one.notices().pop() else { panic!("it is lost") };
    assert_eq!(lost.to_string(), "the lease is lost: b holds it");
    assert_eq!(one.now - renewed, seconds(2.0), "not at the renew deadline");
}

#[test]
fn a_leader_that_cannot_renew_gives_up_while_its_lease_still_holds() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    let renewed = one.now;
    while one.state.leads() {
        if one.state.poll_action().is_some() {
            one.state.answer(Answer::Failed("the server said 500".to_owned()), one.now, 0.0);
        } else {
            one.now = one.state.next_deadline().expect("it goes on").max(one.now);
            one.state.tick(one.now);
        }
    }
    assert_eq!(one.now - renewed, seconds(12.0), "the retry period, and the renew deadline");
    let Some(Notice::Lost(lost)) = one.notices().pop() else { panic!("it is lost") };
    assert_eq!(lost.time_left(), seconds(1.5));
    assert_eq!(lost.to_string(), "the lease is lost: it could not be renewed in time (the server said 500)");
}

#[test]
fn a_slow_answer_does_not_make_the_lease_longer() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    let action = one.action();
    one.state.answer(server.serve(&action), one.now, 0.0);
    let action = one.action();
    let (answer, sent) = (server.serve(&action), one.now);
    one.now += seconds(4.9);
    one.state.answer(answer, one.now, 0.0);
    assert_eq!(one.state.held_until(), Some(sent + seconds(13.5)), "counted from the request");
}

#[test]
fn a_process_that_stood_still_while_it_took_the_lease_does_not_lead_when_the_lease_has_passed() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    one.exchange(&mut server);
    let create = one.action();
    let answer = server.serve(&create);
    one.now += seconds(12.0);
    one.state.answer(answer, one.now, 0.0);
    assert!(!one.state.leads());
    assert!(!one.notices().iter().any(|notice| matches!(notice, Notice::Leading(_))));
    assert_eq!(verbs_until_it_leads(&mut one, &mut server), ["get", "update"], "it is still the holder");
}

#[test]
fn a_leader_that_is_stopped_names_no_holder_and_tries_again_on_a_conflict() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    verbs_until_it_leads(&mut one, &mut server);
    server.version += 1;
    one.state.stop(one.now);
    let verbs: Vec<Action> = (0..3).map(|_| one.exchange(&mut server)).collect();
    assert!(matches!(verbs[..], [Action::Update(..), Action::Get, Action::Update(..)]), "{verbs:?}");
    assert_eq!(one.notices().pop(), Some(Notice::Stopped));
    let lease = server.lease.expect("it stays");
    assert_eq!((lease.holder.as_str(), lease.duration), ("", Some(1)));
}

#[test]
fn a_candidate_that_is_stopped_while_it_takes_the_lease_gives_it_back() {
    let (mut one, mut server) = (One::new("a"), Server::default());
    one.exchange(&mut server);
    let create = one.action();
    one.state.stop(one.now);
    one.state.answer(server.serve(&create), one.now, 0.0);
    one.exchange(&mut server);
    assert_eq!(one.notices().pop(), Some(Notice::Stopped));
    assert_eq!(server.lease.expect("it stays").holder, "");
}

#[test]
fn a_stop_without_an_answer_ends_at_the_renew_deadline() {
    let mut one = One::new("a");
    let mut server = Server::default();
    verbs_until_it_leads(&mut one, &mut server);
    one.state.stop(one.now);
    let begun = one.now;
    one.action();
    one.now = one.state.next_deadline().expect("a deadline");
    one.state.tick(one.now);
    assert_eq!((one.now - begun, one.notices().pop()), (seconds(10.0), Some(Notice::Stopped)));
}

#[test]
fn stopped_standby_writes_nothing_and_reports_it_once() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    one.exchange(&mut server);
    one.state.stop(one.now);
    assert_eq!(one.notices().last(), Some(&Notice::Stopped));
    one.state.stop(one.now);
    one.state.tick(one.now + seconds(3600.0));
    assert!(one.notices().is_empty() && one.state.poll_action().is_none());
    assert_eq!((one.state.next_deadline(), server.writes), (None, 0));
}

#[test]
fn a_hint_is_followed_at_once_but_not_by_a_storm() {
    let (mut one, mut server) = (One::new("a"), Server::held_by("b"));
    one.exchange(&mut server);
    let looked = one.now;
    for _ in 0..100 {
        one.state.hint(one.now);
    }
    one.exchange(&mut server);
    assert_eq!(one.now - looked, super::HINT_GAP);
}

/// Something on its way, at a true time in microseconds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    /// Of a candidate, its request, and which action that is: it may arrive long after the candidate has given it up.
    Arrive(usize, u64, usize),
    Return(usize, u64),
    Restart(usize),
}

/// A candidate with a clock that runs at its own rate.
struct Candidate {
    state: ElectorState,
    rate: f64,
    base: Instant,
    request: u64,
    answer: Option<Answer>,
}

/// Candidates, a server, and a network that delays and loses.
struct World {
    rng: StdRng,
    server: Server,
    candidates: Vec<Candidate>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    actions: Vec<Action>,
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
        Candidate { state, rate, base, request: 0, answer: None }
    }

    fn local(&self, index: usize) -> Instant {
        let candidate = &self.candidates[index];
        candidate.base + Duration::from_secs_f64(self.now as f64 / SECOND as f64 * candidate.rate)
    }

    /// A delay of the network: mostly short, at times seconds.
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
                let answer = self.server.serve(&self.actions[action]);
                if !lost && self.candidates[index].request == request {
                    self.candidates[index].answer = Some(answer);
                    let delay = self.delay(calm);
                    self.events.push(Reverse((self.now + delay, Event::Return(index, request))));
                }
            }
            Event::Return(index, request) => {
                if self.candidates[index].request == request
                    && let Some(answer) = self.candidates[index].answer.take()
                {
                    self.answered(index, answer);
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

    fn answered(&mut self, index: usize, answer: Answer) {
        let (local, random) = (self.local(index), self.rng.random());
        self.candidates[index].request += 1;
        self.candidates[index].state.answer(answer, local, random);
    }

    /// Lets a candidate do what it has to, and checks that it is alone.
    fn settle(&mut self, index: usize, calm: bool) {
        let local = self.local(index);
        self.candidates[index].state.tick(local);
        while let Some(notice) = self.candidates[index].state.poll_notice() {
            match notice {
                Notice::Leading(_) => {
                    self.terms += 1;
                    self.check_alone(index);
                }
                Notice::Lost(_) | Notice::Stopped => {
                    let later = self.now + self.rng.random_range(0..20 * SECOND);
                    self.candidates[index].request += 1;
                    self.events.push(Reverse((later, Event::Restart(index))));
                    return;
                }
                Notice::Holder(_) => {}
            }
        }
        if let Some(action) = self.candidates[index].state.poll_action() {
            let delay = self.delay(calm);
            let candidate = &self.candidates[index];
            let request = candidate.request;
            self.events.push(Reverse((self.now + delay, Event::Arrive(index, request, self.actions.len()))));
            self.actions.push(action);
            // The driver's deadline for a request, as it is by default.
            let timeout = self.now + (5.0 / candidate.rate * SECOND as f64) as u64;
            self.events.push(Reverse((timeout, Event::Return(index, request))));
            self.candidates[index].answer = Some(Answer::Failed("no answer".to_owned()));
        }
        if let Some(deadline) = self.candidates[index].state.next_deadline() {
            let candidate = &self.candidates[index];
            let at = (deadline.saturating_duration_since(candidate.base).as_secs_f64() / candidate.rate
                * SECOND as f64) as u64;
            self.events.push(Reverse((at.max(self.now) + 1, Event::Wake(index))));
        }
    }

    fn check_alone(&self, leader: usize) {
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
    fn no_two_candidates_lead_at_a_time_while_their_clocks_differ_by_less_than_a_tenth(
        seed: u64,
        rates in prop::collection::vec(0.955_f64..1.045, 2..4),
    ) {
        let mut world = World::new(seed, &rates);
        world.run(600 * SECOND, false);
        world.run(700 * SECOND, true);
        let leaders = world.candidates.iter().filter(|candidate| candidate.state.leads()).count();
        prop_assert_eq!(leaders, 1, "somebody leads once all is calm");
        prop_assert!(world.terms > 0);
    }
}
