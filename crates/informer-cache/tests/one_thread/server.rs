//! A small model of an API server with versions, a window of history, lists, watches, compaction, and
//! restores from a backup.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use informer_cache::Undecodable;
use informer_cache::source::WatchEvent;
use informer_cache::testing::{TestObject, object};
use informer_core::Object;
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// The number of object keys. It is small, so that several writes often change the same object.
const KEYS: u32 = 8;

/// The maximum number of past states that the server keeps, so that a lagging replica can return one of them.
const MAX_HISTORY: usize = 12;

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) object: Arc<TestObject>,
    pub(crate) readable: bool,
}

impl State {
    pub(crate) fn undecodable(&self) -> Undecodable {
        let object = &self.object;
        Undecodable::new(Some(object.key().clone()), "unreadable by design")
            .with_version(object.uid(), object.resource_version().clone())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone)]
pub(crate) struct Happened {
    pub(crate) version: u64,
    pub(crate) kind: Kind,
    pub(crate) state: State,
}

impl Happened {
    pub(crate) fn event(&self) -> WatchEvent<TestObject> {
        let object = Arc::clone(&self.state.object);
        match (self.kind, self.state.readable) {
            (Kind::Deleted, false) => WatchEvent::DeletedUndecodable(self.state.undecodable()),
            (_, false) => WatchEvent::Undecodable(self.state.undecodable()),
            (Kind::Added, true) => WatchEvent::Added(object),
            (Kind::Modified, true) => WatchEvent::Modified(object),
            (Kind::Deleted, true) => WatchEvent::Deleted(object),
        }
    }
}

/// All objects of the simulated server as of one resourceVersion.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) objects: BTreeMap<String, State>,
    pub(crate) version: u64,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) now: Content,
    /// Some of the latest states of the server, oldest first. Lagging replicas return them.
    past: VecDeque<Content>,
    /// The changes after the version `compacted`, in order. Watches receive their events from them.
    pub(crate) history: VecDeque<Happened>,
    /// The resourceVersion up to which the history was compacted. Watches from an older version are rejected.
    pub(crate) compacted: u64,
    /// All changes since the start of the run, including those that a restore has undone. The events that
    /// were delivered in a run without faults are compared with it.
    pub(crate) log: Vec<Happened>,
    /// The body of every object state that ever existed, each with a unique text. An event with any other
    /// state makes the test fail.
    pub(crate) ever: HashSet<String>,
    pub(crate) restored: bool,
    serial: u64,
    backup: Content,
}

impl Server {
    pub(crate) fn new() -> Self {
        let mut server = Self::default();
        server.now.version = 100;
        (server.compacted, server.backup.version) = (100, 100);
        server
    }

    pub(crate) fn write(&mut self, unreadable: f64, rng: &mut StdRng) {
        let key = format!("ns/{}", rng.random_range(0..KEYS));
        let held = self.now.objects.get(&key).cloned();
        let kind = match (&held, rng.random_range(0..10)) {
            (None, _) => Kind::Added,
            (Some(_), 0..3) => Kind::Deleted,
            (Some(_), _) => Kind::Modified,
        };
        self.remember();
        self.now.version += rng.random_range(1..4);
        self.serial += 1;
        let (version, text) = (self.now.version, format!("state {}", self.serial));
        let uid = match &held {
            Some(held) => held.object.uid().to_owned(),
            None => format!("uid {}", self.serial),
        };
        let object = object(&key, version).with_uid(uid).with_text(text.as_str());
        let readable = !rng.random_bool(unreadable);
        let state = State { object: Arc::new(object), readable };
        self.ever.insert(text);
        match kind {
            Kind::Deleted => self.now.objects.remove(&key),
            Kind::Added | Kind::Modified => self.now.objects.insert(key, state.clone()),
        };
        let happened = Happened { version, kind, state };
        self.log.push(happened.clone());
        self.history.push_back(happened);
    }

    fn remember(&mut self) {
        self.past.push_back(self.now.clone());
        if self.past.len() > MAX_HISTORY {
            self.past.pop_front();
        }
    }

    pub(crate) fn compact(&mut self, rng: &mut StdRng) {
        let count = rng.random_range(0..=self.history.len());
        for happened in self.history.drain(..count) {
            self.compacted = happened.version;
        }
    }

    pub(crate) fn back_up(&mut self) {
        self.backup = self.now.clone();
    }

    /// Restores the server from a backup. If `well_done` is true, the resource versions jump ahead and every
    /// watch expires. Otherwise the resource versions go back together with the content.
    pub(crate) fn restore(&mut self, well_done: bool) {
        let version = self.now.version + 1000;
        self.now = self.backup.clone();
        self.restored = true;
        if well_done {
            self.now.version = version;
        }
        self.past.clear();
        self.history.clear();
        self.compacted = self.now.version;
        self.backup = self.now.clone();
    }

    /// Returns the objects that a random replica of the server shows. The replica may lag, but its version is
    /// at least `not_before`, unless the server has not reached that version.
    pub(crate) fn any_content(&self, not_before: u64, rng: &mut dyn Rng) -> Content {
        let fits = self.past.iter().chain([&self.now]).filter(|content| content.version >= not_before);
        let fits: Vec<_> = fits.collect();
        match fits.len() {
            0 => self.now.clone(),
            count => fits[rng.random_range(0..count)].clone(),
        }
    }

    pub(crate) fn content_at(&self, version: u64) -> Option<Content> {
        self.past.iter().chain([&self.now]).find(|content| content.version == version).cloned()
    }

    pub(crate) fn after(&self, version: u64) -> Option<&Happened> {
        self.history.iter().find(|happened| happened.version > version)
    }
}
