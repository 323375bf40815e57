//! The pump: applies changes to an informer's store, as its only writer.
//!
//! A pump has no clock and no lock, and never waits; its only side effects are on the store. It takes changes
//! in the order of the source, writes one store transaction for all of them, and returns the events for the
//! handlers.
//!
//! # Invariants
//!
//! 1. The content of the store decides which event is announced, not the type of the change: a cached object
//!    is updated, any other object is added.
//! 2. For each key the events are legal: no update or delete before an add, and `old` is the state announced
//!    last.
//! 3. An event is returned only after the store shows its state or a later one.
//! 4. The cached state of one uid never goes back, except by a list that is newer than the store, or by a
//!    consistent read after a `resourceVersion` regression of the server ([`Replacement::rewound`]).
//! 5. A state that is already cached (same uid, same version) is neither stored nor announced again, with
//!    three exceptions: it is complete and the cached one is partial ([`Object::is_partial`]); it is part of
//!    a list that is authoritative or whose objects were all decoded again ([`Replacement::rewound`],
//!    [`Replacement::reread`]); or the server meanwhile went back to an older, undecodable state and may have
//!    used the version again for other content.
//! 6. The version of the store goes back only when a list is applied.
//! 7. An event that is older than the store never adds an object that is not cached.
//!
//! Invariants 4, 6 and 7 no longer hold once the lists of the source have shown that its versions have no
//! order (see `order.rs`).

mod order;
mod replace;
mod staged;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use informer_core::{Object, ObjectKey, ResourceVersion, Tombstone};
use informer_store::{Indexer, StoreChange, StoreWriter};

use self::order::VersionOrder;
use self::staged::Staged;
use crate::{Change, Event, Undecodable, UndecodableLog};

/// Applies changes to a store and returns the events for the handlers.
pub struct Pump<O: Object> {
    writer: StoreWriter<O>,
    undecodable: UndecodableLog,
    /// The cached objects whose current state on the server could not be decoded. The `UndecodableLog` cannot
    /// replace this map. The log has a size limit, and it also contains lazily decoded objects that are
    /// cached in their current state and whose decoding failed at the first access.
    superseded: HashMap<ObjectKey, Superseded>,
    counters: PumpCounters,
    /// True until the first list of a run of the informer has been applied. Objects that this list adds are
    /// announced as initial, and the cache is synced after it.
    initial: bool,
    /// Number of consecutive lists that the pump did not apply, because they were older than the store. While
    /// it is not 0, the pump drops changes other than lists and resyncs. Once it is `MAX_STALE_LISTS`, the
    /// next list is applied even if it is older.
    refused: u32,
    /// True if the last applied list had a numeric resourceVersion, so that all later changes have higher
    /// versions than the list. Only then can an event for an object that is not cached be recognized as late.
    ordered: bool,
    /// Decides from the events and lists received so far whether the resource versions of the source can be
    /// compared.
    order: VersionOrder,
    informer: Arc<str>,
}

/// The counters of a pump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PumpCounters {
    /// Number of changes that the pump has taken from the queue.
    pub changes: u64,
    /// Number of lists that the pump has applied.
    pub lists: u64,
    /// Number of events that were older than the cached state and therefore not applied, and of changes that
    /// were dropped because they followed a list that was not applied.
    pub stale: u64,
    /// Number of events and listed objects whose state was already cached.
    pub unchanged: u64,
    /// Number of deletions of objects that were not cached. An informer with a filter also counts each
    /// change of an object that the filter rejects and that is not cached.
    pub unknown_deletes: u64,
    /// Number of lists that were older than the cached state and therefore not applied.
    pub stale_lists: u64,
    /// Number of applied lists that were older than the store, or that showed an older state of a cached
    /// object, for example after the server was restored from a backup.
    pub rewound: u64,
    /// Number of bytes of the cached objects, as counted by [`Object::held_bytes`].
    pub bytes: u64,
}

/// The result of applying changes to the store.
pub struct Applied<O> {
    /// The events for the handlers, in order.
    pub events: Vec<Event<O>>,
    /// True if the changes contain the first list of the informer's run. From now on the cache is synced.
    pub first_list: bool,
    /// True if a change or a list was older than the cached state. Either the server lags, or its resource
    /// versions went back; only a consistent read can decide which. The caller requests one from the
    /// reflector.
    pub suspect: bool,
    /// True if the applied changes contain the last of several consecutive lists that contradict the order of
    /// the source's versions. From now on versions are not compared, and the caller reports that to the
    /// reflector.
    pub unordered: bool,
    /// True if the changes contain a resync: the caller replays the cached objects to the handlers.
    pub resync: bool,
}

/// Describes the current state on the server of a cached object, if that state could not be decoded. Later
/// events are compared with the version of this state instead of the cached one.
struct Superseded {
    version: ResourceVersion,
    /// True if the server went back to an older state since the cached state was current. The server may then
    /// assign the version of the cached state again, to other content.
    went_back: bool,
}

impl<O: Object> Pump<O> {
    /// Returns a pump that writes to a store. Undecodable objects are recorded in `undecodable`.
    pub fn new(writer: StoreWriter<O>, undecodable: UndecodableLog) -> Self {
        Self {
            writer,
            undecodable,
            superseded: HashMap::new(),
            counters: PumpCounters::default(),
            initial: true,
            refused: 0,
            ordered: false,
            order: VersionOrder::default(),
            informer: Arc::default(),
        }
    }

    /// Sets the name of the informer for warnings of the pump.
    #[must_use]
    pub fn named(mut self, informer: impl Into<Arc<str>>) -> Self {
        self.informer = informer.into();
        self
    }

    /// Returns a read handle of the pump's store.
    pub fn indexer(&self) -> Indexer<O> {
        self.writer.indexer().clone()
    }

    /// Returns the pump's counters so far.
    pub fn counters(&self) -> &PumpCounters {
        &self.counters
    }

    /// Begins a new run of the informer. Its first list makes the cache synced. Cached objects stay, and that
    /// list is compared with them.
    pub fn begin_run(&mut self) {
        (self.initial, self.refused) = (true, 0);
    }

    /// Applies changes in their order. All changes between two lists are written in one transaction of the
    /// store.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change<O>>) -> Applied<O> {
        let mut staged = Staged::new();
        for change in changes {
            self.counters.changes += 1;
            if self.refused > 0 && !matches!(change, Change::Replaced(_) | Change::Resync) {
                // The pump has refused a list as older than the store and has requested a newer one. Changes
                // that follow the refused list are dropped, because the requested list is newer than they
                // are.
                self.counters.stale += 1;
                continue;
            }
            match change {
                Change::Added(object) | Change::Updated(object) => {
                    self.advance(&mut staged, object.resource_version());
                    self.upsert(&mut staged, object, ObjectOrigin::Watch);
                }
                Change::Deleted(tombstone) => self.delete(&mut staged, tombstone),
                Change::Replaced(replacement) => {
                    // A list is compared with the store. The changes before it in the batch must therefore be
                    // written to the store first.
                    self.commit(&mut staged);
                    self.replace(&mut staged, replacement);
                    self.commit(&mut staged);
                }
                Change::Resync => staged.applied.resync = true,
                Change::Bookmark(version) => self.advance(&mut staged, &version),
                Change::Undecodable(undecodable) => self.unread(&mut staged, undecodable),
            }
        }
        self.commit(&mut staged);
        staged.applied
    }

    /// Moves the resourceVersion of the store forward. The version of a late event does not move it back;
    /// only a list does.
    fn advance(&self, staged: &mut Staged<O>, version: &ResourceVersion) {
        let older = match &staged.version {
            Some(staged) => self.order.is_older(version, staged),
            None => self.order.is_older(version, &self.writer.resource_version()),
        };
        if !older && !version.is_empty() {
            staged.version = Some(version.clone());
        }
    }

    /// Returns the newest known resourceVersion of a cached object. If the current state of the object is
    /// undecodable, this is the version of the undecodable state. After a restore of the server, that version
    /// may even be lower than the cached one.
    fn newest<'a>(&'a self, held: &'a O) -> &'a ResourceVersion {
        let undecodable = self.superseded.get(held.key()).map(|superseded| &superseded.version);
        undecodable.filter(|version| !version.is_empty()).unwrap_or_else(|| held.resource_version())
    }

    /// Returns the state that a key has after the changes staged by this call of `apply`, which the store
    /// does not contain yet.
    fn current(&self, staged: &Staged<O>, key: &ObjectKey) -> Option<Arc<O>> {
        match staged.writes.get(key) {
            Some(state) => state.clone(),
            None => self.writer.get(key),
        }
    }

    fn upsert(&mut self, staged: &mut Staged<O>, object: Arc<O>, origin: ObjectOrigin) {
        let key = object.key();
        let Some(old) = self.current(staged, key) else {
            if origin == ObjectOrigin::Watch && self.is_late(staged, object.resource_version()) {
                // The event is late and its object is not cached. Either the object was deleted after this
                // event, or the event of its creation arrives late. Only a list can decide which.
                self.counters.stale += 1;
                staged.applied.suspect = true;
                self.order.refuse(&*object);
                return;
            }
            let initial = self.initial && origin.is_list();
            staged.applied.events.push(Event::Added { object: Arc::clone(&object), initial });
            return self.put(staged, None, object);
        };
        let (same_object, version) = (old.uid() == object.uid(), object.resource_version());
        let older = self.order.is_older(version, self.newest(&old));
        if older && origin == ObjectOrigin::Watch {
            self.counters.stale += 1;
            staged.applied.suspect = true;
            self.order.refuse(&*object);
            return;
        }
        // An applied list is newer than the cached state, or authoritative. If the list shows an older state
        // of an object, the server was restored from a backup, and its resource versions were moved ahead.
        staged.went_back |= older;
        let trusted = origin != (ObjectOrigin::List { in_full: true });
        if trusted
            && same_object
            && !version.is_empty()
            && version == old.resource_version()
            && !completes(&old, &object)
            && !self.went_back_from(&old)
        {
            self.counters.unchanged += 1;
            // A restore of the server may have undone the later, undecodable state of this object, so that
            // state is forgotten.
            self.forget_undecodable(object.key());
            return;
        }
        let (old, new) = (Arc::clone(&old), Arc::clone(&object));
        if same_object {
            staged.applied.events.push(Event::Updated { old, new, resync: false });
        } else {
            // The uid differs: the watch missed the deletion of the first object, and the second object with
            // the same name reveals it.
            staged.applied.events.push(Event::Deleted { last: old, stale: true });
            staged.applied.events.push(Event::Added { object: new, initial: false });
        }
        let held = self.current(staged, object.key());
        self.put(staged, held, object);
    }

    /// Returns true if an event arrives after events with later versions. A watch that follows a list
    /// delivers no late events, unless its server repeats events.
    fn is_late(&self, staged: &Staged<O>, version: &ResourceVersion) -> bool {
        self.ordered
            && match &staged.version {
                Some(staged) => self.order.is_older(version, staged),
                None => self.order.is_older(version, &self.writer.resource_version()),
            }
    }

    fn put(&mut self, staged: &mut Staged<O>, old: Option<Arc<O>>, object: Arc<O>) {
        staged.count_bytes(old.as_deref(), Some(&object));
        // The record that the object is undecodable is removed at once. A later change of the same batch may
        // be undecodable and add a new record, which a removal with the transaction would delete.
        self.forget_undecodable(object.key());
        staged.writes.insert(object.key().clone(), Some(object));
    }

    /// Records that the current state of a cached object on the server could not be decoded. `version` is the
    /// version of the undecodable state. It is usually newer than the cached one, and may be older after a
    /// restore of the server.
    fn supersede(&mut self, held: &O, version: &ResourceVersion) {
        let went_back = self.went_back_from(held) || self.order.is_older(version, held.resource_version());
        let superseded = Superseded { version: version.clone(), went_back };
        self.superseded.insert(held.key().clone(), superseded);
    }

    fn went_back_from(&self, held: &O) -> bool {
        self.superseded.get(held.key()).is_some_and(|superseded| superseded.went_back)
    }

    fn forget_undecodable(&mut self, key: &ObjectKey) {
        self.superseded.remove(key);
        self.undecodable.forget(key.as_str());
    }

    fn delete(&mut self, staged: &mut Staged<O>, tombstone: Tombstone<O>) {
        let version = tombstone.last().map(|last| last.resource_version());
        let version = version.or(tombstone.version().filter(|version| !version.is_empty()));
        if let Some(version) = version {
            self.advance(staged, version);
        }
        let Some(held) = self.current(staged, tombstone.key()) else {
            // Only a rejected object has a version without a state. Most rejected objects are not cached.
            self.counters.unknown_deletes += u64::from(tombstone.version().is_none());
            // The object is removed from the log of undecodable objects even if it was never cached, because
            // possibly none of its states could be decoded.
            self.undecodable.forget(tombstone.key().as_str());
            return;
        };
        if let Some(version) = version
            && self.order.is_older(version, self.newest(&held))
        {
            // The deletion is late: it concerns an earlier object with this name, or an earlier state. The
            // cached state is newer.
            self.counters.stale += 1;
            staged.applied.suspect |= tombstone.last().is_none_or(|last| last.uid() == held.uid());
            return;
        }
        let stale = tombstone.stale();
        let (last, stale) = match tombstone.last() {
            Some(last) if last.uid() == held.uid() => (Arc::clone(last), stale),
            _ => (Arc::clone(&held), true),
        };
        staged.count_bytes(Some(&held), None);
        self.forget_undecodable(tombstone.key());
        staged.applied.events.push(Event::Deleted { last, stale });
        staged.writes.insert(tombstone.key().clone(), None);
    }

    /// Handles a watch event whose object cannot be decoded. If the event is older than the cached state, it
    /// is ignored.
    fn unread(&mut self, staged: &mut Staged<O>, undecodable: Undecodable) {
        let version = undecodable.resource_version();
        let held = undecodable.key().and_then(|key| self.current(staged, key));
        let late = match held {
            Some(held) => self.order.is_older(version, self.newest(&held)),
            None => self.is_late(staged, version),
        };
        if late {
            self.counters.stale += 1;
            staged.applied.suspect = true;
        } else {
            self.set_aside(staged, undecodable);
        }
    }

    fn set_aside(&mut self, staged: &Staged<O>, undecodable: Undecodable) {
        if let Some(held) = undecodable.key().and_then(|key| self.current(staged, key)) {
            self.supersede(&held, undecodable.resource_version());
        }
        let (informer, version, error) =
            (&*self.informer, undecodable.resource_version(), undecodable.error());
        if let Some(key) = undecodable.key() {
            tracing::warn!(
                informer,
                %key,
                %version,
                %error,
                "an object could not be decoded; its last decodable state stays in the cache"
            );
        } else {
            tracing::warn!(informer, %error, "an object without a readable name was skipped");
        }
        self.undecodable.report(undecodable);
    }

    fn commit(&mut self, staged: &mut Staged<O>) {
        let write = |(key, state)| match state {
            Some(object) => StoreChange::upsert(object).at(key),
            None => StoreChange::delete_key(key),
        };
        let writes: Vec<_> = staged.writes.take().into_iter().map(write).collect();
        let version = staged.version.take();
        if writes.is_empty() {
            if let Some(version) = version.filter(|version| *version != self.writer.resource_version()) {
                self.writer.bookmark(version);
            }
            return;
        }
        let added = std::mem::take(&mut staged.bytes_added);
        let removed = std::mem::take(&mut staged.bytes_removed);
        self.counters.bytes = (self.counters.bytes + added).saturating_sub(removed);
        // If a write has no version, the version of the store stays. The store would otherwise use the
        // version of the written object, which may come from a late event.
        let version = version.unwrap_or_else(|| self.writer.resource_version());
        if let Err(error) = self.writer.apply_at(writes, version) {
            // This error is not expected: every write contains its key, so the store calls no key function,
            // which could fail.
            tracing::error!(informer = &*self.informer, %error, "a store rejected a transaction");
        }
    }
}

fn completes<O: Object>(old: &Arc<O>, new: &Arc<O>) -> bool {
    !Arc::ptr_eq(old, new) && old.is_partial() && !new.is_partial()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectOrigin {
    Watch,
    /// The object comes from a complete list of the source. If `in_full` is true, the object is stored and
    /// announced even if its uid and version are those of the cached object, because its content may differ.
    List {
        in_full: bool,
    },
}

impl ObjectOrigin {
    fn is_list(self) -> bool {
        matches!(self, Self::List { .. })
    }
}

impl<O: Object> fmt::Debug for Pump<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("counters", &self.counters)
            .field("initial", &self.initial)
            .finish_non_exhaustive()
    }
}

impl<O: Object> fmt::Debug for Applied<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applied")
            .field("events", &self.events)
            .field("first_list", &self.first_list)
            .field("suspect", &self.suspect)
            .field("unordered", &self.unordered)
            .field("resync", &self.resync)
            .finish()
    }
}
