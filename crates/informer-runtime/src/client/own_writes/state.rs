//! What was written, and whether a cache shows it. Pure.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use informer_core::{Gvk, LabelSelector, Labels, Object, ObjectKey, ResourceVersion};

use crate::cache::Selects;

/// How many keys of a kind are remembered one by one. A program that writes more of them before the cache follows is awaited as
/// a whole: a read then waits for the newest of all those writes.
pub(super) const KEYS_MAX: usize = 4096;

/// A write under way.
pub(in crate::client) type Ticket = u64;

/// Which writes a read waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) enum Scope {
    /// Those of one object.
    Key(ObjectKey),
    /// Those of the objects of a namespace.
    Namespace(String),
    /// Those of the kind.
    Kind,
}

impl Scope {
    fn has(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Namespace(namespace) => key.namespace() == Some(namespace),
            Self::Kind => true,
        }
    }
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) enum Ended {
    /// The object is there, in this version.
    Written { key: ObjectKey, version: ResourceVersion, labels: Labels },
    /// The object of this uid is gone.
    Gone { key: ObjectKey, uid: String },
    /// Nothing is known of it: it failed, or was given up.
    Unknown,
}

/// What a cache must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) struct Expected {
    version: ResourceVersion,
    /// The uid that must not be there.
    gone: Option<String>,
    labels: Labels,
}

#[derive(Default)]
pub(in crate::client) struct State {
    kinds: HashMap<Gvk, Writes>,
    next: Ticket,
}

/// The writes of one kind.
#[derive(Default)]
struct Writes {
    /// Those under way; without a key, where the server makes the name.
    under_way: BTreeMap<Ticket, Option<ObjectKey>>,
    keys: HashMap<ObjectKey, Expected>,
    /// The newest version of the keys that are no longer remembered one by one.
    floor: ResourceVersion,
    /// The newest version of all.
    newest: ResourceVersion,
}

impl State {
    pub(super) fn begin(&mut self, gvk: &Gvk, key: Option<ObjectKey>) -> Ticket {
        self.next += 1;
        self.kinds.entry(gvk.clone()).or_default().under_way.insert(self.next, key);
        self.next
    }

    pub(super) fn end(&mut self, gvk: &Gvk, ticket: Ticket, ended: Ended) {
        let Some(writes) = self.kinds.get_mut(gvk) else { return };
        writes.under_way.remove(&ticket);
        match ended {
            Ended::Unknown => {}
            Ended::Written { key, version, labels } => {
                writes.newest = newer(&writes.newest, &version);
                // Answers may come in another order than the writes happened.
                let known = writes
                    .keys
                    .get(&key)
                    .filter(|known| known.version.compare(&version) == Some(Ordering::Greater));
                if known.is_none() {
                    writes.keys.insert(key, Expected::written(version, labels));
                }
            }
            Ended::Gone { key, uid } => {
                // The deletion is newer than all that was heard of before.
                let expected =
                    Expected { version: writes.newest.clone(), gone: Some(uid), labels: Labels::default() };
                writes.keys.insert(key, expected);
            }
        }
        writes.forget();
    }

    /// The writes that are under way in a scope.
    pub(super) fn under_way(&self, gvk: &Gvk, scope: &Scope) -> Vec<Ticket> {
        let Some(writes) = self.kinds.get(gvk) else { return Vec::new() };
        let concerns = |key: &Option<ObjectKey>| key.as_ref().is_none_or(|key| scope.has(key));
        writes.under_way.iter().filter(|(_, key)| concerns(key)).map(|(ticket, _)| *ticket).collect()
    }

    pub(super) fn have_ended(&self, gvk: &Gvk, tickets: &[Ticket]) -> bool {
        let under_way =
            |ticket| self.kinds.get(gvk).is_some_and(|writes| writes.under_way.contains_key(ticket));
        !tickets.iter().any(under_way)
    }

    /// What a cache must show of a scope: key by key, and a version for all of them.
    pub(super) fn expected(
        &self,
        gvk: &Gvk,
        scope: &Scope,
    ) -> (Vec<(ObjectKey, Expected)>, Option<Expected>) {
        let Some(writes) = self.kinds.get(gvk) else { return (Vec::new(), None) };
        let keys = match scope {
            Scope::Key(key) => writes.keys.get_key_value(key).into_iter().map(cloned).collect(),
            scope => writes.keys.iter().filter(|(key, _)| scope.has(key)).map(cloned).collect(),
        };
        let floor = Some(&writes.floor).filter(|floor| !floor.is_empty());
        (keys, floor.map(|floor| Expected::written(floor.clone(), Labels::default())))
    }
}

fn cloned((key, expected): (&ObjectKey, &Expected)) -> (ObjectKey, Expected) {
    (key.clone(), expected.clone())
}

/// The newer of two versions; one that is no number says nothing.
fn newer(a: &ResourceVersion, b: &ResourceVersion) -> ResourceVersion {
    match b.as_u64().is_none() || b.is_older_than(a) {
        true => a.clone(),
        false => b.clone(),
    }
}

impl Writes {
    /// Keeps what is remembered within its bound.
    fn forget(&mut self) {
        if self.keys.len() > KEYS_MAX {
            self.floor = self.newest.clone();
            self.keys.clear();
        }
    }
}

impl Expected {
    /// What a cache must show of an object that was written.
    pub(in crate::client) fn written(version: ResourceVersion, labels: Labels) -> Self {
        Self { version, gone: None, labels }
    }

    /// True where a store at `store` that holds `held` of the key shows this, or something later. Versions that cannot be compared
    /// are not waited for.
    pub(super) fn is_shown<O: Object>(
        &self,
        held: Option<&O>,
        store: &ResourceVersion,
        selects: &Selects,
    ) -> bool {
        let reached =
            self.version.as_u64().is_none() || !store.is_older_than(&self.version) && !store.is_empty();
        match (&self.gone, held) {
            (Some(uid), Some(held)) => held.uid() != uid.as_str(),
            (Some(_), None) => reached,
            (None, Some(held)) => reached || !held.resource_version().is_older_than(&self.version),
            // The cache is told nothing of what it does not select.
            (None, None) => reached || !self.is_selected(selects),
        }
    }

    fn is_selected(&self, selects: &Selects) -> bool {
        let labels: &LabelSelector = &selects.labels;
        !selects.by_more && labels.matches(&self.labels)
    }
}
