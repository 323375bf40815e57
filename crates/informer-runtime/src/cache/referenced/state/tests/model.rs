//! Tests the state against a model that remembers every state of the server. The metadata lags behind the
//! server, fetches are slow, fail or find nothing, and the server is restored to older states.

use std::collections::BTreeMap;

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A state of one object on the server. `content` is unique for each write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    version: Version,
    content: u64,
}

type Objects = BTreeMap<&'static str, Stored>;

#[derive(Debug, Clone)]
enum Op {
    Write(usize),
    Delete(usize),
    Restore(usize),
    /// The metadata store receives this many states of the server.
    Receive(usize),
    /// The handler of the metadata is called for the changes that it was not called for.
    Notify,
    Reference(usize),
    Release(usize),
    Read(usize),
    EndRead(usize),
    Start,
    /// A fetch in flight ends with a state that the server had since its start.
    Finish {
        fetch: usize,
        state: usize,
    },
    Fail(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => name.clone().prop_map(Op::Write),
        1 => name.clone().prop_map(Op::Delete),
        1 => (0..20_usize).prop_map(Op::Restore),
        4 => (1..4_usize).prop_map(Op::Receive),
        4 => Just(Op::Notify),
        2 => name.clone().prop_map(Op::Reference),
        2 => name.clone().prop_map(Op::Release),
        3 => name.prop_map(Op::Read),
        2 => (0..4_usize).prop_map(Op::EndRead),
        5 => Just(Op::Start),
        4 => (0..4_usize, 0..20_usize).prop_map(|(fetch, state)| Op::Finish { fetch, state }),
        1 => (0..4_usize).prop_map(Op::Fail),
        1 => (1..900_u64).prop_map(Op::Pass),
    ]
}

struct Reading {
    name: &'static str,
    wanted: u64,
    /// The number of server states that the metadata store had received when the read began.
    received: usize,
}

struct Model {
    world: BodiesState<u64, ()>,
    now: Instant,
    rng: SmallRng,
    /// All states of the server so far, and the number of restores before each.
    history: Vec<(Objects, u64)>,
    counter: u64,
    version: u64,
    received: usize,
    notified: usize,
    references: BTreeMap<&'static str, usize>,
    readings: Vec<Reading>,
    /// The fetches in flight, with the last server state before each began.
    fetches: Vec<(FetchStart, usize)>,
}

impl Model {
    fn new() -> Self {
        let start = World::new(config());
        Self {
            world: BodiesState::new(config()),
            now: start.now,
            rng: start.rng,
            history: vec![(Objects::new(), 0)],
            counter: 0,
            version: 0,
            received: 0,
            notified: 0,
            references: BTreeMap::new(),
            readings: Vec::new(),
            fetches: Vec::new(),
        }
    }

    fn newest(&self) -> &(Objects, u64) {
        self.history.last().expect("the history is never empty")
    }

    fn observation(&self, name: &str) -> Observation {
        let (objects, epoch) = &self.history[self.received];
        Observation { seen: objects.get(name).map(|stored| stored.version.clone()), epoch: *epoch }
    }

    fn write(&mut self, name: &'static str) {
        let (mut objects, epoch) = self.newest().clone();
        self.counter += 1;
        self.version += 1;
        let uid = match objects.get(name) {
            Some(stored) => stored.version.uid.clone(),
            None => format!("uid-{}", self.counter).into(),
        };
        let version = Version { uid, version: self.version.into() };
        objects.insert(name, Stored { version, content: self.counter });
        self.history.push((objects, epoch));
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Write(name) => self.write(NAMES[name]),
            Op::Delete(name) => {
                let (mut objects, epoch) = self.newest().clone();
                if objects.remove(NAMES[name]).is_some() {
                    self.version += 1;
                    self.history.push((objects, epoch));
                }
            }
            Op::Restore(back) => {
                let at = self.history.len().saturating_sub(1 + back);
                let (objects, epoch) = (self.history[at].0.clone(), self.newest().1 + 1);
                self.version =
                    objects.values().filter_map(|stored| stored.version.version.as_u64()).max().unwrap_or(0);
                self.history.push((objects, epoch));
            }
            Op::Receive(states) => self.received = (self.received + states).min(self.history.len() - 1),
            Op::Notify => self.notify(),
            Op::Reference(name) => {
                *self.references.entry(NAMES[name]).or_default() += 1;
                self.world.add_reference(&key(NAMES[name]), self.observation(NAMES[name]));
            }
            Op::Release(name) => {
                if let Some(count) = self.references.get_mut(NAMES[name]).filter(|count| **count > 0) {
                    *count -= 1;
                    self.world.remove_reference(&key(NAMES[name]));
                }
            }
            Op::Read(name) => {
                let name = NAMES[name];
                let wanted = self.world.begin_read(&key(name), self.observation(name), self.now);
                self.readings.push(Reading { name, wanted, received: self.received });
            }
            Op::EndRead(reading) if reading < self.readings.len() => {
                let reading = self.readings.swap_remove(reading);
                self.world.end_read(&key(reading.name));
            }
            Op::Start => self.start(),
            Op::Finish { fetch, state } if fetch < self.fetches.len() => self.finish(fetch, state),
            Op::Fail(fetch) if fetch < self.fetches.len() => {
                let (start, _) = self.fetches.swap_remove(fetch);
                self.world.finished(&start, FetchResult::Failed((), None), self.now, &mut self.rng);
            }
            Op::Pass(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.world.tick(self.now);
            }
            _ => {}
        }
    }

    fn notify(&mut self) {
        for name in NAMES {
            self.world.observe(&key(name), self.observation(name));
        }
        self.notified = self.received;
    }

    fn start(&mut self) {
        if let Some(start) = self.world.next_fetch() {
            self.fetches.push((start, self.history.len() - 1));
        }
    }

    fn finish(&mut self, fetch: usize, state: usize) {
        let (start, since) = self.fetches.swap_remove(fetch);
        let at = since + state % (self.history.len() - since);
        let result = match self.history[at].0.get(start.key.name()) {
            Some(stored) => FetchResult::Found(stored.version.clone(), stored.content),
            None => FetchResult::Missing,
        };
        self.world.finished(&start, result, self.now, &mut self.rng);
    }

    /// Checks that each finished read returned a state that the server had when the read began or later. A
    /// restore that the metadata has not received may hide behind the versions of lost states.
    fn check(&self) {
        self.world.assert_invariants();
        for Reading { name, wanted, received } in &self.readings {
            let ReadProgress::Done(content) = self.world.poll_read(&key(name), *wanted) else { continue };
            let held = |objects: &Objects| objects.get(name).map(|stored| stored.content);
            let is_allowed = self.history[*received..].iter().any(|(objects, _)| held(objects) == content);
            assert!(is_allowed, "the read of {name} returned {content:?}, which is too old");
        }
        let wanted = |key: &str| {
            let name = key.trim_start_matches("default/");
            self.references.get(name).is_some_and(|count| *count > 0)
                || self.readings.iter().any(|reading| reading.name == name)
        };
        let counts = self.world.counts();
        let referenced = self.references.values().filter(|count| **count > 0).count();
        assert_eq!((counts.referenced, counts.in_flight), (referenced, self.fetches.len()));
        let unwanted = NAMES.iter().filter(|name| {
            let key = format!("default/{name}");
            self.world.contains(&key) && !wanted(&key)
        });
        assert!(unwanted.count() <= counts.leased, "an entry is held without a reason");
    }

    /// Delivers everything and ends all reads. Each referenced body must then be that of the server.
    fn settle(&mut self) {
        self.received = self.history.len() - 1;
        self.notify();
        for _ in 0..20 {
            while !self.fetches.is_empty() {
                self.finish(0, usize::MAX - 1);
            }
            self.now += Duration::from_secs(3600);
            self.world.tick(self.now);
            self.start();
            self.start();
        }
        let newest = &self.newest().0;
        for (name, count) in &self.references {
            let expected = newest.get(name).filter(|_| *count > 0).map(|stored| stored.content);
            let is_read = self.readings.iter().any(|reading| reading.name == *name);
            if *count > 0 || !is_read {
                assert_eq!(self.world.held(&format!("default/{name}")), expected, "{name}");
            }
        }
        for reading in std::mem::take(&mut self.readings) {
            self.world.end_read(&key(reading.name));
        }
        for (name, count) in &mut self.references {
            (0..std::mem::take(count)).for_each(|_| self.world.remove_reference(&key(name)));
        }
        assert!(self.world.entries.is_empty(), "{:?}", self.world);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn reads_are_never_older_than_the_metadata_and_bodies_converge(ops in prop::collection::vec(op(), 1..80)) {
        let mut model = Model::new();
        for op in ops {
            model.apply(op);
            model.check();
        }
        model.settle();
    }
}
