//! Own writes that one informer does not show yet. Pure: no clock, no lock, no store, no waiting.
//!
//! # Invariants
//!
//! 1. A write is pending until it was seen in the store, until a floor covers it, or until the informer rewinds.
//! 2. A floor is a version that the store must reach. It covers the writes of one namespace, or of all of them.
//! 3. At most `max_size` keys and uids and [`MAX_FLOORS`] namespaces are pending. Beyond that, floors replace keys.
//! 4. A write that the store shows once is shown until the informer rewinds, so it need not be remembered.
//! 5. A rewind discards everything recorded before it: a restored server may never reach those versions again.
//!
//! A floor does not cover a deletion that the server answered without a version. Such a deletion is forgotten when floors
//! replace the keys.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use informer_core::{ObjectKey, ResourceVersion};

/// The number of keys, and of uids that must be gone, that are pending one by one for an informer.
pub(super) const MAX_PENDING: usize = 4096;

/// The number of namespaces with a floor of their own.
pub(super) const MAX_FLOORS: usize = 1024;

/// The smallest size at which [`PendingWrites::is_check_due`] asks for a check of the store.
const FIRST_CHECK: usize = 64;

/// Orders the beginnings and ends of the writes of one program.
pub(crate) type Ticket = u64;

/// The objects that a read concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One object.
    Key(ObjectKey),
    /// The objects of a namespace.
    Namespace(String),
    /// All objects of the kind.
    Kind,
}

/// Whether the selectors of an informer choose an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The informer receives the object.
    Selected,
    /// The informer does not receive the object.
    Unselected,
    /// Only the server can tell.
    Unknown,
}

/// A write that the server has answered, as one informer sees it.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) key: ObjectKey,
    /// The version of the answer; unset where the server answered with a status.
    pub(super) version: ResourceVersion,
    /// The uid of the object that the write removed.
    pub(super) deleted: Option<String>,
    /// `None` if the answer does not tell, because the write changed neither labels nor fields that select.
    pub(super) selection: Option<Selection>,
    pub(super) began: Ticket,
    pub(super) ended: Ticket,
}

/// The subject of an [`Expectation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// One object.
    Key(ObjectKey),
    /// The floor of a namespace; empty for objects without a namespace.
    Namespace(String),
    /// The floor of all namespaces.
    Everywhere,
}

/// The state that an informer's store must have reached before a read returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) subject: Subject,
    /// The version of the newest write.
    version: ResourceVersion,
    /// Whether the newest write left an object that the informer receives.
    selection: Selection,
    /// The version of the newest write after which the informer may hold the object.
    held_from: ResourceVersion,
    /// The uids that must be gone, and when their deletions were answered.
    deleted: Vec<(String, Ticket)>,
    /// Differs after each change of the expectation.
    revision: u64,
}

impl Expectation {
    /// The expectation of one write.
    pub(super) fn of(answered: &Answered) -> Self {
        let mut expectation = Self::new(Subject::Key(answered.key.clone()));
        expectation.merge(answered);
        expectation
    }

    fn new(subject: Subject) -> Self {
        Self {
            subject,
            version: ResourceVersion::unset(),
            // An informer that shows all earlier writes and does not hold the object does not select it.
            selection: Selection::Unselected,
            held_from: ResourceVersion::unset(),
            deleted: Vec::new(),
            revision: 0,
        }
    }

    /// The key, unless this is a floor.
    pub(super) fn key(&self) -> Option<&ObjectKey> {
        match &self.subject {
            Subject::Key(key) => Some(key),
            Subject::Namespace(_) | Subject::Everywhere => None,
        }
    }

    /// Adds a later answer. Answers may arrive in another order than the server made the writes.
    fn merge(&mut self, answered: &Answered) {
        let Answered { version, deleted, selection, began, ended, .. } = answered;
        if let Some(uid) = deleted {
            self.deleted.push((uid.clone(), *ended));
        } else {
            // The server made a write that began after a deletion was answered after that deletion.
            self.deleted.retain(|(_, deleted)| deleted > began);
        }
        if version.as_u64().is_none() {
            if deleted.is_some() {
                self.selection = Selection::Unselected;
            }
            return;
        }
        let selection = selection.unwrap_or(self.selection);
        if selection != Selection::Unselected {
            raise(&mut self.held_from, version);
        }
        if !version.is_older_than(&self.version) {
            (self.version, self.selection) = (version.clone(), selection);
        }
    }

    /// How much it counts towards the limit.
    fn size(&self) -> usize {
        1 + self.deleted.len()
    }

    /// True if a store at version `store` that holds an object of this uid and version under the key shows the write, or a
    /// later state. Versions that are not numbers cannot be compared and are not waited for.
    pub(super) fn is_shown(&self, held: Option<(&str, &ResourceVersion)>, store: &ResourceVersion) -> bool {
        let reached = |version: &ResourceVersion| {
            version.as_u64().is_none() || !store.is_empty() && !store.is_older_than(version)
        };
        match held {
            Some((uid, version)) => {
                let is_gone = !self.deleted.iter().any(|(deleted, _)| deleted == uid);
                is_gone && (!version.is_older_than(&self.version) || reached(&self.version))
            }
            None => {
                let absent = self.selection == Selection::Unselected && reached(&self.held_from);
                absent || reached(&self.version)
            }
        }
    }
}

/// Raises a version to a newer one. A version that is not a number changes nothing.
fn raise(version: &mut ResourceVersion, to: &ResourceVersion) {
    if to.as_u64().is_some() && (version.as_u64().is_none() || version.is_older_than(to)) {
        *version = to.clone();
    }
}

/// The pending writes of one namespace.
#[derive(Debug, Clone, Default)]
struct Backlog {
    keys: HashMap<ObjectKey, Expectation>,
    floor: Option<Expectation>,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.floor.is_none()
    }
}

/// The own writes that one informer does not show yet.
#[derive(Debug, Clone)]
pub(crate) struct PendingWrites {
    max_size: usize,
    /// By namespace; the empty name stands for objects without one. No backlog is empty.
    namespaces: HashMap<String, Backlog>,
    /// The floor of all namespaces.
    floor: Option<Expectation>,
    /// The keys in all namespaces, and the uids that must be gone.
    size: usize,
    /// The size at which the store is to be checked.
    check_at: usize,
    /// The rewinds of the informer up to the last call.
    rewinds: u64,
    revision: u64,
}

impl PendingWrites {
    /// Nothing is pending; at most `max_size` keys and uids will be.
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            max_size,
            namespaces: HashMap::new(),
            floor: None,
            size: 0,
            check_at: FIRST_CHECK.min(max_size),
            rewinds: 0,
            revision: 0,
        }
    }

    /// Records an answered write of an informer that was rewound `rewinds` times.
    pub(super) fn record(&mut self, answered: &Answered, rewinds: u64) {
        self.follow(rewinds);
        self.revision += 1;
        let namespace = answered.key.namespace().unwrap_or_default();
        let backlog = self.namespaces.entry(namespace.to_owned()).or_default();
        let before = backlog.keys.get(&answered.key).map_or(0, Expectation::size);
        let mut fresh = Expectation::new(Subject::Key(answered.key.clone()));
        // A floor may cover a version of this object that the informer receives.
        let floors = backlog.floor.iter().chain(&self.floor);
        floors.for_each(|floor| raise(&mut fresh.held_from, &floor.version));
        let expectation = backlog.keys.entry(answered.key.clone()).or_insert(fresh);
        expectation.merge(answered);
        expectation.revision = self.revision;
        self.size = self.size + expectation.size() - before;
        if self.size > self.max_size {
            self.replace_keys_by_floors();
        }
    }

    /// Returns what the store must show before a read of `scope`. The cost does not depend on confirmed writes.
    pub(super) fn pending(&mut self, scope: &Scope, rewinds: u64) -> Vec<Expectation> {
        self.follow(rewinds);
        let mut pending: Vec<Expectation> = self.floor.iter().cloned().collect();
        match scope {
            Scope::Key(key) => {
                let backlog = self.namespaces.get(key.namespace().unwrap_or_default());
                let of_key = backlog.and_then(|backlog| backlog.keys.get(key));
                let floor = backlog.and_then(|backlog| backlog.floor.as_ref());
                pending.extend(of_key.into_iter().chain(floor).cloned());
            }
            Scope::Namespace(namespace) => pending.extend(all_of(self.namespaces.get(namespace))),
            Scope::Kind => pending.extend(all_of(self.namespaces.values())),
        }
        pending
    }

    /// Forgets expectations that the store was seen to show, unless they changed since.
    pub(super) fn confirm(&mut self, shown: &[Expectation]) {
        for Expectation { subject, revision, .. } in shown {
            let is_same = |held: &Expectation| held.revision == *revision;
            let namespace = match subject {
                Subject::Everywhere => {
                    self.floor.take_if(|held| is_same(held));
                    continue;
                }
                Subject::Namespace(namespace) => namespace,
                Subject::Key(key) => key.namespace().unwrap_or_default(),
            };
            let Some(backlog) = self.namespaces.get_mut(namespace) else { continue };
            match subject {
                Subject::Key(key) if backlog.keys.get(key).is_some_and(is_same) => {
                    let forgotten = backlog.keys.remove(key);
                    self.size -= forgotten.map_or(0, |forgotten| forgotten.size());
                }
                Subject::Namespace(_) => drop(backlog.floor.take_if(|held| is_same(held))),
                Subject::Key(_) | Subject::Everywhere => {}
            }
            if backlog.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Returns true if so much is pending that the store has to be checked without a read.
    pub(super) fn is_check_due(&self) -> bool {
        self.size >= self.check_at
    }

    /// The store was checked. The next check is due at twice the size, so that a write costs amortized constant time.
    pub(super) fn checked(&mut self) {
        self.check_at = (2 * self.size).clamp(FIRST_CHECK.min(self.max_size), self.max_size);
    }

    /// Forgets everything: a server was restored.
    pub(super) fn clear(&mut self) {
        self.namespaces.clear();
        (self.floor, self.size) = (None, 0);
    }

    /// The pending writes of a new informer that holds the namespaces for which `holds` is true.
    pub(super) fn for_new_informer(&self, holds: impl Fn(&str) -> bool) -> Self {
        let mut new = Self { max_size: MAX_PENDING, rewinds: 0, ..self.clone() };
        new.namespaces.retain(|namespace, _| holds(namespace));
        let keys = new.namespaces.values().flat_map(|backlog| backlog.keys.values());
        new.size = keys.map(Expectation::size).sum();
        new.checked();
        new
    }

    fn follow(&mut self, rewinds: u64) {
        if rewinds > self.rewinds {
            self.clear();
            self.rewinds = rewinds;
        }
    }

    /// Replaces the keys of each namespace by a floor, the newest version in it. A floor ignores selectors.
    fn replace_keys_by_floors(&mut self) {
        let revision = self.revision;
        for (namespace, backlog) in &mut self.namespaces {
            let subject = || Subject::Namespace(namespace.clone());
            let keys = std::mem::take(&mut backlog.keys).into_values();
            raise_floor(&mut backlog.floor, subject, keys, revision);
        }
        self.size = 0;
        self.namespaces.retain(|_, backlog| !backlog.is_empty());
        if self.namespaces.len() > MAX_FLOORS {
            let floors =
                std::mem::take(&mut self.namespaces).into_values().filter_map(|backlog| backlog.floor);
            raise_floor(&mut self.floor, || Subject::Everywhere, floors, revision);
        }
        self.checked();
    }
}

fn all_of<'a>(backlogs: impl IntoIterator<Item = &'a Backlog>) -> impl Iterator<Item = Expectation> {
    backlogs.into_iter().flat_map(|backlog| backlog.keys.values().chain(&backlog.floor)).cloned()
}

/// Raises a floor to the newest version of some expectations.
fn raise_floor(
    floor: &mut Option<Expectation>,
    subject: impl FnOnce() -> Subject,
    covered: impl Iterator<Item = Expectation>,
    revision: u64,
) {
    let mut version = floor.as_ref().map_or_else(ResourceVersion::unset, |floor| floor.version.clone());
    covered.for_each(|expectation| raise(&mut version, &expectation.version));
    if version.as_u64().is_some() {
        let selection = Selection::Unknown;
        *floor = Some(Expectation { version, selection, revision, ..Expectation::new(subject()) });
    }
}
