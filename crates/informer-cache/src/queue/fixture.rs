use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::{Header, Object, ObjectKey, Tombstone};

use crate::queue::{Delta, Deltas};
use crate::source::{KnownObjects, Listed};
use crate::{Change, Replacement};

#[derive(Debug, PartialEq)]
pub(super) struct Foo {
    header: Header,
    pub(super) value: u64,
}

impl Object for Foo {
    fn header(&self) -> &Header {
        &self.header
    }
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name).unwrap()
}

pub(super) fn foo(name: &str, value: u64) -> Arc<Foo> {
    Arc::new(Foo { header: Header::new(key(name)).with_uid(name).with_version(value), value })
}

pub(super) fn gone(name: &str, value: u64) -> Tombstone<Foo> {
    Tombstone::observed(key(name), foo(name, value))
}

pub(super) fn missed(name: &str, value: u64) -> Tombstone<Foo> {
    Tombstone::missed(key(name), Some(foo(name, value)))
}

pub(super) fn list(items: &[(&str, u64)], version: u64) -> Change<Foo> {
    let items = items.iter().map(|(name, value)| Listed::Fresh(foo(name, *value))).collect();
    Change::Replaced(Replacement::new(items, version))
}

pub(super) fn tombstone_text(tombstone: &Tombstone<Foo>) -> String {
    let word = if tombstone.stale() { "missed" } else { "deleted" };
    match tombstone.last() {
        Some(last) => format!("{word} {}={}", tombstone.key(), last.value),
        None => format!("{word} {}", tombstone.key()),
    }
}

/// Formats a change as a string for assertions, such as `added a=1`, where `a` is the key and 1 the value of
/// the object.
pub(super) fn text(change: &Change<Foo>) -> String {
    match change {
        Change::Added(object) => format!("added {}={}", object.key(), object.value),
        Change::Updated(object) => format!("updated {}={}", object.key(), object.value),
        Change::Deleted(tombstone) => tombstone_text(tombstone),
        Change::Replaced(replacement) => {
            let item = |item: &Listed<Foo>| format!("{}={}", item.object().key(), item.object().value);
            let items: Vec<_> = replacement.items.iter().map(item).collect();
            format!("replaced [{}] @{}", items.join(" "), replacement.version)
        }
        Change::Resync => "resync".to_owned(),
        Change::Bookmark(version) => format!("bookmark @{version}"),
        Change::Undecodable(undecodable) => {
            format!("undecodable {}", undecodable.key().map_or("", ObjectKey::as_str))
        }
    }
}

pub(super) fn delta_text(delta: &Delta<Foo>) -> String {
    match delta {
        Delta::Added(object) => format!("added {}={}", object.key(), object.value),
        Delta::Updated(object) => format!("updated {}={}", object.key(), object.value),
        Delta::Deleted(tombstone) => tombstone_text(tombstone),
        Delta::Replaced(object) => format!("replaced {}={}", object.key(), object.value),
        Delta::Sync(object) => format!("sync {}={}", object.key(), object.value),
    }
}

/// The cache of a test: the consumer of a queue stores popped objects in it, and the queue reads it as its
/// view of known objects.
#[derive(Default)]
pub(super) struct Held(pub(super) parking_lot::Mutex<BTreeMap<ObjectKey, Arc<Foo>>>);

impl Held {
    pub(super) fn new(objects: &[(&str, u64)]) -> Arc<Self> {
        let objects = objects.iter().map(|(name, value)| (key(name), foo(name, *value)));
        Arc::new(Self(parking_lot::Mutex::new(objects.collect())))
    }

    pub(super) fn apply(&self, deltas: &Deltas<Foo>) {
        for delta in deltas {
            match (delta, delta.object()) {
                (Delta::Deleted(tombstone), _) => drop(self.0.lock().remove(tombstone.key())),
                (_, Some(object)) => drop(self.0.lock().insert(object.key().clone(), Arc::clone(object))),
                (_, None) => unreachable!("only a deletion has no object"),
            }
        }
    }
}

impl KnownObjects<Foo> for Held {
    fn get(&self, key: &str) -> Option<Arc<Foo>> {
        self.0.lock().get(key).cloned()
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().keys().cloned().collect()
    }
}
