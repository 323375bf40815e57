use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;

mod model;

type State = BodiesState<&'static str, &'static str>;

const LEASE: Duration = Duration::from_secs(600);

fn config() -> BodiesConfig {
    BodiesConfig {
        max_fetches: 2,
        lease: LEASE,
        max_leases: 2,
        backoff: (Duration::from_secs(1), Duration::from_secs(8)),
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name).unwrap()
}

fn version(uid: &str, version: u64) -> Version {
    Version { uid: uid.into(), version: version.into() }
}

fn seen(uid: &str, number: u64) -> Observation {
    Observation { seen: Some(version(uid, number)), epoch: 0 }
}

fn absent() -> Observation {
    Observation { seen: None, epoch: 0 }
}

/// A state with the current time and a random number generator.
struct World {
    state: State,
    now: Instant,
    rng: SmallRng,
}

impl World {
    fn new(config: BodiesConfig) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "an arbitrary start; the test never reads the clock again"
        )]
        let now = Instant::now();
        Self { state: State::new(config), now, rng: SmallRng::seed_from_u64(7) }
    }

    fn start(&mut self, name: &str) -> FetchStart {
        let start = self.state.next_fetch().expect("a fetch is queued");
        assert_eq!(start.key, key(name));
        start
    }

    fn finish(&mut self, start: &FetchStart, result: FetchResult<&'static str, &'static str>) {
        self.state.finished(start, result, self.now, &mut self.rng);
        self.state.assert_invariants();
    }

    fn read(&mut self, name: &str, observation: Observation) -> u64 {
        self.state.begin_read(&key(name), observation, self.now)
    }

    fn poll(&self, name: &str, wanted: u64) -> ReadProgress<&'static str, &'static str> {
        self.state.poll_read(&key(name), wanted)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.state.tick(self.now);
        self.state.assert_invariants();
    }
}

#[test]
fn body_is_fetched_for_the_first_reference_and_dropped_with_the_last() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    world.state.add_reference(&key("a"), seen("u", 5));
    let start = world.start("a");
    assert!(world.state.next_fetch().is_none(), "one fetch serves both references");
    world.finish(&start, FetchResult::Found(version("u", 5), "five"));
    assert_eq!(world.state.held("default/a"), Some("five"));
    world.state.remove_reference(&key("a"));
    assert_eq!(world.state.held("default/a"), Some("five"));
    world.state.remove_reference(&key("a"));
    assert!(world.state.entries.is_empty());
}

#[test]
fn body_that_was_read_ahead_of_the_metadata_is_not_fetched_again() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("u", 7), "seven"));
    world.state.observe(&key("a"), seen("u", 6));
    world.state.observe(&key("a"), seen("u", 7));
    assert!(world.state.next_fetch().is_none());
    world.state.observe(&key("a"), seen("u", 8));
    world.start("a");
}

#[test]
fn fetch_that_a_change_overtakes_is_repeated() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    let start = world.start("a");
    let before = world.read("a", seen("u", 5));
    let after = world.read("a", seen("u", 6));
    world.finish(&start, FetchResult::Found(version("u", 5), "five"));
    assert_eq!(world.poll("a", before), ReadProgress::Done(Some("five")));
    assert_eq!(world.poll("a", after), ReadProgress::Pending, "the read began after the change");
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("u", 6), "six"));
    assert_eq!(world.poll("a", after), ReadProgress::Done(Some("six")));
}

#[test]
fn deletion_discards_the_body_and_a_late_result() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    let start = world.start("a");
    let wanted = world.read("a", seen("u", 5));
    world.state.observe(&key("a"), absent());
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(None));
    world.finish(&start, FetchResult::Found(version("u", 5), "five"));
    assert_eq!(world.state.held("default/a"), None);
    assert!(world.state.next_fetch().is_none(), "an object that does not exist is not requested");
}

#[test]
fn recreated_object_never_shows_the_body_of_the_deleted_one() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("old", 5));
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("old", 5), "old"));
    world.state.observe(&key("a"), seen("new", 9));
    assert_eq!(world.state.held("default/a"), None);
    let wanted = world.read("a", seen("new", 9));
    assert_eq!(world.poll("a", wanted), ReadProgress::Pending);
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("new", 9), "new"));
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(Some("new")));
}

#[test]
fn read_waits_for_the_successor_of_an_object_whose_body_was_dropped() {
    let mut world = World::new(config());
    let wanted = world.read("a", seen("u", 5));
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("u", 5), "five"));
    world.state.observe(&key("a"), Observation { epoch: 1, ..seen("v", 5) });
    assert_eq!(world.poll("a", wanted), ReadProgress::Pending, "there was an object at all times");
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("v", 5), "successor"));
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(Some("successor")));
}

#[test]
fn object_deleted_before_its_deletion_is_seen_reads_as_missing_and_is_checked_again() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    let wanted = world.read("a", seen("u", 5));
    let start = world.start("a");
    world.finish(&start, FetchResult::Missing);
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(None));
    assert!(world.state.next_fetch().is_none(), "the next attempt waits");
    world.pass(Duration::from_secs(2));
    let start = world.start("a");
    world.finish(&start, FetchResult::Missing);
    world.state.observe(&key("a"), seen("new", 9));
    world.start("a");
}

#[test]
fn failure_fails_reads_and_is_retried_with_growing_waits() {
    let mut world = World::new(config());
    world.state.add_reference(&key("a"), seen("u", 5));
    let wanted = world.read("a", seen("u", 5));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let start = world.start("a");
        world.finish(&start, FetchResult::Failed("forbidden", None));
        let ReadProgress::Failed("forbidden", until) = world.poll("a", wanted) else { panic!() };
        world.state.observe(&key("a"), seen("u", 5 + waits.len() as u64));
        assert!(world.state.next_fetch().is_none(), "a change does not end the wait");
        waits.push(until - world.now);
        world.pass(until - world.now);
    }
    assert!(waits[0] >= Duration::from_secs(1) && waits[0] < Duration::from_secs(2), "{waits:?}");
    assert!(waits[5] >= Duration::from_secs(8) && waits[5] < Duration::from_secs(16), "{waits:?}");
    let start = world.start("a");
    world.finish(&start, FetchResult::Failed("slow down", Some(Duration::from_secs(60))));
    assert_eq!(world.state.next_deadline(), Some(world.now + Duration::from_secs(60)));
}

#[test]
fn body_of_a_read_object_is_held_for_the_lease_and_fetched_again_only_by_a_read() {
    let mut world = World::new(config());
    let wanted = world.read("a", seen("u", 5));
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("u", 5), "five"));
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(Some("five")));
    world.state.end_read(&key("a"));
    world.state.observe(&key("a"), seen("u", 6));
    assert!(world.state.next_fetch().is_none(), "it is not read");
    world.pass(LEASE - Duration::from_secs(1));
    let wanted = world.read("a", seen("u", 6));
    let start = world.start("a");
    world.finish(&start, FetchResult::Found(version("u", 6), "six"));
    assert_eq!(world.poll("a", wanted), ReadProgress::Done(Some("six")));
    world.state.end_read(&key("a"));
    world.pass(LEASE - Duration::from_secs(1));
    assert_eq!(world.state.held("default/a"), Some("six"), "the read has renewed the lease");
    world.pass(Duration::from_secs(1));
    assert!(world.state.entries.is_empty());
}

#[test]
fn more_leases_than_allowed_end_the_oldest() {
    let mut world = World::new(config());
    for name in ["a", "b", "c"] {
        world.read(name, absent());
        world.state.end_read(&key(name));
        world.pass(Duration::from_secs(1));
    }
    assert!(!world.state.contains("default/a") && world.state.contains("default/c"));
    assert_eq!(world.state.counts().leased, 2);
}

#[test]
fn reads_are_served_before_references() {
    let mut world = World::new(config());
    for name in ["a", "b", "c"] {
        world.state.add_reference(&key(name), seen("u", 5));
    }
    world.read("c", seen("u", 5));
    world.start("c");
    world.start("a");
    assert!(world.state.next_fetch().is_none(), "two fetches at once");
}

#[test]
fn restored_server_makes_all_bodies_outdated() {
    let mut world = World::new(config());
    for name in ["a", "b"] {
        world.state.add_reference(&key(name), seen("u", 5));
        let start = world.start(name);
        world.finish(&start, FetchResult::Found(version("u", 7), "lost"));
    }
    // After the restore, version 6 is another state than the one before.
    world.state.observe(&key("a"), Observation { seen: Some(version("u", 6)), epoch: 1 });
    let starts = [world.state.next_fetch().unwrap(), world.state.next_fetch().unwrap()];
    for start in &starts {
        world.finish(start, FetchResult::Found(version("u", 6), "restored"));
    }
    assert_eq!(world.state.held("default/b"), Some("restored"));
}

impl<B, E> BodiesState<B, E> {
    /// Checks the invariants of the module.
    pub(super) fn assert_invariants(&self) {
        let (mut queued, mut waiting, mut leased) = (0, 0, 0);
        for (key, entry) in &self.entries {
            assert!(
                entry.references + entry.readers > 0 || entry.leased_until.is_some(),
                "{key} is not wanted"
            );
            assert!(entry.reflected <= entry.observed, "{key} reflects the future");
            assert!(entry.seen.is_some() || entry.body.is_none(), "{key} is deleted and has a body");
            match &entry.activity {
                Activity::Queued(place) => {
                    queued += 1;
                    assert_eq!(self.queue.get(place), Some(key));
                    assert!(entry.reflected < entry.observed, "{key} is current and queued");
                }
                Activity::Waiting { until, .. } => {
                    waiting += 1;
                    assert!(self.retries.contains(&(*until, key.clone())));
                }
                Activity::Idle => {
                    let is_outdated = entry.reflected < entry.observed;
                    assert!(!is_outdated || entry.references + entry.readers == 0, "{key} is forgotten");
                }
                Activity::InFlight { .. } => {}
            }
            if let Some(until) = entry.leased_until {
                leased += 1;
                assert!(self.leases.contains(&(until, key.clone())));
            }
        }
        assert_eq!((queued, waiting, leased), (self.queue.len(), self.retries.len(), self.leases.len()));
        assert!(self.in_flight <= self.config.max_fetches && self.leases.len() <= self.config.max_leases);
    }
}
