//! Runs the simulated informer and server together, one step at a time.

use std::collections::{BTreeMap, HashSet};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::proto::{
    EventBatch, InOrderState, Input, ListenerBuffer, Pump, ReflectorAction, ReflectorNotice, ReflectorState,
};
use informer_cache::reflector::{ReflectorConfig, ReflectorPhase, RelistReason, StreamingList};
use informer_cache::testing::TestObject;
use informer_cache::{BufferPolicy, Change, Event, UndecodableLog};
use informer_core::Object;
use informer_store::StoreBuilder;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::connection::{self, Faults, Open};
use crate::server::Server;

/// The number of steps of a run in which objects are written and faults are injected.
const STEPS: u32 = 250;

/// The maximum number of further steps of a run. If the run has not become idle by then, the test fails.
const MAX_STEPS: u32 = 20_000;

/// How often the runs reached each rare case. The test fails if the seeds reach one of them too rarely.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) lists: u64,
    pub(crate) rewound: u64,
    pub(crate) stale_lists: u64,
    pub(crate) fallbacks: u64,
    pub(crate) streamed: u64,
    pub(crate) silent: u64,
    pub(crate) undecodable: u64,
    pub(crate) coalesced: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.lists += other.lists;
        self.rewound += other.rewound;
        self.stale_lists += other.stale_lists;
        self.fallbacks += other.fallbacks;
        self.streamed += other.streamed;
        self.silent += other.silent;
        self.undecodable += other.undecodable;
        self.coalesced += other.coalesced;
    }
}

struct Handler {
    buffer: ListenerBuffer<TestObject>,
    view: BTreeMap<String, Arc<TestObject>>,
    told: Vec<Event<TestObject>>,
    /// The uids of the objects whose deletion was reported to the handler. Without a restore of the server,
    /// none of them may be added again.
    gone: HashSet<String>,
}

pub(crate) struct World {
    rng: StdRng,
    now: Instant,
    faults: Faults,
    /// True if this run has no faults: every change after the first list must be delivered once and in order.
    faultless: bool,
    server: Server,
    open: Open,
    config: Arc<ReflectorConfig>,
    reflector: ReflectorState<TestObject>,
    streaming_failed: bool,
    queue: InOrderState<TestObject>,
    pump: Pump<TestObject>,
    undecodable: UndecodableLog,
    /// Two handlers: the buffer of the first one does not merge events, that of the second one does.
    handlers: [Handler; 2],
    /// True after a restore in which the server's resource versions went back. No object is written until the
    /// informer has detected the restore. If the versions reached those from before the restore earlier, the
    /// informer could not detect it.
    held_back: bool,
    first_list: Option<u64>,
    tally: Tally,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        // Every tenth run has no faults and thus checks that every change is delivered.
        let faulty = !seed.is_multiple_of(10);
        let faults = Faults {
            rate: if faulty { rng.random_range(0.0..0.25) } else { 0.0 },
            streaming: rng.random_bool(0.5),
            endless: faulty && rng.random_bool(0.2),
            unreadable: if faulty { 0.03 } else { 0.0 },
        };
        let mut config = ReflectorConfig::named("world");
        config.streaming_list = StreamingList::Auto;
        config.page_size = 3;
        let undecodable = UndecodableLog::default();
        let handler = |policy| Handler {
            buffer: ListenerBuffer::new(policy, usize::MAX),
            view: BTreeMap::new(),
            told: Vec::new(),
            gone: HashSet::new(),
        };
        let (now, config) = (origin(), Arc::new(config));
        Self {
            reflector: ReflectorState::new(Arc::clone(&config), now),
            pump: Pump::new(StoreBuilder::new().writer(), undecodable.clone()),
            handlers: [handler(BufferPolicy::Unbounded), handler(BufferPolicy::Coalesce)],
            server: Server::new(),
            open: Open::Nothing,
            queue: InOrderState::new(),
            streaming_failed: false,
            held_back: false,
            first_list: None,
            tally: Tally::default(),
            rng,
            now,
            faults,
            faultless: !faulty,
            config,
            undecodable,
        }
    }

    pub(crate) fn run(mut self) -> Tally {
        for _ in 0..STEPS {
            match self.rng.random_range(0..20) {
                0..6 => self.write(),
                6 if self.faults.rate > 0.0 => self.mishap(),
                7..13 => self.reflect(),
                13..16 => self.pump(),
                _ => self.handle(),
            }
        }
        self.come_to_rest();
        self.compare();
        self.tally()
    }

    fn write(&mut self) {
        if self.held_back && self.seen() > self.server.now.version {
            return;
        }
        self.held_back = false;
        self.server.write(self.faults.unreadable, &mut self.rng);
    }

    /// At random, compacts, backs up or restores the server, restarts the informer, or advances the time.
    fn mishap(&mut self) {
        match self.rng.random_range(0..10) {
            0..4 => self.server.compact(&mut self.rng),
            4..7 if !self.held_back => self.server.back_up(),
            7 if !self.held_back => self.restore(),
            8 => self.restart(),
            _ => self.now += Duration::from_secs(self.rng.random_range(0..400)),
        }
    }

    fn restore(&mut self) {
        let well_done = self.rng.random_bool(0.5);
        self.server.restore(well_done);
        // A restore closes all connections to the server.
        self.open = Open::Nothing;
        self.held_back = !well_done;
    }

    /// Returns the newest resourceVersion that the informer has seen.
    fn seen(&self) -> u64 {
        let versions = [&self.reflector.status().last_version, &self.pump.indexer().resource_version()];
        versions.into_iter().filter_map(informer_core::ResourceVersion::as_u64).max().unwrap_or_default()
    }

    /// Restarts the informer with its old store. The new reflector either continues from the last
    /// resourceVersion or starts without one. In the second case only the pump prevents the store from going
    /// back to an older state.
    fn restart(&mut self) {
        self.note_reflector();
        while self.pump_batch() {}
        let config = Arc::clone(&self.config);
        self.reflector = if self.rng.random_bool(0.5) {
            ReflectorState::resume(config, self.now, self.reflector.status().last_version.clone())
        } else {
            ReflectorState::new(config, self.now)
        };
        self.open = Open::Nothing;
        self.pump.begin_run();
    }

    fn reflect(&mut self) {
        let step = self.reflector.step();
        let chance = (self.faults, &mut self.rng);
        let input = match step.action {
            ReflectorAction::List(plan) => {
                match connection::list(&plan, &self.server, &self.pump.indexer(), chance) {
                    Ok(open) => {
                        self.open = open;
                        Some(Input::Opened)
                    }
                    Err(failed) => Some(failed),
                }
            }
            ReflectorAction::Watch(plan) => match connection::watch(&plan, &self.server, self.now, chance) {
                Ok(open) => {
                    self.open = open;
                    Some(Input::Opened)
                }
                Err(failed) => Some(failed),
            },
            ReflectorAction::Read if self.queue.has_room() => self.open.read(&self.server, self.now, chance),
            _ => None,
        };
        match (input, step.until) {
            (Some(input), _) => self.tell(input),
            // The reflector has no input available and waits for a time limit, so the simulated clock
            // advances to it, or to a random time before it.
            (None, Some(until)) => {
                let wait = until.saturating_duration_since(self.now);
                let part = if self.rng.random_bool(0.5) { 1.0 } else { self.rng.random_range(0.0..1.0) };
                self.now += wait.mul_f64(part);
                if self.now >= until {
                    self.tell(Input::Timer);
                }
            }
            (None, None) => {}
        }
    }

    fn tell(&mut self, input: Input<TestObject>) {
        self.reflector.set_streaming_supported(self.faults.streaming && !self.streaming_failed);
        let effects = self.reflector.handle(input, self.now, &mut self.rng);
        for change in effects.changes {
            if let Change::Replaced(list) = &change {
                self.first_list = self.first_list.or(list.version.as_u64());
            }
            self.queue.push(change).expect("the queue is never closed");
        }
        self.streaming_failed |=
            effects.notices.iter().any(|notice| matches!(notice, ReflectorNotice::StreamingListFailed));
    }

    fn pump(&mut self) {
        self.pump_batch();
    }

    fn pump_batch(&mut self) -> bool {
        let Some(batch) = self.queue.pop_batch(self.rng.random_range(1..8)) else { return false };
        let applied = self.pump.apply(batch.changes);
        self.queue.done(batch.initial);
        let events = Arc::new(EventBatch::new(applied.events));
        for handler in &mut self.handlers {
            handler.buffer.push(&events);
            if applied.first_list {
                handler.buffer.initial_complete();
            }
        }
        if applied.suspect {
            self.tell(Input::RelistRequested);
        }
        true
    }

    fn handle(&mut self) {
        // The second handler is called rarely, so that its pending events are merged.
        let which = usize::from(self.rng.random_bool(0.1));
        for _ in 0..self.rng.random_range(1..6) {
            self.handlers[which].take_one(&self.server);
        }
    }

    /// Runs all parts of the simulation, without faults and writes, until no part has anything left to do.
    fn come_to_rest(&mut self) {
        self.faults = Faults { rate: 0.0, endless: false, unreadable: 0.0, ..self.faults };
        for _ in 0..MAX_STEPS {
            if self.is_at_rest() {
                return;
            }
            self.reflect();
            while self.pump_batch() {}
            for _ in 0..20 {
                self.handle();
            }
        }
        panic!("the informer does not become idle: {:?}", self.reflector.status());
    }

    fn is_at_rest(&self) -> bool {
        let drained = matches!(&self.open, Open::Watch(watch) if watch.is_drained(&self.server));
        let reflector = self.reflector.status();
        let seen = self.server.history.back().map_or(self.server.compacted, |happened| happened.version);
        drained
            && reflector.phase == ReflectorPhase::Watching
            && reflector.last_version.as_u64().is_some_and(|version| version >= seen)
            && self.queue.depth() == 0
            && self.handlers.iter().all(|handler| handler.buffer.depth() == 0)
    }

    fn compare(&self) {
        let held: BTreeMap<String, String> = self.pump.indexer().list().iter().map(|o| shown(o)).collect();
        for (key, state) in &self.server.now.objects {
            if state.readable {
                assert_eq!(held.get(key), Some(&shown(&state.object).1), "the cache lacks {key}")
            } else {
                assert!(
                    self.undecodable.entries().iter().any(|entry| entry.key() == Some(state.object.key())),
                    "{key} is undecodable and not in the log"
                )
            }
        }
        for key in held.keys() {
            assert!(self.server.now.objects.contains_key(key), "{key} was deleted and is in the cache");
        }
        for handler in &self.handlers {
            let view: BTreeMap<String, String> = handler.view.values().map(|o| shown(o)).collect();
            assert_eq!(view, held, "the view of a handler differs from the cache");
            assert!(handler.buffer.is_synced(), "a handler without pending events is not synced");
        }
        if self.faultless {
            self.compare_history();
        }
    }

    /// Asserts that all changes after the first list were delivered once and in order.
    fn compare_history(&self) {
        let told = |event: &Event<TestObject>| match event {
            Event::Added { initial: true, .. } => None,
            event => Some(shown(event.object())),
        };
        let told: Vec<_> = self.handlers[0].told.iter().filter_map(told).collect();
        let log: Vec<_> = self.server.log.iter().map(|happened| shown(&happened.state.object)).collect();
        assert!(log.ends_with(&told), "a change was lost, duplicated or reordered");
        let relists = &self.reflector.status().relists;
        let expired = relists.get(RelistReason::ContinueExpired);
        assert_eq!(relists.total(), expired, "only an expired page may cause a relist");
        let since = self.first_list.expect("the informer is synced");
        let missed = log.len() - told.len();
        assert!(self.server.log[..missed].iter().all(|happened| happened.version <= since));
    }

    fn note_reflector(&mut self) {
        let status = self.reflector.status();
        self.tally.stale_lists += status.stale_lists;
        self.tally.fallbacks += status.streaming_fallbacks;
        self.tally.silent += status.silent_watches;
        self.tally.undecodable += status.undecodable;
        self.tally.streamed += u64::from(self.faults.streaming && status.synced && status.list_requests == 0);
    }

    fn tally(&self) -> Tally {
        let (counters, status) = (self.pump.counters(), self.reflector.status());
        let streamed = self.faults.streaming && status.synced && status.list_requests == 0;
        Tally {
            lists: counters.lists,
            rewound: counters.rewound,
            stale_lists: self.tally.stale_lists + counters.stale_lists + status.stale_lists,
            fallbacks: self.tally.fallbacks + status.streaming_fallbacks,
            streamed: self.tally.streamed + u64::from(streamed),
            silent: self.tally.silent + status.silent_watches,
            undecodable: self.tally.undecodable + status.undecodable,
            coalesced: self.handlers[0].told.len().saturating_sub(self.handlers[1].told.len()) as u64,
        }
    }
}

impl Handler {
    /// Lets the handler process one pending event, if there is one. Panics if the events of a key are in an
    /// impossible order, or an event contains a state that the server never had.
    fn take_one(&mut self, server: &Server) {
        let Some(event) = self.buffer.pop() else { return };
        self.buffer.finished();
        let (key, object) = (event.key().to_string(), event.object());
        assert!(server.ever.contains(object.text()), "{event} has a state that never existed");
        match &event {
            Event::Added { object, .. } => {
                let back = self.gone.contains(object.uid());
                assert!(server.restored || !back, "{event} restores a deleted object");
                assert!(
                    self.view.insert(key, Arc::clone(object)).is_none(),
                    "{event} adds an object that exists"
                );
            }
            Event::Updated { old, new, .. } => {
                let before = self.view.insert(key, Arc::clone(new)).expect("an update follows an add");
                assert!(Arc::ptr_eq(&before, old), "{event}: `old` is the state announced last");
                assert_eq!(old.uid(), new.uid(), "{event}: a re-created object is a delete and an add");
                let back = new.resource_version().is_older_than(old.resource_version());
                assert!(server.restored || !back, "{event} goes back to an older state");
            }
            Event::Deleted { last, .. } => {
                let before = self.view.remove(&key).expect("a delete follows an add");
                assert_eq!(before.uid(), last.uid(), "{event}: the deleted object is the announced one");
                self.gone.insert(last.uid().to_owned());
            }
        }
        self.told.push(event);
    }
}

fn shown(object: &TestObject) -> (String, String) {
    let (key, version) = (object.key(), object.resource_version());
    (key.to_string(), format!("{} @{version} {}", object.uid(), object.text()))
}

fn origin() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the origin of simulated time; later instants only add to it"
    )]
    Instant::now()
}
