//! Tracks the own writes of the program that one informer does not show yet. This is a pure state machine: it
//! uses no clock, lock or store, and never waits.
//!
//! # Invariants
//!
//! 1. A floor is a version that the store of the informer must reach. It replaces individually tracked
//!    writes, whose newest version it is. It covers the writes of one namespace, or of all of them.
//! 2. A write is pending until it was seen in the store, until a floor covers it, or until the informer
//!    rewinds, which means that it follows a restore of the server to an older version.
//! 3. At most `max_size` keys and uids and [`MAX_FLOORS`] namespaces are pending. Beyond that, floors replace
//!    keys.
//! 4. A write that the store shows once is shown until the informer rewinds, so it need not be remembered.
//! 5. A rewind discards everything recorded before it: a restored server may never reach those versions
//!    again.
//! 6. If the server was restored and the informer has not rewound, writes that the server has lost are
//!    replaced by the version of the restored server. The writes that the server still has do not exceed that
//!    version.
//!
//! A floor does not cover a deletion whose response had no version. Such a deletion is forgotten when floors
//! replace the keys.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use informer_core::{ObjectKey, ResourceVersion};

/// The maximum number of keys and deleted uids whose writes are tracked individually for an informer. Beyond
/// that, the newest version per namespace is tracked.
pub(super) const MAX_PENDING: usize = 4096;

pub(super) const MAX_FLOORS: usize = 1024;

/// The number of pending writes at which [`PendingWrites::is_check_due`] first returns true, so that writes
/// that the store already shows are removed.
const FIRST_CHECK: usize = 64;

/// A number that orders the beginnings and ends of the writes of one program: an operation with a smaller
/// ticket happened earlier.
pub(crate) type Ticket = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Key(ObjectKey),
    Namespace(String),
    Kind,
}

/// Whether the selectors of an informer match an object, so that the informer receives the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    Selected,
    Unselected,
    /// Only the server can evaluate the selectors, so it is unknown whether the informer receives the object.
    Unknown,
}

/// A completed write of the program, with the result of evaluating one informer's selectors on the written
/// object.
#[derive(Debug, Clone)]
pub(super) struct CompletedWrite {
    pub(super) key: ObjectKey,
    /// The resourceVersion in the response to the write; unset if the server responded with a Status.
    pub(super) version: ResourceVersion,
    /// The uid of the object, if the write removed the object.
    pub(super) deleted: Option<String>,
    /// Whether the informer's selectors match the written object. `None` if the response does not contain the
    /// object, and the write changed no labels or fields that can be selected.
    pub(super) selection: Option<Selection>,
    pub(super) began: Ticket,
    pub(super) ended: Ticket,
}

/// The objects whose writes an [`Expectation`] covers. An expectation is a state that the informer's store
/// must reach before a read returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Key(ObjectKey),
    /// All objects of a namespace. Their individually tracked writes were replaced by a floor, the newest
    /// version among them. The name is empty for cluster-scoped objects.
    Namespace(String),
    /// The objects of all namespaces. Their writes were replaced by one floor, the newest version among them.
    Everywhere,
}

/// The state that an informer's store must have reached before a read returns, so that the read shows the
/// program's earlier writes of an object or of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expectation {
    pub(super) subject: Subject,
    /// The resourceVersion of the newest write that this expectation covers.
    version: ResourceVersion,
    /// Whether the informer's selectors match the object as the newest write left it.
    selection: Selection,
    /// The version of the newest write after which the informer may hold the object. If the newest write
    /// moved the object out of the selectors, a store without the object shows that only once it has reached
    /// this version.
    held_from: ResourceVersion,
    /// The uids that the program has deleted and that the store must no longer hold, each with the ticket (a
    /// number that orders events) at which its deletion completed.
    deleted: Vec<(String, Ticket)>,
    revision: u64,
}

impl Expectation {
    pub(super) fn of(completed: &CompletedWrite) -> Self {
        let mut expectation = Self::new(Subject::Key(completed.key.clone()));
        expectation.merge(completed);
        expectation
    }

    fn new(subject: Subject) -> Self {
        Self {
            subject,
            version: ResourceVersion::unset(),
            // The selection of a new expectation is `Unselected`. An informer that shows all earlier writes
            // of an existing object and does not hold the object can only lack it because its selectors do
            // not match the object.
            selection: Selection::Unselected,
            held_from: ResourceVersion::unset(),
            deleted: Vec::new(),
            revision: 0,
        }
    }

    pub(super) fn key(&self) -> Option<&ObjectKey> {
        match &self.subject {
            Subject::Key(key) => Some(key),
            Subject::Namespace(_) | Subject::Everywhere => None,
        }
    }

    /// Lowers the expected version to `server`, the version of a server that may have been restored to an
    /// older version than the writes. Returns whether the expectation changed.
    ///
    /// `server` is the version of a consistent list that was requested after the writes. A store at this
    /// version shows those of the writes that the server still has. The client does not know which of them
    /// the server has lost.
    fn lower(&mut self, server: &ResourceVersion) -> bool {
        let is_lost = self.version.as_u64().is_some() && server.is_older_than(&self.version);
        if server.as_u64().is_none() || !is_lost && self.deleted.is_empty() {
            return false;
        }
        if is_lost {
            (self.selection, self.held_from) = (Selection::Unknown, server.clone());
        }
        self.version = server.clone();
        self.deleted.clear();
        true
    }

    /// Adds a write to those that a read must show because of this expectation. Writes are added in the order
    /// of their responses. The server may have made them in another order.
    fn merge(&mut self, completed: &CompletedWrite) {
        let CompletedWrite { version, deleted, selection, began, ended, .. } = completed;
        if let Some(uid) = deleted {
            self.deleted.push((uid.clone(), *ended));
        } else {
            // The server made a write that began after the response to a deletion later than that deletion. A
            // store that shows the write also shows the deletion, so the deleted uid need not be tracked any
            // more.
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

    /// Returns how much this expectation counts towards `max_size`, the maximum number of keys and uids that
    /// are tracked individually.
    fn size(&self) -> usize {
        1 + self.deleted.len()
    }

    /// Returns true if a store shows the expected writes, or a later state. `store` is the version of the
    /// store; `held` is the uid and version of the object that it holds under the key. Versions that are not
    /// numbers cannot be compared; reads do not wait for them.
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

/// Sets `version` to `to` if `to` is a newer version. This function has no effect if `to` is not a number.
fn raise(version: &mut ResourceVersion, to: &ResourceVersion) {
    if to.as_u64().is_some() && (version.as_u64().is_none() || version.is_older_than(to)) {
        *version = to.clone();
    }
}

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

/// The own writes of the program that one informer does not show yet.
#[derive(Debug, Clone)]
pub(crate) struct PendingWrites {
    max_size: usize,
    /// The pending writes of each namespace; the empty name stands for cluster-scoped objects. Namespaces
    /// without pending writes are removed.
    namespaces: HashMap<String, Backlog>,
    floor: Option<Expectation>,
    /// The number of tracked keys in all namespaces, plus the number of tracked uids of deleted objects.
    size: usize,
    check_at: usize,
    /// The number of rewinds (restores of the server that the informer has followed) at the last call of
    /// `record` or `pending`. If the informer has rewound since, all pending writes are discarded.
    rewinds: u64,
    revision: u64,
}

impl PendingWrites {
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

    pub(super) fn record(&mut self, completed: &CompletedWrite, rewinds: u64) {
        self.follow(rewinds);
        self.revision += 1;
        let namespace = completed.key.namespace().unwrap_or_default();
        let backlog = self.namespaces.entry(namespace.to_owned()).or_default();
        let before = backlog.keys.get(&completed.key).map_or(0, Expectation::size);
        let mut fresh = Expectation::new(Subject::Key(completed.key.clone()));
        // A floor may have replaced earlier writes of this object. It does not record after which of them the
        // informer may hold the object, so the newest version, that of the floor, is assumed.
        let floors = backlog.floor.iter().chain(&self.floor);
        floors.for_each(|floor| raise(&mut fresh.held_from, &floor.version));
        let expectation = backlog.keys.entry(completed.key.clone()).or_insert(fresh);
        expectation.merge(completed);
        expectation.revision = self.revision;
        self.size = self.size + expectation.size() - before;
        if self.size > self.max_size {
            self.replace_keys_by_floors();
        }
    }

    /// Returns the states that the store must reach before a read of `scope` returns. The cost depends only
    /// on pending writes, since writes that the store has shown are removed.
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

    /// Removes the expectations in `shown`, which the store was found to meet. Skips expectations that have
    /// changed after that check.
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

    /// Lowers the expectations in `missing`, which the store did not meet, to `server`: the version of a
    /// server that may have lost writes in a restore. Skips expectations that have changed after `missing`
    /// was read. Returns true if an expectation was lowered.
    pub(super) fn lower(&mut self, missing: &[Expectation], server: &ResourceVersion) -> bool {
        self.revision += 1;
        let (new_revision, mut is_lowered) = (self.revision, false);
        for Expectation { subject, revision, .. } in missing {
            let Some(held) = self.expectation(subject) else { continue };
            let deletions = held.deleted.len();
            if held.revision == *revision && held.lower(server) {
                held.revision = new_revision;
                self.size -= deletions;
                is_lowered = true;
            }
        }
        is_lowered
    }

    fn expectation(&mut self, subject: &Subject) -> Option<&mut Expectation> {
        match subject {
            Subject::Everywhere => self.floor.as_mut(),
            Subject::Namespace(namespace) => self.namespaces.get_mut(namespace)?.floor.as_mut(),
            Subject::Key(key) => {
                self.namespaces.get_mut(key.namespace().unwrap_or_default())?.keys.get_mut(key)
            }
        }
    }

    /// Returns true if so many writes are pending that the store must be checked for those that it shows by
    /// now. Otherwise the pending writes of a program that never reads would only grow.
    pub(super) fn is_check_due(&self) -> bool {
        self.size >= self.check_at
    }

    /// Records that the store was checked for shown writes. The next check is due when twice as many writes
    /// are pending, so that a write costs amortized constant time.
    pub(super) fn checked(&mut self) {
        self.check_at = (2 * self.size).clamp(FIRST_CHECK.min(self.max_size), self.max_size);
    }

    pub(super) fn clear(&mut self) {
        self.namespaces.clear();
        (self.floor, self.size) = (None, 0);
    }

    /// Returns a copy of these pending writes for a new informer that caches the namespaces for which `holds`
    /// returns true.
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

    /// Replaces the tracked keys of each namespace by a floor: the newest version among their writes, which
    /// the store must reach even if the informer's selectors match none of the objects.
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
