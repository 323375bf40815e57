//! A model of the rules of kube-rs's watcher (kube-runtime 5.0) with its store, run under the same schedules
//! and checked with the same invariants. It models the documented rules and not the code. The retries of
//! kube-rs's client are left out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::source::{ListPart, SourceErrorKind, WatchEvent};
use informer_core::{Object, ResourceVersion};

use crate::connection::{ListAsk, Network, Open, Peer, Read, Response, WatchAsk};
use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::object::SimObject;
use crate::random::Random;
use crate::script::{Script, Setup, Step, Verb};
use crate::server::Server;

type Objects = Vec<Option<Arc<SimObject>>>;

enum State {
    Empty,
    /// A list is running; the value is the continue token of its next page.
    Page(Option<String>),
    Listed,
    Watching,
    /// A watch that starts with the present state.
    InitialWatch,
}

struct KubeWorld {
    now: Instant,
    random: Random,
    coverage: Coverage,
    server: Server,
    network: Network,
    open: Open,
    state: State,
    streaming: bool,
    version: ResourceVersion,
    /// The newest version of an event that the watch delivered.
    shown: u64,
    wait_until: Option<Instant>,
    /// The time at which the idle timeout ends the watch.
    idle_at: Option<Instant>,
    hangs: bool,
    failures: u32,
    /// Number of consecutive failed lists. `list_failed_at` is the time of the last failure.
    list_failures: u32,
    list_failed_at: Option<Instant>,
    last_refusal: Option<SourceErrorKind>,
    unreadable_list: bool,
    buffer: Objects,
    store: Objects,
    /// The state that results from the events of the watcher, by key.
    view: Objects,
    found: BTreeSet<&'static str>,
}

/// The timeout that the watcher requests for its watches. It is also the idle timeout after an item of the
/// watch.
const TIMEOUT: Duration = Duration::from_secs(290);
const IDLE: Duration = Duration::from_secs(295);

/// The time within which the watcher must have nothing left to do after the last fault. It is the same for
/// this library's informer.
const MAX_REST: Duration = Duration::from_secs(30 * 60);

/// Returns the names of the problems that a schedule shows with the rules of kube-rs's watcher.
pub fn run_kube_rs_model(script: &Script) -> Vec<&'static str> {
    let mut world = KubeWorld::new(&script.setup);
    for step in &script.steps {
        world.perform(*step, &script.setup);
    }
    world.rest();
    world.found.into_iter().collect()
}

impl KubeWorld {
    fn new(setup: &Setup) -> Self {
        let mut random = Random::new(u64::from(setup.seed));
        let server = Server::new(setup, &mut random);
        let empty = || vec![None; setup.keys as usize];
        let mut network = Network::new(setup);
        // Every expired version is reported in the same way, as by one server, which may be behind an
        // aggregation layer or a proxy.
        network.expired_by_status = Some(setup.seed.is_multiple_of(4));
        Self {
            now: crate::world::origin(),
            random,
            coverage: Coverage::default(),
            server,
            network,
            open: Open::Nothing,
            state: State::Empty,
            streaming: setup.streaming_wish == 3,
            version: ResourceVersion::unset(),
            shown: 0,
            wait_until: None,
            idle_at: None,
            hangs: false,
            failures: 0,
            list_failures: 0,
            list_failed_at: None,
            last_refusal: None,
            unreadable_list: false,
            buffer: empty(),
            store: empty(),
            view: empty(),
            found: BTreeSet::new(),
        }
    }

    fn perform(&mut self, step: Step, setup: &Setup) {
        self.random = Random::new(u64::from(step.chance) << 20 ^ u64::from(setup.seed));
        match step.verb {
            Verb::Reflect => drop(self.step()),
            Verb::Wait => self.pass(),
            Verb::Fault(fault) => self.suffer(fault),
            Verb::Write | Verb::Burst | Verb::Recreate | Verb::Relabel => self.write(step.verb),
            Verb::BackUp => self.server.back_up(),
            Verb::Pump | Verb::Handle | Verb::Work | Verb::Elect => {}
        }
    }

    fn is_held_back(&self) -> bool {
        self.server.restored && self.version.as_u64().unwrap_or_default() > self.server.version
    }

    fn write(&mut self, verb: Verb) {
        if self.is_held_back() {
            return;
        }
        let (random, server) = (&mut self.random, &mut self.server);
        let key = random.below(server.objects.len());
        match verb {
            Verb::Recreate => {
                server.delete(key, random);
                server.put(key, true, random);
            }
            Verb::Relabel => server.put_as(key, random.one_in(2), true, random),
            Verb::Write if server.objects[key].is_some() && random.below(10) < 3 => {
                server.delete(key, random)
            }
            _ => server.put(key, true, random),
        }
    }

    fn suffer(&mut self, fault: Fault) {
        let random = &mut self.random;
        match fault {
            fault if fault.is_of_request() || fault.is_of_stream() => self.network.arm(fault, random),
            Fault::Down => {
                self.server.down_until = Some(self.now + Duration::from_secs(random.between(1, 300) as u64));
                self.open.cut();
            }
            Fault::Bookmarks => self.network.bookmarks ^= true,
            Fault::Streaming => {
                self.network.streaming ^= true;
                self.open.cut();
            }
            Fault::Compaction => self.server.compact(random),
            Fault::ReplicaLags => drop(self.server.lag_or_catch_up(random)),
            Fault::VersionJump if !self.server.restored => self.server.jump(1 << 32),
            Fault::Unreadable if !self.is_held_back() => {
                let key = self.random.below(self.server.objects.len());
                self.server.put(key, false, &mut self.random);
            }
            Fault::Restore | Fault::Rewind | Fault::Wiped | Fault::Restart if !self.is_held_back() => {
                match fault {
                    Fault::Restore => self.server.restore(true),
                    Fault::Rewind => self.server.restore(false),
                    Fault::Wiped => self.server.wipe(),
                    _ => self.server.restart(),
                }
                self.open.cut();
            }
            _ => {}
        }
    }

    /// Runs one step of the watcher. Returns false if the watcher waits for the network or its backoff.
    fn step(&mut self) -> bool {
        if self.wait_until.is_some_and(|until| self.now < until) {
            return false;
        }
        self.wait_until = None;
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty if self.streaming => self.begin_initial_watch(),
            State::Empty => {
                // The watcher's first event counts as a success, although no request was sent before it, and
                // resets the backoff.
                self.failures = 0;
                self.buffer.fill(None);
                self.state = State::Page(None);
                true
            }
            State::Page(token) => self.list(token),
            State::Listed => self.begin_watch(),
            State::Watching => self.read(false),
            State::InitialWatch => self.read(true),
        }
    }

    fn fail(&mut self) -> bool {
        let wait = Duration::from_millis(800).saturating_mul(1 << self.failures.min(10));
        self.wait_until = Some(self.now + wait.min(Duration::from_secs(30)));
        self.failures += 1;
        true
    }

    fn ask(&mut self, ask: impl FnOnce(&mut Network, &mut Peer<'_>) -> Response) -> Response {
        let peer = &mut Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        ask(&mut self.network, peer)
    }

    fn list(&mut self, token: Option<String>) -> bool {
        if let Some(failed_at) = self.list_failed_at
            && self.list_failures >= 3
            && token.is_none()
            && self.now.saturating_duration_since(failed_at) < Duration::from_millis(3000)
        {
            self.found.insert("the wait after failing lists does not grow");
        }
        let version = ResourceVersion::unset();
        let response = self.ask(|network, peer| {
            let ask = ListAsk { version: &version, limit: Some(500), token: token.as_deref(), known: None };
            network.list(&ask, peer)
        });
        match response {
            Response::Open(mut open) => self.take_page(&mut open),
            Response::Failed(_) => self.list_failed(),
            Response::Hangs => {
                self.found.insert("a list without a response never times out");
                self.list_failed()
            }
        }
    }

    fn list_failed(&mut self) -> bool {
        self.list_failures += 1;
        self.list_failed_at = Some(self.now);
        self.state = State::Empty;
        self.fail()
    }

    /// Handles a page of a list. A page is decoded as a whole, so one undecodable object makes the whole list
    /// fail.
    fn take_page(&mut self, open: &mut Open) -> bool {
        let mut unreadable = false;
        loop {
            let peer = &mut Peer {
                server: &self.server,
                now: self.now,
                random: &mut self.random,
                coverage: &mut self.coverage,
            };
            match self.network.read(open, peer) {
                Read::Part(ListPart::Items(items)) => {
                    for item in items {
                        let object = item.into_object();
                        self.view[object.number()] = Some(Arc::clone(&object));
                        let number = object.number();
                        self.buffer[number] = Some(object);
                    }
                }
                Read::Part(ListPart::Rejected(_)) => {}
                Read::Part(ListPart::Undecodable(_)) => unreadable = true,
                Read::Part(ListPart::End(_)) if unreadable => {
                    self.unreadable_list = true;
                    return self.list_failed();
                }
                Read::Part(ListPart::End(end)) => {
                    self.unreadable_list = false;
                    (self.list_failures, self.failures) = (0, 0);
                    self.version = end.version;
                    match end.continue_token {
                        Some(token) => self.state = State::Page(Some(token)),
                        None => self.finish_list(),
                    }
                    return true;
                }
                _ => return self.list_failed(),
            }
        }
    }

    fn finish_list(&mut self) {
        self.store = std::mem::replace(&mut self.buffer, vec![None; self.store.len()]);
        let version = self.version.as_u64().unwrap_or_default();
        if version < self.shown && !self.server.restored {
            self.found.insert("a list returns an older state");
        }
        self.shown = self.shown.max(version);
        self.state = State::Listed;
    }

    fn begin_watch(&mut self) -> bool {
        self.state = State::Listed;
        let version = self.version.clone();
        let response = self.ask(|network, peer| {
            let ask = WatchAsk { version: &version, send_initial_events: false, timeout: TIMEOUT };
            network.watch(&ask, peer)
        });
        self.opened(response, false)
    }

    fn begin_initial_watch(&mut self) -> bool {
        self.buffer.fill(None);
        let response = self.ask(|network, peer| {
            let version = ResourceVersion::any();
            let ask = WatchAsk { version: &version, send_initial_events: true, timeout: TIMEOUT };
            network.watch(&ask, peer)
        });
        self.opened(response, true)
    }

    fn opened(&mut self, response: Response, initial: bool) -> bool {
        self.last_refusal = None;
        match response {
            Response::Open(open) => {
                self.open = open;
                self.idle_at = Some(self.now + IDLE);
                self.state = if initial { State::InitialWatch } else { State::Watching };
                true
            }
            // The watcher retries with the same version, whatever the reason of the failure was.
            Response::Failed(error) => {
                self.last_refusal = Some(error.kind());
                self.fail()
            }
            Response::Hangs => {
                self.hangs = true;
                self.fail()
            }
        }
    }

    fn read(&mut self, initial: bool) -> bool {
        self.state = if initial { State::InitialWatch } else { State::Watching };
        let peer = &mut Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        let read = self.network.read(&mut self.open, peer);
        match read {
            Read::Events(events) => {
                self.idle_at = Some(self.now + IDLE);
                events.into_iter().all(|event| self.take(event, initial));
                true
            }
            // The watcher emits an error and polls the same stream again, which has ended.
            Read::Failed(_) => {
                self.open = Open::Nothing;
                self.fail()
            }
            Read::Nothing if self.idle_at.is_none_or(|at| self.now < at) => false,
            _ => {
                self.open = Open::Nothing;
                self.state = if initial { State::Empty } else { State::Listed };
                true
            }
        }
    }

    /// Handles an event of the watch. Returns false if the watch has ended.
    fn take(&mut self, event: WatchEvent<SimObject>, initial: bool) -> bool {
        self.failures = 0;
        match event {
            WatchEvent::Added(object) | WatchEvent::Known(object) | WatchEvent::Modified(object) => {
                self.put(object, initial);
            }
            WatchEvent::Deleted(object) => {
                self.version = object.resource_version().clone();
                let number = object.number();
                (self.store[number], self.view[number]) = (None, None);
            }
            WatchEvent::Bookmark { version, initial_events_end } => {
                self.version = version;
                if initial_events_end && initial {
                    self.finish_list();
                    self.state = State::Watching;
                }
            }
            WatchEvent::Error(status) if status.code == 410 => {
                self.open = Open::Nothing;
                self.state = State::Empty;
                return false;
            }
            // The watcher emits an error item and skips events that it cannot decode.
            WatchEvent::Error(_) | WatchEvent::Undecodable(_) | WatchEvent::DeletedUndecodable(_) => {}
            WatchEvent::Rejected { .. } | WatchEvent::Unknown { .. } => {}
        }
        true
    }

    fn put(&mut self, object: Arc<SimObject>, initial: bool) {
        let number = object.number();
        self.view[number] = Some(Arc::clone(&object));
        if initial && matches!(self.state, State::InitialWatch) {
            self.buffer[number] = Some(object);
            return;
        }
        self.version = object.resource_version().clone();
        self.shown = self.shown.max(object.version());
        self.store[number] = Some(object);
    }

    fn pass(&mut self) {
        let dues = [
            self.wait_until,
            self.idle_at,
            self.open.wakes_at(self.network.bookmarks),
            self.server.down_until,
            Some(self.now + Duration::from_secs(60)),
        ];
        self.now = dues.into_iter().flatten().filter(|due| *due > self.now).min().unwrap_or(self.now);
    }

    fn rest(&mut self) {
        self.network.heal();
        self.server.catch_up();
        self.server.down_until = None;
        let end = self.now + MAX_REST;
        while self.now < end {
            if self.step() {
                // The simulated time advances after each step, since this loop would otherwise not end.
                self.now += Duration::from_millis(1);
                continue;
            }
            if self.is_at_rest() {
                return self.compare();
            }
            self.pass();
        }
        let selector = self.network.selector;
        let unreadable =
            self.server.objects.iter().flatten().any(|it| !it.readable && (it.in_view || !selector));
        let refused_streaming = self.streaming && !self.network.streaming;
        self.found.insert(match self.state {
            _ if unreadable && self.unreadable_list => "one undecodable object blocks the list forever",
            _ if refused_streaming => {
                "a streaming list is requested forever from a server without streaming lists"
            }
            _ if self.last_refusal == Some(SourceErrorKind::Expired) => {
                "a watch whose version has expired (status 410) is repeated forever"
            }
            _ if self.is_held_back() => "a server that was restored to an older state is never detected",
            _ => "it never becomes idle, for another reason",
        });
    }

    fn is_at_rest(&mut self) -> bool {
        let peer = Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        let drained = match &self.open {
            Open::Watch(body) => body.is_drained(self.network.selector, &peer) && !body.is_ahead(&peer),
            _ => false,
        };
        drained && matches!(self.state, State::Watching)
    }

    fn compare(&mut self) {
        let selector = self.network.selector;
        let serial = |object: &Option<Arc<SimObject>>| object.as_ref().map(|object| object.serial);
        for number in 0..self.store.len() {
            let truth = &self.server.objects[number];
            let readable = truth.as_ref().is_none_or(|object| object.readable);
            let truth = truth.clone().filter(|object| object.in_view || !selector);
            if readable && serial(&self.store[number]) != serial(&truth) {
                self.found.insert("the store differs from the server");
            }
            if self.store[number].is_none() && self.view[number].is_some() {
                self.found.insert("an object that is missing from a relist is never reported as deleted");
            }
        }
    }
}
