//! Tests of `ReflectorState` without a runtime: random inputs with invariants that are checked after each
//! input, and a model server whose state the reflector must follow through broken connections, expired
//! versions and lags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Change;
use crate::reflector::state::{Effects, Input, ReflectorAction, ReflectorState};
use crate::reflector::{Paging, ReflectorConfig, ReflectorPhase, SHORT_WATCH, StreamingList};
use crate::source::{ListEnd, ListPart, Listed, SourceErrorKind, WatchEvent};
use crate::testing::{
    TestObject, added, bookmark, deleted, error_event, failure, initial_events_end, modified, object,
};

/// Returns the start of the simulated time. Any instant works, since the state only compares instants and
/// adds durations.
fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

const KINDS: [SourceErrorKind; 10] = [
    SourceErrorKind::Expired,
    SourceErrorKind::EncodingChanged,
    SourceErrorKind::VersionTooLarge,
    SourceErrorKind::TooManyRequests,
    SourceErrorKind::Unavailable,
    SourceErrorKind::ConnectionRefused,
    SourceErrorKind::Connection,
    SourceErrorKind::Forbidden,
    SourceErrorKind::Rejected,
    SourceErrorKind::Protocol,
];

/// A random decision of the test for one step of the reflector. `what` and the current action of the
/// reflector select the kind of the input; the other fields provide the input's error, version and delay.
#[derive(Debug, Clone)]
struct Turn {
    what: u8,
    kind: usize,
    version: u64,
    pause_ms: u64,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn =
        (0..12_u8, 0..KINDS.len(), 0..40_u64, prop_oneof![Just(0_u64), 0..5000_u64, Just(400_000_u64)])
            .prop_map(|(what, kind, version, pause_ms)| Turn { what, kind, version, pause_ms });
    prop::collection::vec(turn, 1..120)
}

struct Script {
    state: ReflectorState<TestObject>,
    now: Instant,
    rng: StdRng,
    /// True if the server has accepted the last request of the reflector, so that it may read the response.
    /// If it sends the same request again after that, this counts as another request.
    opened: bool,
    listing: bool,
    /// Number of requests that the reflector has sent without a pause: since the clock last advanced, a wait
    /// last ended, or data was last delivered. The test fails if it exceeds a limit, because the reflector
    /// must not send requests in a loop.
    requests_at_once: u32,
    request: Option<ReflectorAction>,
}

impl Script {
    fn new(config: ReflectorConfig, seed: u64) -> Self {
        let now = start();
        let mut state = ReflectorState::new(Arc::new(config), now);
        state.set_streaming_supported(true);
        let rng = StdRng::seed_from_u64(seed);
        Self { state, now, rng, opened: false, listing: false, requests_at_once: 0, request: None }
    }

    fn play(&mut self, turn: &Turn) {
        let step = self.state.step();
        let until = step.until.expect("every step except the last has a deadline");
        self.note_request(&step.action);
        if turn.pause_ms > 0 && step.action != ReflectorAction::Wait {
            self.now = (self.now + Duration::from_millis(turn.pause_ms)).min(until);
            self.requests_at_once = 0;
        }
        let input = match (&step.action, turn.what) {
            (_, 11) => Input::RelistRequested,
            (ReflectorAction::Wait, _) => {
                (self.now, self.requests_at_once) = (self.now.max(until), 0);
                Input::Timer
            }
            (_, 10) => {
                (self.now, self.requests_at_once) = (self.now.max(until), 0);
                Input::Timer
            }
            (_, 9) => Input::Failed(failure(KINDS[turn.kind])),
            (ReflectorAction::Read, _) if self.listing => self.list_input(turn),
            (ReflectorAction::Read, _) => self.watch_input(turn),
            _ => Input::Opened,
        };
        self.handle(input);
    }

    fn note_request(&mut self, action: &ReflectorAction) {
        match action {
            ReflectorAction::List(_) | ReflectorAction::Watch(_) => {
                if self.request.as_ref() != Some(action) || self.opened {
                    self.requests_at_once += 1;
                }
                self.listing = matches!(action, ReflectorAction::List(_));
                (self.request, self.opened) = (Some(action.clone()), false);
            }
            ReflectorAction::Read => assert!(self.opened, "a read without an open request"),
            ReflectorAction::Wait | ReflectorAction::Done => (self.request, self.opened) = (None, false),
        }
        assert!(self.requests_at_once <= 6, "a storm of requests: {:?}", self.state);
        if let ReflectorAction::Watch(plan) = action {
            let last = &self.state.status().last_version;
            assert!(!plan.send_initial_events || !plan.version.is_any(), "a streaming list at version 0");
            assert!(plan.version == *last || plan.version.is_empty(), "{plan:?} after {last}");
        }
    }

    fn list_input(&mut self, turn: &Turn) -> Input<TestObject> {
        let token = (turn.what == 1).then(|| turn.version.to_string());
        match turn.what {
            0..=2 => {
                let version = ResourceVersion::from(turn.version);
                Input::Part(ListPart::End(ListEnd { version, continue_token: token, remaining: None }))
            }
            3 => Input::Ended,
            _ => {
                self.requests_at_once = 0;
                let keys = [turn.version % 7, turn.version % 5];
                let items =
                    keys.map(|key| Listed::Fresh(Arc::new(object(&format!("ns/{key}"), turn.version))));
                Input::Part(ListPart::Items(items.into()))
            }
        }
    }

    fn watch_input(&mut self, turn: &Turn) -> Input<TestObject> {
        let subject = object(&format!("ns/{}", turn.version % 7), turn.version);
        let event = match turn.what {
            0 | 1 => return Input::Ended,
            2 => initial_events_end(turn.version),
            3 => error_event([410, 429, 500, 403][turn.kind % 4], ""),
            4 => bookmark(turn.version),
            5 => deleted(subject),
            6 => modified(subject),
            _ => added(subject),
        };
        // Data from the server resets the count of requests without a pause. An `ERROR` event is no data, so
        // a reflector that answers each one with an immediate request exceeds the limit.
        if turn.what != 3 {
            self.requests_at_once = 0;
        }
        Input::Events(vec![event])
    }

    fn handle(&mut self, input: Input<TestObject>) {
        let before = self.state.status().clone();
        let closed = matches!(input, Input::Ended);
        let is_request = matches!(input, Input::RelistRequested);
        let needless = is_request && self.state.reads_truth();
        let step = self.state.step();
        let in_time = before.phase == ReflectorPhase::Watching && closed;
        self.opened |= matches!(input, Input::Opened);
        let ends_list = matches!(&input, Input::Part(ListPart::End(_)) | Input::Events(_));
        let effects = self.state.handle(input, self.now, &mut self.rng);
        assert!(!needless || self.state.step() == step, "a consistent list was already in progress");
        let after = self.state.status();
        let back = after.last_version.is_older_than(&before.last_version);
        assert!(
            !back || after.rewound > before.rewound,
            "{} after {}",
            after.last_version,
            before.last_version
        );
        assert!(before.last_version.is_empty() || !after.last_version.is_empty(), "the version was lost");
        let relisted = after.relists.total() - before.relists.total();
        assert!(!in_time || relisted == 0, "a list without a delay after a closed watch");
        assert_eq!(after.phase == ReflectorPhase::BackingOff, after.next_attempt_at.is_some());
        let waited = before.next_attempt_at.filter(|_| is_request);
        assert!(waited.is_none_or(|at| after.next_attempt_at >= Some(at)), "a request cut a wait short");
        let lists: Vec<_> =
            effects.changes.iter().filter(|change| matches!(change, Change::Replaced(_))).collect();
        assert!(lists.len() <= usize::from(ends_list), "a list that is not complete");
        assert!(after.synced || effects.changes.is_empty(), "changes before a list");
        for list in lists {
            check_replacement(list, &before.last_version);
        }
    }
}

fn check_replacement(change: &Change<TestObject>, seen: &ResourceVersion) {
    let Change::Replaced(list) = change else { return };
    let keys: BTreeSet<_> = list.items.iter().map(|item| item.object().key().clone()).collect();
    assert_eq!(keys.len(), list.items.len(), "a duplicate key");
    assert_eq!(list.version.is_older_than(seen), list.rewound, "{} after {seen}", list.version);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn versions_requests_and_lists_keep_their_invariants_for_all_inputs(
        turns in turns(),
        seed: u64,
        streaming in prop_oneof![Just(StreamingList::Off), Just(StreamingList::Auto)],
        paging in prop_oneof![Just(Paging::Auto), Just(Paging::Always)],
    ) {
        let mut config = ReflectorConfig::named("test");
        (config.streaming_list, config.paging) = (streaming, paging);
        config.resync_period = Some(Duration::from_secs(3));
        let mut script = Script::new(config, seed);
        for turn in &turns {
            script.play(turn);
        }
        script.state.handle(Input::Stop, script.now, &mut script.rng);
        prop_assert_eq!(script.state.step().action, ReflectorAction::Done);
    }

    #[test]
    fn a_failing_reflector_sends_fewer_and_fewer_requests(seed: u64, kind in 0..KINDS.len(), streaming: bool) {
        let mut config = ReflectorConfig::named("test");
        config.streaming_list = if streaming { StreamingList::On } else { StreamingList::Off };
        let mut script = Script::new(config, seed);
        let (begin, mut requests) = (script.now, 0_u32);
        while script.now < begin + Duration::from_secs(3600) {
            let step = script.state.step();
            match step.action {
                ReflectorAction::Wait => {
                    script.now = script.now.max(step.until.expect("a wait ends"));
                    script.handle(Input::Timer);
                }
                _ => {
                    requests += 1;
                    // If every request fails, the backoff must limit the number of requests. In an hour there
                    // are at most 120 waits of 30 s or more, and about ten shorter ones before them. Each
                    // wait is followed by at most four requests.
                    prop_assert!(requests < 4 * 130, "{} requests", requests);
                    script.handle(Input::Failed(failure(KINDS[kind])));
                }
            }
        }
        prop_assert!(requests > 40, "{} requests in an hour", requests);
    }
}

#[derive(Default)]
struct Model {
    version: u64,
    objects: BTreeMap<String, u64>,
    history: Vec<(u64, WatchEvent<TestObject>)>,
    /// The oldest version from which a watch can start. A watch from an older version is rejected as expired.
    oldest: u64,
}

impl Model {
    fn change(&mut self, rng: &mut StdRng) {
        let key = format!("ns/{}", rng.random_range(0..12));
        self.version += 1;
        let subject = object(&key, self.version);
        let event = match self.objects.contains_key(&key) {
            true if rng.random_bool(0.4) => {
                self.objects.remove(&key);
                deleted(subject)
            }
            known => {
                self.objects.insert(key, self.version);
                if known { modified(subject) } else { added(subject) }
            }
        };
        self.history.push((self.version, event));
        if rng.random_bool(0.03) {
            self.oldest = self.version;
            self.history.clear();
        }
    }

    fn present(&self) -> impl Iterator<Item = TestObject> + '_ {
        self.objects.iter().map(|(key, version)| object(key, *version))
    }
}

/// The cache of a consumer that applies the changes which the reflector queues: the version of each object by
/// key.
#[derive(Default)]
struct View(BTreeMap<String, u64>);

impl View {
    fn apply(&mut self, effects: Effects<TestObject>) {
        let version = |object: &TestObject| {
            object.resource_version().as_u64().expect("the model's versions are numbers")
        };
        for change in effects.changes {
            match change {
                Change::Added(object) | Change::Updated(object) => {
                    self.0.insert(object.key().to_string(), version(&object));
                }
                Change::Deleted(tombstone) => {
                    self.0.remove(tombstone.key().as_str());
                }
                Change::Replaced(list) => {
                    let items = list.items.into_iter().map(Listed::into_object);
                    self.0 = items.map(|object| (object.key().to_string(), version(&object))).collect();
                }
                _ => {}
            }
        }
    }
}

#[derive(Default)]
struct Connection {
    list: Option<Vec<ListPart<TestObject>>>,
    /// The version up to which the open watch has sent the events of the model server; `None` if no watch is
    /// open.
    at: Option<u64>,
    /// The initial events of an open streaming list that were not sent yet; `None` after its final bookmark.
    initial: Option<Vec<WatchEvent<TestObject>>>,
}

impl Connection {
    fn respond(
        &mut self,
        action: &ReflectorAction,
        model: &mut Model,
        calm: bool,
        rng: &mut StdRng,
    ) -> Input<TestObject> {
        let refused = !calm && rng.random_bool(0.1);
        match action {
            _ if refused => Input::Failed(failure(KINDS[rng.random_range(0..KINDS.len())])),
            ReflectorAction::List(_) => {
                let mut items: Vec<_> =
                    model.present().map(|object| Listed::Fresh(Arc::new(object))).collect();
                let rest = items.split_off(items.len() / 2);
                let version = model.version.into();
                let end = ListEnd { version, ..ListEnd::default() };
                let parts = vec![ListPart::End(end), ListPart::Items(rest), ListPart::Items(items)];
                *self = Self { list: Some(parts), ..Self::default() };
                Input::Opened
            }
            ReflectorAction::Watch(plan) if plan.send_initial_events => {
                let initial = model.present().map(added).collect();
                *self = Self { list: None, at: Some(model.version), initial: Some(initial) };
                Input::Opened
            }
            ReflectorAction::Watch(plan) => {
                let from = plan.version.as_u64().unwrap_or_default();
                if from < model.oldest {
                    return Input::Failed(failure(SourceErrorKind::Expired));
                }
                *self = Self { at: Some(from), ..Self::default() };
                Input::Opened
            }
            _ => self.read(model, calm, rng),
        }
    }

    fn read(&mut self, model: &mut Model, calm: bool, rng: &mut StdRng) -> Input<TestObject> {
        if !calm && rng.random_bool(0.08) {
            return if rng.random_bool(0.5) {
                Input::Ended
            } else {
                Input::Failed(failure(SourceErrorKind::Connection))
            };
        }
        if let Some(part) = self.list.as_mut().and_then(Vec::pop) {
            return Input::Part(part);
        }
        let at = self.at.expect("a watch is open");
        if let Some(mut events) = self.initial.take() {
            events.push(initial_events_end(at));
            return Input::Events(events);
        }
        if at < model.oldest {
            return Input::Events(vec![error_event(410, "Expired")]);
        }
        let position = model.history.iter().position(|(version, _)| *version > at);
        let Some(position) = position else { return Input::Timer };
        self.at = Some(model.history[position].0);
        Input::Events(vec![clone_event(&model.history[position].1)])
    }
}

fn clone_event(event: &WatchEvent<TestObject>) -> WatchEvent<TestObject> {
    match event {
        WatchEvent::Added(object) => added(Arc::clone(object)),
        WatchEvent::Modified(object) => modified(Arc::clone(object)),
        WatchEvent::Deleted(object) => deleted(Arc::clone(object)),
        other => unreachable!("the model sends no {other:?}"),
    }
}

fn follow(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut config = ReflectorConfig::named("test");
    config.streaming_list = if seed.is_multiple_of(2) { StreamingList::Auto } else { StreamingList::Off };
    let mut now = start();
    let mut state = ReflectorState::new(Arc::new(config), now);
    state.set_streaming_supported(true);
    let (mut model, mut view, mut connection) = (Model::default(), View::default(), Connection::default());
    (0..20).for_each(|_| model.change(&mut rng));
    for round in 0..1000 {
        let calm = round >= 700;
        if !calm && rng.random_bool(0.5) {
            model.change(&mut rng);
        }
        let step = state.step();
        let input = match step.action {
            ReflectorAction::Wait => {
                now = now.max(step.until.expect("a wait ends"));
                Input::Timer
            }
            action => connection.respond(&action, &mut model, calm, &mut rng),
        };
        now += if calm { SHORT_WATCH } else { Duration::from_millis(rng.random_range(0..50)) };
        view.apply(state.handle(input, now, &mut rng));
    }
    assert_eq!(view.0, model.objects, "seed {seed}");
    assert_eq!(state.status().last_version.as_u64(), Some(model.version), "seed {seed}");
    assert_eq!((state.status().rewound, state.status().stale_lists), (0, 0), "seed {seed}");
}

#[test]
fn a_consumer_of_the_queue_ends_with_the_state_of_the_server() {
    (0..300).for_each(follow);
}
