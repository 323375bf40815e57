//! A model of an API server: resource versions, a window of history, lagging replicas, compaction and
//! backups.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::object::{Parts, SimObject};
use crate::random::Random;
use crate::script::Setup;

pub(crate) type Content = Vec<Option<Arc<SimObject>>>;

#[derive(Clone)]
pub(crate) struct Happened {
    pub(crate) version: u64,
    pub(crate) key: usize,
    pub(crate) old: Option<Arc<SimObject>>,
    pub(crate) new: Option<Arc<SimObject>>,
}

pub(crate) struct Server {
    pub(crate) version: u64,
    pub(crate) objects: Content,
    /// The changes after the version `compacted`, in order.
    pub(crate) history: VecDeque<Happened>,
    /// The compacted version. Watches from before it are rejected.
    pub(crate) compacted: u64,
    /// The version of the newest change that was removed from the history. An open watch that has not sent
    /// this change has missed it.
    pub(crate) forgotten: u64,
    /// For each replica, the version at which it lags; `None` if the replica is up to date.
    lags: Vec<Option<u64>>,
    window: usize,
    pub(crate) down_until: Option<Instant>,
    pub(crate) restored: bool,
    /// Number of restores so far. Continue tokens from before a restore are invalid.
    pub(crate) epoch: u32,
    backup: (u64, Content),
    serial: u32,
    uids: u32,
}

const VERSION_FIRST: u64 = 100;

/// The number by which resource versions jump ahead when a backup is restored correctly.
const RESTORE_JUMP: u64 = 1_000_000_000;

impl Server {
    pub(crate) fn new(setup: &Setup, random: &mut Random) -> Self {
        let keys = setup.keys as usize;
        let mut server = Self {
            version: VERSION_FIRST,
            objects: vec![None; keys],
            history: VecDeque::new(),
            compacted: VERSION_FIRST,
            forgotten: 0,
            lags: vec![None; setup.replicas as usize],
            window: 10 * setup.window as usize,
            down_until: None,
            restored: false,
            epoch: 0,
            backup: (VERSION_FIRST, vec![None; keys]),
            serial: 0,
            uids: 0,
        };
        for key in 0..(setup.first as usize).min(keys) {
            server.version += 1;
            let in_view = !random.one_in(4);
            server.objects[key] = Some(Arc::new(server.make(key, None, in_view, random)));
        }
        server.compacted = server.version;
        server.back_up();
        server
    }

    /// Returns the next state of an object from its old state. Without an old state, returns a new object.
    fn make(
        &mut self,
        number: usize,
        old: Option<&SimObject>,
        in_view: bool,
        random: &mut Random,
    ) -> SimObject {
        use informer_core::Object;
        self.serial += 1;
        let uid = match old {
            Some(old) => u32::from_str_radix(old.uid(), 16).unwrap_or_default(),
            None => {
                self.uids += 1;
                self.uids
            }
        };
        let colour = random.below(4) as u8;
        let (version, serial) = (self.version, self.serial);
        SimObject::new(Parts { number, uid, version, serial, colour, in_view, readable: true })
    }

    pub(crate) fn put(&mut self, key: usize, readable: bool, random: &mut Random) {
        let old = self.objects[key].clone();
        let in_view = old.as_ref().map_or_else(|| !random.one_in(4), |old| old.in_view);
        self.put_as(key, in_view, readable, random);
    }

    pub(crate) fn put_as(&mut self, key: usize, in_view: bool, readable: bool, random: &mut Random) {
        let old = self.objects[key].clone();
        self.version += 1 + random.below(3) as u64;
        let mut new = self.make(key, old.as_deref(), in_view, random);
        new.readable = readable;
        let new = Some(Arc::new(new));
        self.objects[key].clone_from(&new);
        self.happened(key, old, new);
    }

    pub(crate) fn delete(&mut self, key: usize, random: &mut Random) {
        if let Some(old) = self.objects[key].take() {
            self.version += 1 + random.below(3) as u64;
            self.happened(key, Some(old), None);
        }
    }

    fn happened(&mut self, key: usize, old: Option<Arc<SimObject>>, new: Option<Arc<SimObject>>) {
        self.history.push_back(Happened { version: self.version, key, old, new });
        if self.history.len() > self.window {
            self.forget(1);
        }
    }

    fn forget(&mut self, count: usize) {
        for happened in self.history.drain(..count) {
            (self.compacted, self.forgotten) = (happened.version, happened.version);
        }
        let compacted = self.compacted;
        self.lags.iter_mut().flatten().for_each(|lag| *lag = (*lag).max(compacted));
    }

    /// Removes some history: compacts at most all versions below the present one.
    pub(crate) fn compact(&mut self, random: &mut Random) {
        let length = self.history.len();
        let count = if random.one_in(2) { length } else { random.below(length + 1) };
        self.forget(count);
        if count == length {
            self.compacted = self.version;
            // All replicas count as up to date. They have advanced at least to the compacted version, because
            // they could not serve a list otherwise.
            self.lags.fill(None);
        }
    }

    /// Increases the current resourceVersion, as many writes of other objects do.
    pub(crate) fn jump(&mut self, by: u64) {
        self.version = self.version.saturating_add(by);
    }

    pub(crate) fn back_up(&mut self) {
        self.backup = (self.version, self.objects.clone());
    }

    /// Restores the backup. In a correct restore, resource versions jump ahead and all old versions expire.
    /// Otherwise the resource versions go back together with the content.
    pub(crate) fn restore(&mut self, ahead: bool) {
        let (version, objects) = self.backup.clone();
        self.objects = objects;
        self.begin_anew(if ahead { self.version.saturating_add(RESTORE_JUMP) } else { version });
    }

    pub(crate) fn wipe(&mut self) {
        self.objects.fill(None);
        self.begin_anew(VERSION_FIRST);
        self.back_up();
    }

    fn begin_anew(&mut self, version: u64) {
        self.restored = true;
        self.epoch += 1;
        self.version = version;
        self.restart();
    }

    /// Clears the caches of the replicas, as a restart of the API server does.
    pub(crate) fn restart(&mut self) {
        self.history.clear();
        self.forgotten = 0;
        self.compacted = self.version;
        self.lags.fill(None);
    }

    pub(crate) fn lag_or_catch_up(&mut self, random: &mut Random) -> bool {
        let replica = random.below(self.lags.len());
        let lag = match self.lags[replica] {
            None => Some(self.version),
            Some(_) => None,
        };
        self.lags[replica] = lag;
        lag.is_some()
    }

    pub(crate) fn catch_up(&mut self) {
        self.lags.fill(None);
    }

    pub(crate) fn replicas(&self) -> usize {
        self.lags.len()
    }

    pub(crate) fn at(&self, replica: usize) -> u64 {
        self.lags[replica].unwrap_or(self.version)
    }

    /// Returns the objects as of a version; `None` if that version is compacted.
    pub(crate) fn content_at(&self, version: u64) -> Option<Content> {
        if version < self.compacted {
            return None;
        }
        let mut content = self.objects.clone();
        for happened in self.history.iter().rev().take_while(|happened| happened.version > version) {
            content[happened.key].clone_from(&happened.old);
        }
        Some(content)
    }

    pub(crate) fn after(&self, version: u64) -> Option<&Happened> {
        let index = self.history.partition_point(|happened| happened.version <= version);
        self.history.get(index)
    }

    /// Returns the changes of a key with versions above `after` and up to `until`.
    pub(crate) fn happened_to(&self, key: usize, after: u64, until: u64) -> bool {
        self.history.iter().any(|it| it.key == key && it.version > after && it.version <= until)
    }
}
