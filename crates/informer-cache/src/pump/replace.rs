//! Complete lists: comparing a list with the store.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use informer_core::{Object, ObjectKey, ResourceVersion};

use super::staged::{Staged, Writes};
use super::{ObjectOrigin, Pump};
use crate::source::Listed;
use crate::{Event, Replacement, Undecodable};

/// After this many lists were refused as older than the store, the next such list is authoritative. Each
/// refused list makes the pump request a consistent read. A list that was in flight before the first such
/// request may still arrive, and must not be mistaken for the consistent read.
const MAX_STALE_LISTS: u32 = 3;

impl<O: Object> Pump<O> {
    /// Applies a complete list: cached objects that are missing from it were deleted. Deletions are announced
    /// first, then the other events in the order of the list.
    ///
    /// A reflector that restarts with a kept store may receive a list from a lagging server. A list that is
    /// older than the store is not applied; a consistent list is requested instead.
    pub(super) fn replace(&mut self, staged: &mut Staged<O>, replacement: Replacement<O>) {
        let Replacement { items, undecodable, version, mut rewound, reread } = replacement;
        let older = self.order.is_older(&version, &self.writer.resource_version());
        if older && !rewound && self.refused < MAX_STALE_LISTS {
            self.refused += 1;
            self.counters.stale_lists += 1;
            staged.applied.suspect = true;
            return;
        }
        rewound |= older;
        if self.order.list(items.iter().map(|item| &**item.object()), rewound) {
            tracing::warn!(
                informer = &*self.informer,
                "the versions of the source are numbers without an order; they are no longer compared"
            );
            staged.applied.unordered = true;
        }
        self.refused = 0;
        self.counters.lists += 1;
        if !self.writer.is_empty() || !self.undecodable.is_empty() {
            let listed = Present::of(&items, &undecodable);
            self.delete_unlisted(staged, &listed);
            self.forget_unlisted(&listed);
        }
        if self.writer.is_empty() {
            self.fill(staged, items, &version);
        } else {
            for item in items {
                if let Listed::Known(object) = &item
                    && self.went_back_from(object)
                {
                    // The source did not decode this object, because its version equals the cached one.
                    // However, the server may have assigned that version again, so the caller requests a list
                    // in which every object is decoded.
                    staged.applied.suspect = true;
                    continue;
                }
                self.upsert(staged, item.into_object(), ObjectOrigin::List { in_full: rewound || reread });
            }
        }
        for undecodable in undecodable {
            self.set_aside(staged, undecodable);
        }
        let went_back = std::mem::take(&mut staged.went_back);
        self.counters.rewound += u64::from(rewound || went_back);
        self.ordered = version.as_u64().is_some() && !version.is_any();
        staged.version = Some(version);
        staged.applied.first_list |= std::mem::take(&mut self.initial);
    }

    /// Applies a complete list to an empty store. The store is built in one step, without comparing states.
    fn fill(&mut self, staged: &mut Staged<O>, items: Vec<Listed<O>>, version: &ResourceVersion) {
        let objects: Vec<_> = items.into_iter().map(Listed::into_object).collect();
        // `held_bytes` is user code and runs before the store changes: a panic in it must not leave states in
        // the store that were never announced.
        let bytes = objects.iter().map(|object| object.held_bytes() as u64).sum();
        let entry = |object: &Arc<O>| (object.key().clone(), Arc::clone(object));
        self.writer.replace(objects.iter().map(entry).collect(), version.clone());
        if self.writer.len() != objects.len() {
            // If a source lists an object more than once, only the last state is cached and announced.
            return self.fill(staged, last_of_each(objects), version);
        }
        self.counters.bytes = bytes;
        if !self.undecodable.is_empty() {
            objects.iter().for_each(|object| self.undecodable.forget(object.key().as_str()));
        }
        let initial = self.initial;
        staged.applied.events.extend(objects.into_iter().map(|object| Event::Added { object, initial }));
    }

    fn delete_unlisted(&mut self, staged: &mut Staged<O>, listed: &Present<'_>) {
        for held in self.writer.list() {
            if listed.keys.contains(held.key().as_str()) {
                continue;
            }
            if let Some(version) = listed.unread_uids.get(held.uid()) {
                self.supersede(&held, version);
                continue;
            }
            self.superseded.remove(held.key());
            staged.count_bytes(Some(&held), None);
            staged.writes.insert(held.key().clone(), None);
            staged.applied.events.push(Event::Deleted { last: held, stale: true });
        }
    }

    /// Removes the log entries of undecodable objects that are missing in the list. The objects may never
    /// have been cached, so that no deletion in the store removes their entries from the log.
    fn forget_unlisted(&self, listed: &Present<'_>) {
        for entry in self.undecodable.entries() {
            match entry.key() {
                Some(key) if listed.keys.contains(key.as_str()) => {}
                None if listed.nameless => {}
                key => self.undecodable.forget(key.map_or("", ObjectKey::as_str)),
            }
        }
    }
}

/// The objects of a list, including those that could not be decoded, for finding cached objects that the list
/// does not contain.
struct Present<'a> {
    keys: HashSet<&'a str>,
    /// The version of each undecodable object of the list, by uid. If the name of such an object cannot be
    /// read, its uid still shows which cached object exists on the server and must not be deleted.
    unread_uids: HashMap<&'a str, &'a ResourceVersion>,
    nameless: bool,
}

impl<'a> Present<'a> {
    fn of<O: Object>(items: &'a [Listed<O>], undecodable: &'a [Undecodable]) -> Self {
        let unread_keys = undecodable.iter().filter_map(|entry| Some(entry.key()?.as_str()));
        Self {
            keys: items.iter().map(|item| item.object().key().as_str()).chain(unread_keys).collect(),
            unread_uids: undecodable
                .iter()
                .map(|entry| (entry.uid(), entry.resource_version()))
                .filter(|(uid, _)| !uid.is_empty())
                .collect(),
            nameless: undecodable.iter().any(|entry| entry.key().is_none()),
        }
    }
}

/// Removes objects with duplicate keys from a list, because the store has one object per key and each object
/// must be announced once. The last state of each key is kept, at the position of the key's first occurrence.
fn last_of_each<O: Object>(objects: Vec<Arc<O>>) -> Vec<Listed<O>> {
    let mut last = Writes::default();
    for object in objects {
        last.insert(object.key().clone(), Some(object));
    }
    last.take().into_iter().filter_map(|(_, object)| object).map(Listed::Fresh).collect()
}
