use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::ResourceVersion;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Claims, MemberState, Peer, Publication, Record, ShardAction, ShardResponse};
use crate::shard::ShardTimes;
use crate::shard::membership::Membership;

const KEYS: usize = 24;

fn keys() -> Vec<Arc<str>> {
    (0..KEYS).map(|number| format!("default/web-{number}").into()).collect()
}

/// One second in microseconds, the unit of simulated time.
const SECOND: u64 = 1_000_000;

#[derive(Default)]
struct Server {
    leases: BTreeMap<Arc<str>, Record>,
    version: u64,
}

impl Server {
    fn serve(&mut self, sender: &Arc<str>, action: &ShardAction) -> ShardResponse {
        match action {
            ShardAction::List => {
                ShardResponse::Listed(self.version.into(), self.leases.values().cloned().collect())
            }
            ShardAction::Create(_) if self.leases.contains_key(sender) => ShardResponse::Conflict,
            ShardAction::Create(publication) => self.write(sender, publication),
            ShardAction::Update(version, publication) => match self.leases.get(sender) {
                None => ShardResponse::Missing,
                Some(lease) if lease.version != *version => ShardResponse::Conflict,
                Some(_) => self.write(sender, publication),
            },
            ShardAction::Delete(name, version) => match self.leases.get(name) {
                None => ShardResponse::Missing,
                Some(lease) if lease.version != *version => ShardResponse::Conflict,
                Some(_) => {
                    self.version += 1;
                    self.leases.remove(name);
                    ShardResponse::Deleted
                }
            },
        }
    }

    fn write(&mut self, name: &Arc<str>, publication: &Publication) -> ShardResponse {
        self.version += 1;
        let version = ResourceVersion::from(self.version);
        let record = Record {
            name: Arc::clone(name),
            version: version.clone(),
            beat: publication.beat.to_string(),
            duration: Some(ShardTimes::default().lease),
            claims: Claims::Members(publication.membership.clone()),
            left: publication.leaving,
        };
        self.leases.insert(Arc::clone(name), record);
        ShardResponse::Written(version)
    }
}

struct Replica {
    name: Arc<str>,
    state: MemberState,
    /// The rate of the replica's simulated clock in thousandths, since the clocks of replicas may have
    /// different rates.
    rate: u64,
    flight: u64,
    flying: bool,
    /// Running work of the replica: the key, the term in which the work began, and the time at which it ends.
    work: Vec<(Arc<str>, u64, u64)>,
    killed: bool,
    ticks: u64,
}

enum Event {
    Arrive {
        replica: usize,
        flight: u64,
        action: ShardAction,
    },
    Return {
        replica: usize,
        flight: u64,
        response: ShardResponse,
    },
    /// A timer of a replica expires. It is ignored unless it is the timer that the replica requested last.
    Tick {
        replica: usize,
        number: u64,
    },
    Join,
    Stop,
    Kill,
}

/// A simulation of several replicas and one API server, connected by a network that delays and drops
/// messages.
struct World {
    base: Instant,
    now: u64,
    /// The time until which the simulated network delays and drops messages. Later it is reliable, so that
    /// the group settles.
    bad_until: u64,
    rng: StdRng,
    server: Server,
    replicas: Vec<Replica>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: BTreeMap<u64, Event>,
    sequence: u64,
    keys: Vec<Arc<str>>,
    /// For each key, the version of the last fence under which a replica worked on it. A later owner must
    /// have a higher version.
    fences: BTreeMap<Arc<str>, ResourceVersion>,
    most: usize,
}

impl World {
    fn new(seed: u64, bad_until: u64) -> Self {
        Self {
            base: tokio::time::Instant::now().into_std(),
            now: 0,
            bad_until,
            rng: StdRng::seed_from_u64(seed),
            server: Server::default(),
            replicas: Vec::new(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            sequence: 0,
            keys: keys(),
            fences: BTreeMap::new(),
            most: 0,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence)));
        self.bodies.insert(self.sequence, event);
    }

    fn local(&self, replica: usize) -> Instant {
        self.base + Duration::from_micros(self.now * self.replicas[replica].rate / 1000)
    }

    /// Returns the delay of a message between a replica and the server; `None` if the network drops the
    /// message.
    fn delay(&mut self) -> Option<u64> {
        if self.now >= self.bad_until || self.rng.random_bool(0.7) {
            return Some(self.rng.random_range(SECOND / 1000..SECOND / 20));
        }
        self.rng.random_bool(0.6).then(|| self.rng.random_range(0..25 * SECOND))
    }

    fn join(&mut self) {
        let name: Arc<str> = format!("member-{}", self.replicas.len()).into();
        let rate = self.rng.random_range(1000..1099);
        let now = self.base + Duration::from_micros(self.now * rate / 1000);
        let state = MemberState::new(Arc::clone(&name), ShardTimes::default(), now);
        self.replicas.push(Replica {
            name,
            state,
            rate,
            flight: 0,
            flying: false,
            work: vec![],
            killed: false,
            ticks: 0,
        });
        self.drive(self.replicas.len() - 1);
    }

    fn drive(&mut self, index: usize) {
        let now = self.local(index);
        let replica = &mut self.replicas[index];
        if replica.killed {
            return;
        }
        replica.state.tick(now);
        if let Some(action) = replica.state.poll_action() {
            assert!(!std::mem::replace(&mut replica.flying, true), "one request at a time");
            replica.flight += 1;
            let (flight, timeout) = (replica.flight, 3 * SECOND * 1000 / replica.rate);
            if let Some(delay) = self.delay() {
                self.at(self.now + delay, Event::Arrive { replica: index, flight, action });
            }
            self.at(
                self.now + timeout,
                Event::Return { replica: index, flight, response: ShardResponse::Failed },
            );
        }
        let replica = &self.replicas[index];
        if let Some(deadline) = replica.state.next_deadline() {
            let wait = u64::try_from(deadline.saturating_duration_since(now).as_micros()).unwrap();
            // The timer sometimes expires late, like that of a task which the runtime polls late.
            let late = if self.rng.random_bool(0.1) { self.rng.random_range(0..SECOND) } else { 0 };
            let replica = &mut self.replicas[index];
            replica.ticks += 1;
            let (rate, number) = (replica.rate, replica.ticks);
            self.at(self.now + wait * 1000 / rate + 1 + late, Event::Tick { replica: index, number });
        }
    }

    fn handle(&mut self, event: Event) {
        let candidates = |world: &Self| -> Vec<usize> {
            (0..world.replicas.len()).filter(|&index| !world.replicas[index].killed).collect()
        };
        match event {
            Event::Arrive { replica, flight, action } => {
                let sender = Arc::clone(&self.replicas[replica].name);
                let response = self.server.serve(&sender, &action);
                if let Some(delay) = self.delay() {
                    self.at(self.now + delay, Event::Return { replica, flight, response });
                }
            }
            Event::Return { replica: index, flight, response } => {
                let now = self.local(index);
                let replica = &mut self.replicas[index];
                if replica.flight == flight
                    && std::mem::replace(&mut replica.flying, false)
                    && !replica.killed
                {
                    replica.state.handle_response(response, now);
                    self.drive(index);
                }
            }
            Event::Tick { replica, number } if self.replicas[replica].ticks == number => self.drive(replica),
            Event::Tick { .. } => {}
            Event::Join => self.join(),
            Event::Stop | Event::Kill => {
                let alive = candidates(self);
                if alive.len() < 2 {
                    return;
                }
                let index = alive[self.rng.random_range(0..alive.len())];
                if matches!(event, Event::Kill) {
                    self.replicas[index].killed = true;
                } else {
                    let now = self.local(index);
                    self.replicas[index].state.stop(now);
                    self.drive(index);
                }
            }
        }
    }

    fn work(&mut self) {
        for index in 0..self.replicas.len() {
            let (now, key) = (self.local(index), Arc::clone(&self.keys[self.rng.random_range(0..KEYS)]));
            let ends = self.now + self.rng.random_range(0..10 * SECOND);
            let replica = &mut self.replicas[index];
            if replica.killed {
                continue;
            }
            let real = self.now;
            let over: Vec<_> = replica.work.extract_if(.., |(_, _, ends)| *ends <= real).collect();
            let wake = over.iter().fold(false, |wake, (key, term, _)| replica.state.exit(key, *term) || wake);
            if let Ok(term) = replica.state.enter(&key, now) {
                replica.work.push((key, term, ends));
            }
            if wake {
                self.drive(index);
            }
        }
    }

    /// Returns the replicas that work on a key, or are allowed to work on it, with the versions of their
    /// fences. The test asserts that there is at most one.
    fn owners(&mut self, key: &Arc<str>) -> Vec<(usize, ResourceVersion)> {
        let mut owners = Vec::new();
        for index in 0..self.replicas.len() {
            let now = self.local(index);
            let replica = &mut self.replicas[index];
            if replica.killed {
                continue;
            }
            let mut acts = replica.state.check(key, now).ok();
            for (worked, term, _) in &replica.work {
                if worked == key {
                    acts = acts.or(replica.state.recheck(key, *term, now).ok());
                }
            }
            owners.extend(acts.map(|fence| (index, fence.version)));
        }
        owners
    }

    fn check(&mut self) {
        for key in self.keys.clone() {
            let owners = self.owners(&key);
            assert!(owners.len() <= 1, "{key} is owned by {owners:?} at {} us", self.now);
            let Some((_, fence)) = owners.into_iter().next() else { continue };
            if let Some(before) = self.fences.insert(key, fence.clone()) {
                assert!(!fence.is_older_than(&before), "fences grow: {fence} after {before}");
            }
        }
    }

    fn run_until(&mut self, end: u64) {
        while let Some(&Reverse((time, sequence))) = self.events.peek() {
            if time > end {
                break;
            }
            self.events.pop();
            self.now = self.now.max(time);
            let event = self.bodies.remove(&sequence).expect("each event has a body");
            self.handle(event);
            if self.rng.random_bool(0.5) {
                self.check();
            }
            if self.rng.random_bool(0.3) {
                self.work();
            }
            self.most = self.most.max(self.server.leases.len());
        }
        self.now = end;
        self.check();
    }

    fn owned(&mut self) -> Vec<Option<usize>> {
        let keys = self.keys.clone();
        keys.iter().map(|key| self.owners(key).first().map(|(index, _)| *index)).collect()
    }
}

fn seconds(seconds: u64) -> u64 {
    seconds * SECOND
}

#[test]
fn single_replica_owns_every_key() {
    let mut world = World::new(1, 0);
    world.join();
    world.run_until(seconds(1));
    assert_eq!(world.owned(), vec![Some(0); KEYS]);
}

#[test]
fn share_of_keys_moves_to_joining_replica_and_back_when_it_leaves() {
    let mut world = World::new(2, 0);
    for _ in 0..4 {
        world.join();
    }
    world.run_until(seconds(30));
    let before = world.owned();
    assert!(before.iter().all(Option::is_some));
    world.join();
    world.run_until(seconds(60));
    let joined = world.owned();
    let moved = before.iter().zip(&joined).filter(|(before, after)| before != after).count();
    assert!(moved > 0 && moved <= KEYS / 5 * 2, "{moved} of {KEYS}");
    assert!(before.iter().zip(&joined).all(|(before, after)| before == after || *after == Some(4)));
    let now = world.local(4);
    world.replicas[4].state.stop(now);
    world.drive(4);
    world.run_until(seconds(90));
    assert_eq!(world.owned(), before);
    assert!(world.replicas[4].state.is_gone());
    assert_eq!(world.server.leases.len(), 4, "its Lease is deleted");
}

#[test]
fn keys_of_killed_replica_move_after_lease_expires_and_lease_is_deleted_later() {
    let mut world = World::new(3, 0);
    (0..3).for_each(|_| world.join());
    world.run_until(seconds(30));
    let before = world.owned();
    world.replicas[0].killed = true;
    world.run_until(seconds(40));
    let owners = world.owned();
    let kept = |(before, after): (&Option<usize>, &Option<usize>)| match before {
        Some(0) => after.is_none(),
        _ => before == after,
    };
    assert!(before.iter().zip(&owners).all(kept), "no key moves earlier");
    world.run_until(seconds(30 + 15 + 3));
    assert!(world.owned().iter().all(|owner| owner.is_some_and(|owner| owner != 0)));
    world.run_until(seconds(120));
    assert_eq!(world.server.leases.len(), 2);
}

#[test]
fn key_does_not_move_while_another_replica_works_on_it() {
    let mut world = World::new(4, 0);
    world.join();
    world.run_until(seconds(5));
    let now = world.local(0);
    let keys = world.keys.clone();
    let terms: Vec<u64> =
        keys.iter().map(|key| world.replicas[0].state.enter(key, now).expect("it owns all keys")).collect();
    let work = keys.iter().zip(terms).map(|(key, term)| (Arc::clone(key), term, seconds(60)));
    world.replicas[0].work.extend(work);
    world.join();
    world.run_until(seconds(55));
    let now = world.local(1);
    assert!(keys.iter().all(|key| world.replicas[1].state.check(key, now).is_err()));
    world.run_until(seconds(75));
    assert!(world.owned().contains(&Some(1)));
}

#[test]
fn unreadable_claims_block_all_keys_until_lease_expires() {
    let mut world = World::new(5, 0);
    let record = Record {
        name: "newer".into(),
        version: ResourceVersion::from(1_u64),
        beat: String::new(),
        duration: None,
        claims: Claims::Unreadable,
        left: false,
    };
    world.server.leases.insert("newer".into(), record);
    world.join();
    world.run_until(seconds(13));
    assert!(world.owned().iter().all(Option::is_none));
    world.run_until(seconds(18));
    assert!(world.owned().iter().all(Option::is_some));
}

#[test]
fn list_requested_before_lease_expired_does_not_mark_peer_dead() {
    let (start, lease) = (tokio::time::Instant::now().into_std(), Duration::from_secs(15));
    let record = Record {
        name: "other".into(),
        version: ResourceVersion::from(1_u64),
        beat: "1".to_owned(),
        duration: Some(lease),
        claims: Claims::Members(Membership::new(["other".into()])),
        left: false,
    };
    let peer = Peer::new(record.clone(), lease, start);
    let (before, after) = (start + lease - Duration::from_millis(1), start + lease);
    let peer = peer.observe(record.clone(), before, after + lease);
    assert!(peer.claims().is_some(), "the Lease may have been renewed after the list");
    assert!(peer.observe(record, after, after + lease).claims().is_none());
}

#[test]
fn failed_write_is_followed_by_a_list_after_half_a_retry_period() {
    let (start, times) = (tokio::time::Instant::now().into_std(), ShardTimes::default());
    let due = start + times.retry / 2;
    let mut member = MemberState::new("member".into(), times, start);
    member.tick(start);
    assert!(matches!(member.poll_action(), Some(ShardAction::Create(_))));
    member.handle_response(ShardResponse::Failed, start);
    assert_eq!(member.next_deadline(), Some(due));
    member.tick(due - Duration::from_millis(1));
    assert_eq!(member.poll_action(), None);
    member.tick(due);
    assert_eq!(member.poll_action(), Some(ShardAction::List));
}

#[test]
fn replica_that_cannot_renew_stops_before_others_take_its_keys() {
    let mut world = World::new(6, 0);
    world.join();
    world.run_until(seconds(5));
    world.server.leases.clear();
    world.run_until(seconds(8));
    assert!(world.owned().iter().all(Option::is_some), "it created another Lease");
    assert!(world.replicas[0].state.view().is_active());
}

#[test]
fn only_the_share_of_a_new_member_moves_and_shares_are_even() {
    let names: Vec<Arc<str>> = (0..10).map(|number| format!("replica-{number}").into()).collect();
    let (nine, ten) = (Membership::new(names[..9].iter().cloned()), Membership::new(names.clone()));
    let mut shares = BTreeMap::<_, u32>::new();
    for key in (0..10_000).map(|number| format!("namespace-{}/name-{number}", number % 7)) {
        let (before, after) = (nine.assignee(&key).unwrap(), ten.assignee(&key).unwrap());
        assert!(before == after || *after == names[9]);
        *shares.entry(Arc::clone(after)).or_default() += 1;
    }
    assert!(shares.len() == 10 && shares.values().all(|share| (880..=1120).contains(share)), "{shares:?}");
}

#[test]
fn hash_is_stable_and_as_documented() {
    let membership = Membership::new(["a", "b", "c"].map(Arc::from));
    let owners: String =
        (0..24).map(|number| &**membership.assignee(&format!("default/web-{number}")).unwrap()).collect();
    assert_eq!(owners, "cabcbababacccabcccbbcbba");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_two_replicas_act_on_a_key_and_eventually_each_has_one_owner(seed: u64, first in 1_usize..5) {
        let mut world = World::new(seed, seconds(240));
        (0..first).for_each(|_| world.join());
        for _ in 0..world.rng.random_range(0..8) {
            let time = world.rng.random_range(0..seconds(240));
            let event = match world.rng.random_range(0..3) {
                0 => Event::Stop,
                1 => Event::Kill,
                _ => Event::Join,
            };
            world.at(time, event);
        }
        world.run_until(seconds(240));
        world.at(seconds(240), Event::Join);
        world.run_until(seconds(360));
        let owners = world.owned();
        prop_assert!(owners.iter().all(Option::is_some), "{owners:?}");
    }
}
