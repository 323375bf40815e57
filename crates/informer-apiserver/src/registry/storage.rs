//! The storage: all objects, their versions, and the history of each kind. It uses neither locks nor clocks.
//!
//! # Invariants
//!
//! 1. `Storage::version` is the resourceVersion of the last commit. Every commit gets the next number.
//! 2. The ring of a table contains the commits of one kind in strictly increasing order, without a gap above
//!    `Table::dropped`.
//! 3. `state at X` + `events in (X, Y]` = `state at Y` for `floor <= X <= Y <= version`.
//! 4. An object is encoded to JSON once, at its commit. Its event, its list item and its metadata are slices
//!    of that encoding. Its protobuf encoding is created at most once, when the first client requests it.

mod encode;
mod event;
mod map;
mod object;
mod wire;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

pub(crate) use encode::{Draft, draft, draft_managed, draft_stored};
pub(crate) use event::{Event, EventType};
pub(crate) use map::OrderedMap;
pub(crate) use object::{ObjectForm, Stored};
pub(crate) use wire::{WireBytes, Wiring};

#[cfg(test)]
mod tests;

/// Maximum number of snapshots that are kept for paged lists. With a snapshot, the next page of a list need
/// not replay the history.
const MAX_PAGED_SNAPSHOTS: usize = 8;

/// Maximum number of removed kinds whose history is kept, for watches that have not yet received all of its
/// events.
const MAX_CLOSED_HISTORIES: usize = 8;

/// Maximum size of the event history of each kind. A watch or an exact list from before the oldest event
/// fails with 410.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Maximum number of changes in the history of a kind.
    pub events: usize,
    /// Maximum size in bytes of the changes in the history of a kind, as encoded JSON. Objects of built-in
    /// kinds count twice, because they may also be cached as protobuf. The oldest changes are dropped when
    /// either limit is exceeded.
    pub bytes: usize,
}

impl Default for History {
    /// 16,384 changes or 256 MiB: about eight seconds of 2,000 writes per second of 6 KB objects. A client
    /// needs less time to list 100,000 such objects.
    fn default() -> Self {
        Self { events: 16_384, bytes: 256 << 20 }
    }
}

/// All objects of all kinds. Their resourceVersions come from one counter.
#[derive(Debug)]
pub(crate) struct Storage {
    version: u64,
    /// The resourceVersion at startup. There is no history before it.
    origin: u64,
    history: History,
    tables: Vec<Table>,
    /// Tables of removed kinds that still have a history, oldest first.
    closed: VecDeque<usize>,
    /// Maps the UID of an owner to the tables and keys of its dependents.
    dependents: HashMap<Box<str>, BTreeSet<DependentKey>>,
}

/// The table and key of a dependent. The dependents of an owner are ordered by them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DependentKey {
    pub(crate) table: usize,
    pub(crate) key: Box<str>,
}

impl DependentKey {
    fn of(table: usize, stored: &Stored) -> Self {
        Self { table, key: stored.key.as_str().into() }
    }
}

#[derive(Debug)]
struct Table {
    live: OrderedMap,
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    /// The oldest resourceVersion at which a watch can start or a list can read.
    floor: u64,
    /// The newest resourceVersion whose event was dropped from the ring.
    dropped: u64,
    paged: VecDeque<(u64, OrderedMap)>,
    /// Incremented whenever all watchers of the kind are disconnected.
    epoch: u64,
    /// The kind was removed. Its watches end after they have received the remaining events.
    closed: bool,
}

/// The memory usage of a [`Storage`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StorageUsage {
    /// Number of stored objects.
    pub(crate) objects: usize,
    /// Number of bytes of the stored objects.
    pub(crate) object_bytes: usize,
    /// Number of bytes of the event history.
    pub(crate) history_bytes: usize,
}

/// The number of objects of one kind, and its event history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableUsage {
    pub(crate) objects: usize,
    /// Number of changes in the event history.
    pub(crate) events: usize,
    /// Number of bytes of the event history.
    pub(crate) history_bytes: usize,
}

/// The error that a requested resourceVersion is older than the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) floor: u64,
}

/// The error that another write has changed, created or removed the object since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Absent,
    At(u64),
}

/// The events that a watcher receives with one read of the history.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub(crate) events: Vec<Arc<Event>>,
    /// The watcher is up to date with this resourceVersion after it has delivered `events`.
    pub(crate) version: u64,
    /// True if the history contains no further events now. The watch continues, and the watcher waits for the
    /// next change.
    pub(crate) complete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The watcher fell behind the history, so it would miss events.
    Lagged { floor: u64 },
    /// All watchers of the kind were disconnected by the server.
    Disconnected,
}

impl Storage {
    pub(crate) fn new(version: u64, history: History) -> Self {
        Self {
            version,
            origin: version,
            history,
            tables: Vec::new(),
            closed: VecDeque::new(),
            dependents: HashMap::new(),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn add_table(&mut self) -> usize {
        self.tables.push(Table {
            live: OrderedMap::default(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            floor: self.origin,
            dropped: 0,
            paged: VecDeque::new(),
            epoch: 0,
            closed: false,
        });
        self.tables.len() - 1
    }

    pub(crate) fn tables(&self) -> usize {
        self.tables.len()
    }

    pub(crate) fn get(&self, table: usize, key: &str) -> Option<&Arc<Stored>> {
        self.tables[table].live.get(key)
    }

    /// Returns the objects of a kind in key order, from the key `start` on.
    pub(crate) fn starting_at(&self, table: usize, start: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.tables[table].live.from(start)
    }

    /// Returns a snapshot of all current objects of a kind.
    pub(crate) fn live(&self, table: usize) -> OrderedMap {
        self.tables[table].live.clone()
    }

    pub(crate) fn epoch(&self, table: usize) -> u64 {
        self.tables[table].epoch
    }

    pub(crate) fn floor(&self, table: usize) -> u64 {
        self.tables[table].floor
    }

    /// Returns the memory usage of the stored objects and of the history. Takes time proportional to the
    /// number of objects.
    pub(crate) fn usage(&self) -> StorageUsage {
        let mut usage = StorageUsage::default();
        for table in &self.tables {
            usage.history_bytes += table.ring_bytes;
            for stored in table.live.iter() {
                usage.objects += 1;
                usage.object_bytes += stored.len();
            }
        }
        usage
    }

    /// Returns the size of the table of one kind, in constant time.
    pub(crate) fn table_usage(&self, table: usize) -> TableUsage {
        let Table { live, ring, ring_bytes, .. } = &self.tables[table];
        TableUsage { objects: live.len(), events: ring.len(), history_bytes: *ring_bytes }
    }

    /// Stores an object if its current state is the expected one.
    pub(crate) fn put(&mut self, table: usize, draft: Draft, expect: Expect) -> Result<Arc<Stored>, Changed> {
        let previous = self.check(table, draft.key.as_str(), expect)?;
        self.version += 1;
        let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
        let stored = Arc::new(draft.seal(self.version, kind));
        self.tables[table].live.insert(Arc::clone(&stored));
        self.index_owners(table, previous.as_deref(), Some(&stored));
        self.record(table, Event::new(self.version, previous, Some(Arc::clone(&stored))));
        Ok(stored)
    }

    /// Removes an object if its resourceVersion is still `seen`. Returns the resourceVersion of the removal.
    pub(crate) fn remove(&mut self, table: usize, key: &str, seen: u64) -> Result<u64, Changed> {
        let previous = self.check(table, key, Expect::At(seen))?;
        self.version += 1;
        self.tables[table].live.remove(key);
        self.index_owners(table, previous.as_deref(), None);
        self.record(table, Event::new(self.version, previous, None));
        Ok(self.version)
    }

    /// Returns the keys of at most `max` dependents of the owner with this UID. They begin with the first
    /// dependent, or with the one that follows the key `after`.
    pub(crate) fn dependents(
        &self,
        uid: &str,
        after: Option<&DependentKey>,
        max: usize,
    ) -> Vec<DependentKey> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.dependents.get(uid);
        let found = all.into_iter().flat_map(|all| all.range((start, Bound::Unbounded)));
        found.take(max).cloned().collect()
    }

    pub(crate) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    fn index_owners(&mut self, table: usize, before: Option<&Stored>, after: Option<&Stored>) {
        let none = Default::default();
        let (old, new) = (before.map_or(&none, |s| &s.owners), after.map_or(&none, |s| &s.owners));
        if old == new {
            return;
        }
        for (uid, stored) in old.iter().zip(before.into_iter().cycle()) {
            if let Some(all) = self.dependents.get_mut(uid) {
                all.remove(&DependentKey::of(table, stored));
                if all.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for (uid, stored) in new.iter().zip(after.into_iter().cycle()) {
            self.dependents.entry(uid.clone()).or_default().insert(DependentKey::of(table, stored));
        }
    }

    fn check(&self, table: usize, key: &str, expect: Expect) -> Result<Option<Arc<Stored>>, Changed> {
        match (self.get(table, key), expect) {
            (None, Expect::Absent) => Ok(None),
            (Some(current), Expect::At(version)) if current.version == version => {
                Ok(Some(Arc::clone(current)))
            }
            _ => Err(Changed),
        }
    }

    fn record(&mut self, table: usize, event: Event) {
        let history = self.history;
        let table = &mut self.tables[table];
        table.ring_bytes += event.cost();
        table.ring.push_back(Arc::new(event));
        while table.ring.len() > history.events || table.ring_bytes > history.bytes {
            table.drop_oldest();
        }
    }

    /// Returns the objects of a kind at the current or an earlier resourceVersion.
    pub(crate) fn at(&self, table: usize, version: u64) -> Result<OrderedMap, TooOld> {
        let table = &self.tables[table];
        if version < table.floor {
            return Err(TooOld { floor: table.floor });
        }
        if let Some((_, map)) = table.paged.iter().find(|(at, _)| *at == version) {
            return Ok(map.clone());
        }
        let mut map = table.live.clone();
        for event in table.ring.iter().rev().take_while(|event| event.version > version) {
            match &event.previous {
                Some(previous) => drop(map.insert(Arc::clone(previous))),
                None => drop(map.remove(event.key())),
            }
        }
        Ok(map)
    }

    /// Keeps a snapshot of a list, so that its continue token can return the next page.
    pub(crate) fn keep_page(&mut self, table: usize, version: u64, map: OrderedMap) {
        let paged = &mut self.tables[table].paged;
        if paged.iter().any(|(at, _)| *at == version) {
            return;
        }
        if paged.len() == MAX_PAGED_SNAPSHOTS {
            paged.pop_front();
        }
        paged.push_back((version, map));
    }

    /// Returns up to `max` events after the resourceVersion `cursor`, for a watcher that started in `epoch`.
    pub(crate) fn pull(&self, table: usize, cursor: u64, epoch: u64, max: usize) -> Result<Pulled, Ended> {
        let version = self.version;
        let table = &self.tables[table];
        if epoch != table.epoch {
            return Err(Ended::Disconnected);
        }
        if cursor < table.dropped {
            return Err(Ended::Lagged { floor: table.floor });
        }
        let first = table.ring.partition_point(|event| event.version <= cursor);
        let events: Vec<_> = table.ring.iter().skip(first).take(max).cloned().collect();
        if table.closed && events.is_empty() {
            return Err(Ended::Disconnected);
        }
        let complete = first + events.len() == table.ring.len();
        let version = match events.last() {
            Some(last) if !complete => last.version,
            _ => version,
        };
        Ok(Pulled { events, version, complete: complete && !table.closed })
    }

    /// Returns the last `max` events of the object with this key in the history of its kind, oldest first.
    pub(crate) fn last_events(&self, table: usize, key: &str, max: usize) -> Vec<Arc<Event>> {
        let newest = self.tables[table].ring.iter().rev().filter(|event| event.key() == key);
        let mut events: Vec<_> = newest.take(max).cloned().collect();
        events.reverse();
        events
    }

    /// Drops the history up to and including `version`. Watches and lists from an earlier resourceVersion
    /// fail with 410.
    pub(crate) fn compact(&mut self, version: u64) {
        for table in &mut self.tables {
            while table.ring.front().is_some_and(|event| event.version <= version) {
                table.drop_oldest();
            }
            table.floor = table.floor.max(version.min(self.version));
            let floor = table.floor;
            table.paged.retain(|(at, _)| *at >= floor);
        }
    }

    /// Increases the resourceVersion to `version`, as a restore from a backup does to make resourceVersions
    /// unique.
    pub(crate) fn skip_to(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// Replaces the encodings of a kind's objects, which keep their resourceVersions. Drops the history and
    /// ends all watches of the kind.
    pub(crate) fn reshape(&mut self, table: usize, drafts: Vec<(Draft, u64)>) {
        for (draft, version) in drafts {
            let same = self.get(table, draft.key()).is_some_and(|stored| stored.version == version);
            if same {
                self.tables[table].live.insert(Arc::new(draft.seal(version, EventType::Modified)));
            }
        }
        let version = self.version;
        let table = &mut self.tables[table];
        while table.ring.front().is_some() {
            table.drop_oldest();
        }
        table.floor = version;
        table.paged.clear();
        table.epoch += 1;
    }

    /// Ends all watches of a removed kind after they have received the remaining events.
    pub(crate) fn close(&mut self, table: usize) {
        self.tables[table].closed = true;
        self.closed.push_back(table);
        if self.closed.len() > MAX_CLOSED_HISTORIES
            && let Some(oldest) = self.closed.pop_front()
        {
            let table = &mut self.tables[oldest];
            while table.ring.front().is_some() {
                table.drop_oldest();
            }
            table.paged.clear();
        }
    }

    pub(crate) fn disconnect(&mut self, table: usize) {
        self.tables[table].epoch += 1;
    }

    /// Replaces all objects, like a restart from a snapshot. The new objects are given by table, with their
    /// resourceVersions. Drops the history and ends all watches.
    ///
    /// The current resourceVersion always increases. It could otherwise stand for two different states, and a
    /// watch from it would miss the difference instead of getting 410.
    pub(crate) fn restore(&mut self, version: u64, mut tables: HashMap<usize, Vec<(Draft, u64)>>) {
        self.version = version.max(self.version + 1);
        self.origin = self.version;
        self.dependents.clear();
        for index in 0..self.tables.len() {
            let mut live = OrderedMap::default();
            for (draft, version) in tables.remove(&index).into_iter().flatten() {
                live.insert(Arc::new(draft.seal(version, EventType::Added)));
            }
            live.iter().for_each(|stored| self.index_owners(index, None, Some(stored)));
            let table = &mut self.tables[index];
            let epoch = table.epoch + 1;
            (table.ring, table.ring_bytes, table.paged) = (VecDeque::new(), 0, VecDeque::new());
            (table.live, table.floor, table.dropped, table.epoch) = (live, self.version, self.version, epoch);
        }
    }

    /// Returns the oldest resourceVersion that [`rewind`](Self::rewind) may restore. A kind without later
    /// changes does not limit it.
    pub(crate) fn rewind_floor(&self) -> u64 {
        let floor = |table: &Table| if table.ring.is_empty() { table.dropped } else { table.floor };
        self.tables.iter().map(floor).max().unwrap_or_default()
    }

    /// Restores the objects and the resourceVersion of an earlier state, like a restore from a backup. Ends
    /// all watches.
    pub(crate) fn rewind(&mut self, version: u64) -> Result<(), TooOld> {
        let changed = |table: &&Table| table.ring.back().is_some_and(|event| event.version > version);
        let dropped = self.tables.iter().any(|table| version < table.dropped);
        if dropped || self.tables.iter().filter(changed).any(|table| version < table.floor) {
            return Err(TooOld { floor: self.rewind_floor() });
        }
        for index in 0..self.tables.len() {
            let live = self.at(index, version.max(self.tables[index].floor))?;
            let table = &mut self.tables[index];
            table.live = live;
            table.paged.retain(|(at, _)| *at <= version);
            let kept = table.ring.partition_point(|event| event.version <= version);
            for event in table.ring.drain(kept..) {
                table.ring_bytes -= event.cost();
            }
            table.floor = table.floor.min(version);
            table.epoch += 1;
        }
        self.version = version;
        self.dependents.clear();
        for table in 0..self.tables.len() {
            let live = self.live(table);
            live.iter().for_each(|stored| self.index_owners(table, None, Some(stored)));
        }
        Ok(())
    }
}

impl Table {
    fn drop_oldest(&mut self) {
        let Some(event) = self.ring.pop_front() else { return };
        self.ring_bytes -= event.cost();
        self.dropped = event.version;
        // As in kube-apiserver's watch cache, a watch may start at the resourceVersion before the oldest
        // event.
        self.floor = self.floor.max(self.ring.front().map_or(event.version, |next| next.version - 1));
        let floor = self.floor;
        self.paged.retain(|(at, _)| *at >= floor);
    }
}
