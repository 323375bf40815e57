//! One schedule: runs the shipped state machines between a model of the API server and a model of handlers
//! and workers.

mod compare;
mod faults;
mod pumping;
mod reflecting;
mod requests;
mod rest;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::proto::{InOrderState, Pump, ReflectorAction, ReflectorState, SharedProcessor};
use informer_cache::reflector::{Paging, ReflectorConfig, StreamingList};
use informer_cache::{BufferPolicy, Event, HandlerOptions, UndecodableLog};
use informer_control::Trigger;
use informer_control::predicate::{Predicate, not, or, resource_version_changed};
use informer_store::{Indexer, StoreBuilder, borrowed};

use self::requests::Requests;
use crate::check::{Checked, ensure};
use crate::connection::{Network, Open};
use crate::coverage::Coverage;
use crate::election::Election;
use crate::fault::Fault;
use crate::handler::Handler;
use crate::object::{SimObject, by_colour};
use crate::random::Random;
use crate::script::{Setup, Step, Verb};
use crate::server::Server;
use crate::work::Work;

pub(crate) struct World {
    setup: Setup,
    random: Random,
    origin: Instant,
    now: Instant,
    server: Server,
    network: Network,
    open: Open,
    hanging: Option<ReflectorAction>,
    requests: Requests,
    config: Arc<ReflectorConfig>,
    reflector: ReflectorState<SimObject>,
    streaming_failed: bool,
    queue: InOrderState<SimObject>,
    /// The newest resourceVersion that was added to the queue since the queue was last empty.
    queued: u64,
    pump: Pump<SimObject>,
    store: Indexer<SimObject>,
    undecodable: UndecodableLog,
    processor: SharedProcessor<SimObject>,
    synced: bool,
    /// The state that results from the events that the pump reported, by key.
    mirror: Vec<Option<Arc<SimObject>>>,
    /// The handlers of the informer. The first one adds changed keys to the work queue and is never removed.
    handlers: Vec<Handler>,
    work: Work,
    election: Election,
    barriers: VecDeque<Barrier>,
    /// True if watch events arrive in the wrong order. The version of an event then does not imply that
    /// earlier events have arrived.
    disordered: bool,
    indexed_by_parity: bool,
    pub(crate) coverage: Coverage,
    pub(crate) steps: u64,
    pub(crate) timeline: Option<Vec<String>>,
}

/// The number of keys that steps change if `Setup::few_keys` is 1.
const FEW_KEYS: usize = 2;

struct Barrier {
    key: usize,
    version: u64,
    /// True if the object exists after the write and the informer's selector matches it.
    present: bool,
}

const MAX_ELECTED: usize = 32;

const MAX_BARRIERS: usize = 8;

/// Adds a line to the timeline if the schedule records one.
macro_rules! tell {
    ($world:expr, $($text:tt)+) => {
        if $world.timeline.is_some() {
            let line = format!($($text)+);
            $world.write_line(&line);
        }
    };
}
use tell;

pub(crate) fn origin() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "an origin: every later instant is this one plus simulated time"
    )]
    Instant::now()
}

fn config(setup: &Setup) -> ReflectorConfig {
    let mut config = ReflectorConfig::named("simulated");
    config.streaming_list = match setup.streaming_wish {
        3 => StreamingList::On,
        4 => StreamingList::Off,
        _ => StreamingList::Auto,
    };
    config.paging = match setup.paging {
        2 => Paging::Always,
        3 => Paging::Never,
        _ => Paging::Auto,
    };
    config.page_size = setup.page;
    config.resync_period = minutes(setup.reflector_resync);
    config
}

fn minutes(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(60 * u64::from(count)))
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut random = Random::new(u64::from(setup.seed));
        let now = origin();
        let server = Server::new(setup, &mut random);
        let config = Arc::new(config(setup));
        let undecodable = UndecodableLog::default();
        let writer = StoreBuilder::new().index("colour", borrowed(by_colour)).writer();
        let pump = Pump::new(writer, undecodable.clone());
        let mut world = Self {
            origin: now,
            now,
            network: Network::new(setup),
            open: Open::Nothing,
            hanging: None,
            requests: Requests::new(now),
            reflector: ReflectorState::new(Arc::clone(&config), now),
            config,
            streaming_failed: false,
            queue: InOrderState::new(),
            queued: 0,
            store: pump.indexer(),
            pump,
            undecodable,
            processor: SharedProcessor::new(),
            synced: false,
            mirror: vec![None; setup.keys as usize],
            handlers: Vec::new(),
            work: Work::new(setup, now),
            election: Election::new(setup, now, &mut random),
            barriers: VecDeque::new(),
            disordered: false,
            indexed_by_parity: false,
            coverage: Coverage::default(),
            steps: 0,
            timeline: None,
            setup: setup.clone(),
            server,
            random,
        };
        world.handlers = (0..3).map(|index| world.new_handler(index)).collect();
        world
    }

    fn new_handler(&self, index: u32) -> Handler {
        let options = match self.setup.policies >> index & 1 {
            // The first handler adds changed keys to the work queue, as the sources of controllers do.
            _ if index == 0 => HandlerOptions::for_work_queue(),
            0 => HandlerOptions::new(),
            _ => HandlerOptions::new().buffer(BufferPolicy::Coalesce),
        };
        let resync = if index == 1 { minutes(self.setup.resync) } else { None };
        Handler::new(&options, resync, (self.setup.keys as usize, self.network.selector))
    }

    pub(crate) fn perform(&mut self, step: Step) -> Checked {
        self.random = Random::new(u64::from(step.chance) << 20 ^ u64::from(self.setup.seed));
        match step.verb {
            Verb::Write | Verb::Burst | Verb::Recreate | Verb::Relabel => self.write(step.verb),
            Verb::BackUp => {
                tell!(self, "server: backed up at @{}", self.server.version);
                self.server.back_up();
            }
            Verb::Reflect => {
                if !self.reflect()? && self.random.one_in(3) {
                    self.wait();
                }
            }
            Verb::Pump => drop(self.pump()?),
            Verb::Handle => {
                // The last handler is slow, so that its buffer grows.
                let last = self.handlers.len() - 1;
                let index = if self.random.one_in(6) { last } else { self.random.below(2).min(last) };
                let permits = self.random.below(5) as u32;
                self.handle(index, permits)?;
            }
            Verb::Work => drop(self.work()?),
            Verb::Elect => self.elect()?,
            Verb::Wait => self.wait(),
            Verb::Fault(fault) => self.suffer(fault)?,
        }
        Ok(())
    }

    /// Returns the newest resourceVersion that the reflector, the store or the queue of the informer has
    /// seen.
    fn seen(&self) -> u64 {
        let versions = [&self.reflector.status().last_version, &self.store.resource_version()];
        let numbers = versions.into_iter().filter_map(informer_core::ResourceVersion::as_u64);
        numbers.max().unwrap_or_default().max(self.queued)
    }

    /// Returns true if objects must not be written at present. After the server was rewound, it assigns
    /// versions again. As long as the informer has not noticed the rewind, new versions must not reach those
    /// that it has seen, since it could not distinguish them.
    fn is_held_back(&self) -> bool {
        self.server.restored && self.seen() > self.server.version
    }

    fn key_to_change(&mut self) -> usize {
        let keys = match self.setup.few_keys {
            0 => self.server.objects.len(),
            1 => FEW_KEYS,
            _ => 1,
        };
        self.random.below(keys)
    }

    fn write(&mut self, verb: Verb) {
        if self.is_held_back() {
            return;
        }
        self.steps += 1;
        let key = self.key_to_change();
        let held = self.server.objects[key].is_some();
        let random = &mut self.random;
        match verb {
            Verb::Burst => (0..random.between(2, 6)).for_each(|_| self.server.put(key, true, random)),
            Verb::Recreate => {
                self.server.delete(key, random);
                self.server.put(key, true, random);
            }
            Verb::Relabel => {
                let in_view = self.server.objects[key].as_ref().is_none_or(|object| !object.in_view);
                self.server.put_as(key, in_view, true, random);
            }
            _ if held && random.below(10) < 3 => self.server.delete(key, random),
            _ => self.server.put(key, true, random),
        }
        self.after_write(key);
    }

    fn after_write(&mut self, key: usize) {
        let (version, selector) = (self.server.version, self.network.selector);
        let object = self.server.objects[key].as_ref();
        tell!(self, "server: key {key} becomes {object:?} @{version}");
        if self.random.one_in(3) && self.barriers.len() < MAX_BARRIERS {
            let object = self.server.objects[key].as_ref();
            let present = object.is_some_and(|object| object.in_view || !selector);
            self.barriers.push_back(Barrier { key, version, present });
        }
    }

    fn handle(&mut self, index: usize, permits: u32) -> Checked<bool> {
        let handler = &mut self.handlers[index];
        let events = handler.work(permits);
        handler.check_sync()?;
        self.steps += events.len() as u64;
        for event in &events {
            tell!(self, "handler {index}: {event}");
            self.handlers[index].believe(event, &self.store, self.server.restored)?;
            let trigger = self.check_trigger(event)?;
            if let (0, Some(trigger)) = (index, trigger) {
                self.trigger(&trigger)?;
            }
        }
        Ok(!events.is_empty())
    }

    /// Converts the event of a handler to a trigger of a controller, applies the controller's predicate, and
    /// checks the result. Only the second handler gets resyncs.
    fn check_trigger(&self, event: &Event<SimObject>) -> Checked<Option<Trigger<SimObject>>> {
        let trigger = Trigger::from(event.clone());
        let (holds, wanted) = (self.concerns(&trigger), self.should_concern(event));
        ensure!("predicates", holds == wanted, "a predicate returns {holds} for {event}");
        let news = !matches!(event, Event::Added { initial: true, .. } | Event::Updated { resync: true, .. });
        let priority = trigger.priority();
        ensure!("news-come-first", news == (priority == 0), "{event} is queued with priority {priority}");
        Ok(holds.then_some(trigger))
    }

    /// Adds the key of the trigger to the work queue, as the source of a controller does.
    fn trigger(&mut self, trigger: &Trigger<SimObject>) -> Checked {
        let late = self.random.one_in(8).then(|| Duration::from_secs(self.random.below(9) as u64));
        let late = late.filter(|late| !late.is_zero());
        self.work.add(trigger.object().number(), trigger.priority(), late, self.now)
    }

    fn concerns(&self, trigger: &Trigger<SimObject>) -> bool {
        match self.setup.predicate {
            0 => true,
            1 => resource_version_changed().holds(trigger),
            _ => or(not(resource_version_changed()), resource_version_changed()).holds(trigger),
        }
    }

    fn should_concern(&self, event: &Event<SimObject>) -> bool {
        match event {
            Event::Updated { old, new, .. } => self.setup.predicate != 1 || old.version() != new.version(),
            _ => true,
        }
    }

    fn work(&mut self) -> Checked<bool> {
        self.work.feed(self.handlers[0].joined && self.handlers[0].listener.has_synced())?;
        let store = &self.store;
        let look = |number: usize| store.get(&crate::object::key(number));
        let worked = self.work.step(self.now, &mut self.random, look)?;
        self.steps += u64::from(worked);
        Ok(worked)
    }

    /// Advances the simulation of the leader election, which has its own clock, by several events.
    fn elect(&mut self) -> Checked {
        let most = self.random.below(MAX_ELECTED);
        let went = self.election.go_on(most, &mut self.random, &mut self.coverage);
        self.tell_election();
        self.steps += went?;
        Ok(())
    }

    fn tell_election(&mut self) {
        let lines = self.election.lines.as_mut().map(std::mem::take).unwrap_or_default();
        lines.iter().for_each(|line| self.write_line(line));
        self.election.lines = self.timeline.as_ref().map(|_| Vec::new());
    }

    /// Advances the simulated time, in most cases to the next deadline of any part.
    fn wait(&mut self) {
        let next =
            self.next_due().map_or(Duration::from_secs(1), |due| due.saturating_duration_since(self.now));
        let part = match self.random.below(4) {
            0 => next.mul_f64(0.3),
            1 => Duration::from_secs(self.random.below(30) as u64),
            _ => next,
        };
        self.pass(part);
    }

    fn pass(&mut self, time: Duration) {
        if !time.is_zero() {
            self.steps += 1;
            self.now += time;
            tell!(self, "time: {time:.1?} pass");
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let dues = [
            self.reflector.step().until,
            self.open.wakes_at(self.network.bookmarks),
            self.processor.next_resync(),
            self.work.wakes_at(),
            self.server.down_until,
        ];
        dues.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    fn hit(&mut self, fault: Fault) {
        self.network.hits += 1;
        self.coverage.hit(fault);
    }

    fn write_line(&mut self, line: &str) {
        let time = self.now.saturating_duration_since(self.origin);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(format!("{:>10.3} s  {line}", time.as_secs_f64()));
        }
    }
}
