//! Tests `PendingWrites`, the own writes that an informer does not show yet, against a model that remembers
//! every write. In the simulation, informers lag behind the server, and the server is restored to older
//! versions.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 2] = ["x", "y"];

#[derive(Debug, Clone)]
struct Change {
    version: u64,
    key: ObjectKey,
    uid: u64,
    /// Whether the object has the label that the selector of a `labelled_only` informer requires; `None` if
    /// the change deletes the object.
    labelled: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
struct Watches {
    namespace: Option<&'static str>,
    labelled_only: bool,
}

impl Watches {
    fn holds(&self, namespace: &str) -> bool {
        self.namespace.is_none_or(|own| own == namespace)
    }

    fn selection(&self, labelled: bool) -> Selection {
        if labelled || !self.labelled_only { Selection::Selected } else { Selection::Unselected }
    }
}

#[derive(Debug, Clone)]
struct Write {
    change: Change,
    began: Ticket,
    ended: Ticket,
}

impl Write {
    fn completed(&self, selection: Option<Selection>) -> CompletedWrite {
        let Change { version, key, uid, labelled } = &self.change;
        let (version, deleted) = match labelled {
            Some(_) => ((*version).into(), None),
            None => (ResourceVersion::unset(), Some(uid.to_string())),
        };
        CompletedWrite { key: key.clone(), version, deleted, selection, began: self.began, ended: self.ended }
    }
}

struct Informer {
    watches: Watches,
    /// The version of the last change on the server that the informer has received, or has skipped because
    /// the object is outside of its namespace or selector.
    position: u64,
    store: u64,
    held: BTreeMap<ObjectKey, (u64, u64)>,
    rewinds: u64,
    pending: PendingWrites,
    /// The writes that reads of this informer must show: those completed since its last rewind, except those
    /// completed between a restore and the rewind that follows it.
    writes: Vec<Write>,
    /// True if the informer was created after some of the writes. For these writes it does not know whether
    /// its selectors match their objects.
    is_late: bool,
    /// True if the informer has received changes that a restore of the server undid, so that it must rewind
    /// to the state of the server.
    must_rewind: bool,
    /// True if writes were completed after a restore of the server and before the informer has rewound. Reads
    /// need not show these writes.
    has_uncovered: bool,
    /// True if a restore undid writes that the informer had not received, so that it did not rewind. Reads
    /// then wait for these writes until they request the version of the server.
    waits_in_vain: bool,
    /// True if reads wait for a version of the server instead of lost writes. The informer may show all
    /// writes before it reaches that version, so reads may wait longer than necessary.
    is_lowered: bool,
}

impl Informer {
    fn new(watches: Watches, max_size: usize) -> Self {
        Self {
            watches,
            position: 0,
            store: 0,
            held: BTreeMap::new(),
            rewinds: 0,
            pending: PendingWrites::new(max_size),
            writes: Vec::new(),
            is_late: false,
            must_rewind: false,
            has_uncovered: false,
            waits_in_vain: false,
            is_lowered: false,
        }
    }

    fn receive(&mut self, change: &Change) {
        self.position = change.version;
        if !self.watches.holds(change.key.namespace().unwrap()) {
            return;
        }
        let selected =
            change.labelled.is_some_and(|labelled| self.watches.selection(labelled) == Selection::Selected);
        if selected {
            self.held.insert(change.key.clone(), (change.uid, change.version));
        } else if self.held.remove(&change.key).is_none() {
            return;
        }
        self.store = change.version;
    }

    fn list(&mut self, changes: &[Change]) {
        self.held.clear();
        (self.position, self.store) = (0, 0);
        changes.iter().for_each(|change| self.receive(change));
        self.bookmark();
    }

    fn bookmark(&mut self) {
        self.store = self.position;
    }

    fn record(&mut self, write: &Write) {
        if !self.watches.holds(write.change.key.namespace().unwrap()) {
            return;
        }
        if self.pending.is_check_due() {
            self.missing(&Scope::Kind);
            self.pending.checked();
        }
        let selection = write.change.labelled.map(|labelled| self.watches.selection(labelled));
        self.pending.record(&write.completed(selection), self.rewinds);
        // After a restore of the server, and until the informer rewinds, its store keeps a version from
        // before the restore. This version may be newer than a write that the informer has not received, so
        // the model does not require the write to be shown.
        if self.must_rewind {
            self.has_uncovered = true;
        } else {
            self.writes.push(write.clone());
        }
    }

    fn missing(&mut self, scope: &Scope) -> Vec<Expectation> {
        let pending = self.pending.pending(scope, self.rewinds);
        let (shown, missing): (Vec<_>, Vec<_>) = pending.into_iter().partition(|pending| {
            let held = pending.key().and_then(|key| self.held.get(key));
            let held = held.map(|(uid, version)| (uid.to_string(), ResourceVersion::from(*version)));
            pending.is_shown(held.as_ref().map(|(uid, version)| (uid.as_str(), version)), &self.store.into())
        });
        self.pending.confirm(&shown);
        missing
    }

    /// Models a read that has waited too long and therefore requests the version of the server, which may
    /// have lost writes in a restore.
    fn lower(&mut self, scope: &Scope, server: u64) {
        let missing = self.missing(scope);
        self.is_lowered |= self.pending.lower(&missing, &server.into());
    }

    /// Returns true if a read of a key may complete, because the informer shows all of the recorded `writes`
    /// to that key.
    fn may_complete(&self, key: &ObjectKey, with_deletions: bool) -> bool {
        let writes = || self.writes.iter().map(|write| &write.change).filter(|change| change.key == *key);
        let stored = || writes().filter(|change| change.labelled.is_some());
        let newest = stored().map(|change| change.version).max().unwrap_or(0);
        match self.held.get(key) {
            Some((uid, version)) => {
                let is_deleted = writes().any(|change| change.labelled.is_none() && change.uid == *uid);
                (*version >= newest || self.store >= newest) && !(with_deletions && is_deleted)
            }
            None => {
                let selected = |change: &&Change| {
                    self.watches.selection(change.labelled.unwrap()) == Selection::Selected
                };
                let newest_selected =
                    stored().filter(selected).map(|change| change.version).max().unwrap_or(0);
                let last = writes().max_by_key(|change| change.version);
                let is_absent = last.is_none_or(|last| {
                    last.labelled
                        .is_none_or(|labelled| self.watches.selection(labelled) != Selection::Selected)
                });
                self.store >= newest || is_absent && self.store >= newest_selected
            }
        }
    }

    fn check_read(&mut self, scope: &Scope, is_exact: bool) {
        let completed = self.missing(scope).is_empty();
        let in_scope = |key: &ObjectKey| match scope {
            Scope::Key(own) => own == key,
            Scope::Namespace(namespace) => key.namespace() == Some(namespace),
            Scope::Kind => true,
        };
        let keys = all_keys().filter(|key| in_scope(key) && self.watches.holds(key.namespace().unwrap()));
        let may_complete = keys.clone().all(|key| self.may_complete(&key, is_exact));
        if is_exact && !self.is_late && !self.waits_in_vain && !self.has_uncovered && !self.is_lowered {
            assert_eq!(completed, may_complete, "{scope:?}");
        } else {
            assert!(!completed || may_complete, "{scope:?}: an own write is missing");
        }
        let caught_up = self.writes.iter().all(|write| write.change.version <= self.store);
        let is_restored = self.must_rewind || self.waits_in_vain || self.is_lowered;
        assert!(completed || !caught_up || is_restored, "{scope:?}: the informer is caught up");
    }
}

fn all_keys() -> impl Iterator<Item = ObjectKey> + Clone {
    let of = |namespace: &'static str| NAMES.map(|name| ObjectKey::new(namespace, name).unwrap());
    NAMESPACES.into_iter().flat_map(of)
}

struct World {
    changes: Vec<Change>,
    /// Writes that the server has stored, and to which it has not responded yet.
    in_flight: Vec<Write>,
    /// Writes that created or labelled an object and whose response is in flight or lost. Reads do not know
    /// that an informer may hold these objects.
    unknown: Vec<Change>,
    clock: Ticket,
    uids: u64,
    informers: Vec<Informer>,
    recent: PendingWrites,
    /// All writes that were recorded in `recent` (the pending writes of informers that are created later),
    /// even those that `recent` no longer tracks by key.
    completed: Vec<Write>,
    /// True if a restore undid some of the writes that are recorded in `recent`, the pending writes of
    /// informers that are created later.
    recent_is_undone: bool,
    recent_rewinds: u64,
    max_size: usize,
}

impl World {
    fn new(max_size: usize) -> Self {
        let everything = Watches { namespace: None, labelled_only: false };
        let watches = [
            everything,
            Watches { namespace: Some("a"), ..everything },
            Watches { labelled_only: true, ..everything },
            Watches { namespace: Some("b"), labelled_only: true },
        ];
        Self {
            changes: Vec::new(),
            in_flight: Vec::new(),
            unknown: Vec::new(),
            clock: 0,
            uids: 0,
            informers: watches.map(|watches| Informer::new(watches, max_size)).into(),
            recent: PendingWrites::new(max_size),
            completed: Vec::new(),
            recent_is_undone: false,
            recent_rewinds: 0,
            max_size,
        }
    }

    fn version(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.version)
    }

    fn tick(&mut self) -> Ticket {
        self.clock += 1;
        self.clock
    }

    fn state_of(&self, key: &ObjectKey) -> Option<(u64, bool)> {
        let last = self.changes.iter().rfind(|change| change.key == *key)?;
        Some((last.uid, last.labelled?))
    }

    fn change(&mut self, key: ObjectKey, labelled: Option<bool>) -> Change {
        let uid = self.state_of(&key).map_or_else(
            || {
                self.uids += 1;
                self.uids
            },
            |(uid, _)| uid,
        );
        let change = Change { version: self.version() + 1, key, uid, labelled };
        self.changes.push(change.clone());
        change
    }

    fn write(&mut self, key: ObjectKey, labelled: Option<bool>) {
        let began = self.tick();
        // If the response to a write that created or labelled an object is missing, reads do not know that an
        // informer may hold the object, and cannot wait for its removal. The model therefore keeps the label
        // of such an object.
        let hides =
            |change: &Change| change.key == key && (labelled.is_none() || change.labelled == Some(true));
        let labelled = if self.unknown.iter().any(hides) { Some(true) } else { labelled };
        let creates = self.state_of(&key).is_none();
        if labelled.is_some() || !creates {
            let change = self.change(key, labelled);
            self.unknown.extend((creates || labelled == Some(true)).then(|| change.clone()));
            self.in_flight.push(Write { change, began, ended: 0 });
        }
    }

    /// Models another program that updates or deletes an object. It neither creates nor relabels objects,
    /// because read-your-writes makes no promise for objects that another program has created or relabelled.
    fn interfere(&mut self, key: ObjectKey, deletes: bool) {
        if let Some((_, labelled)) = self.state_of(&key) {
            self.change(key, (!deletes).then_some(labelled));
        }
    }

    fn respond(&mut self, which: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let mut write = self.in_flight.remove(which % self.in_flight.len());
        write.ended = self.tick();
        self.unknown.retain(|change| change.version != write.change.version);
        let rewinds = self.informers.iter().map(|informer| informer.rewinds).sum();
        if self.recent_rewinds != rewinds {
            self.recent.clear();
            self.completed.clear();
            self.recent_is_undone = false;
            self.recent_rewinds = rewinds;
        }
        self.completed.push(write.clone());
        self.recent.record(&write.completed(Some(Selection::Unknown)), 0);
        self.informers.iter_mut().for_each(|informer| informer.record(&write));
    }

    fn deliver(&mut self, which: usize, count: usize) {
        self.follow(which);
        let informer = &mut self.informers[which];
        let position = informer.position;
        let next = self.changes.iter().filter(|change| change.version > position).take(count);
        next.for_each(|change| informer.receive(change));
    }

    fn restore(&mut self, back: usize) {
        self.changes.truncate(self.changes.len().saturating_sub(back));
        // In a restore of the server, the responses to writes in flight are lost.
        self.in_flight.clear();
        let version = self.version();
        let is_kept = |write: &Write| write.change.version <= version;
        self.unknown.retain(|change| change.version <= version);
        self.recent_is_undone |= !self.completed.iter().all(is_kept);
        self.completed.retain(is_kept);
        for informer in &mut self.informers {
            informer.waits_in_vain |= !informer.writes.iter().all(is_kept);
            informer.writes.retain(is_kept);
            informer.must_rewind |= informer.position > version;
        }
    }

    /// Models an informer that follows a restore, if it has received changes that the restore undid.
    fn follow(&mut self, which: usize) {
        let informer = &mut self.informers[which];
        if std::mem::take(&mut informer.must_rewind) {
            informer.list(&self.changes);
            informer.rewinds += 1;
            (informer.has_uncovered, informer.waits_in_vain, informer.is_lowered) = (false, false, false);
            informer.writes.clear();
        }
    }

    /// Creates an informer whose first list lacks the last `lag` changes, as from a server that lags.
    fn create_informer(&mut self, watches: Watches, lag: usize) {
        if self.informers.len() > 6 || self.informers.iter().any(|informer| informer.must_rewind) {
            return;
        }
        let mut informer = Informer::new(watches, self.max_size);
        informer.list(&self.changes[..self.changes.len().saturating_sub(lag)]);
        informer.pending = self.recent.for_new_informer(|namespace| watches.holds(namespace));
        let held = |write: &&Write| watches.holds(write.change.key.namespace().unwrap());
        informer.writes = self.completed.iter().filter(held).cloned().collect();
        informer.is_late = true;
        informer.waits_in_vain = self.recent_is_undone;
        self.informers.push(informer);
        // `recent` holds the pending writes for informers that are created later, and a rewind of any
        // informer discards them. The sum of rewinds includes those of the new informer, so that only a later
        // rewind counts.
        self.recent_rewinds = self.informers.iter().map(|informer| informer.rewinds).sum();
    }

    fn step(&mut self, (action, a, b): (u8, u8, u8), is_exact: bool) {
        let (a, b) = (usize::from(a), usize::from(b));
        let key = all_keys().nth(a % 6).unwrap();
        let which = a % self.informers.len();
        match action % 24 {
            0..=5 => self.write(key, Some(b % 3 != 0)),
            6..=7 => self.write(key, None),
            8..=9 => self.interfere(key, b % 3 == 0),
            10..=13 => self.respond(a),
            14..=16 => self.deliver(which, b % 4),
            17 => {
                self.follow(which);
                self.informers[which].bookmark();
            }
            18 if b % 4 == 0 => self.restore(a % 6),
            19 => {
                let watches = self.informers[which].watches;
                self.create_informer(watches, b % 3);
            }
            action => {
                let scope = match b % 3 {
                    0 => Scope::Kind,
                    1 => Scope::Namespace(key.namespace().unwrap().to_owned()),
                    _ => Scope::Key(key),
                };
                let version = self.version();
                if action == 20 {
                    self.informers[which].lower(&scope, version);
                }
                self.informers[which].check_read(&scope, is_exact);
            }
        }
        for informer in &self.informers {
            assert!(informer.pending.size <= informer.pending.max_size);
        }
    }
}

fn run(steps: Vec<(u8, u8, u8)>, max_size: usize, is_exact: bool) {
    let mut world = World::new(max_size);
    steps.into_iter().for_each(|step| world.step(step, is_exact));
    for which in 0..world.informers.len() {
        world.deliver(which, usize::MAX);
        world.informers[which].bookmark();
        world.informers[which].check_read(&Scope::Kind, is_exact);
        let version = world.version();
        world.informers[which].lower(&Scope::Kind, version);
        assert!(world.informers[which].missing(&Scope::Kind).is_empty(), "reads wait for lost writes");
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 1..160)
}

#[test]
fn writes_after_a_restore_are_not_covered_until_the_informer_has_followed_it() {
    let [recreated, other] = ["b/y", "a/x"].map(key);
    let mut world = World::new(MAX_PENDING);
    let write = |world: &mut World, key: &ObjectKey, labelled| {
        world.write(key.clone(), labelled);
        world.respond(0);
    };
    write(&mut world, &recreated, Some(true));
    write(&mut world, &other, Some(true));
    write(&mut world, &other, Some(true));
    world.deliver(0, 3);
    world.restore(2);
    write(&mut world, &recreated, None);
    write(&mut world, &recreated, Some(true));
    let scope = Scope::Key(recreated.clone());
    assert_eq!((world.version(), world.informers[0].store), (3, 3), "two histories, one version");
    assert_eq!(world.informers[0].held[&recreated], (1, 1), "the deleted object");
    assert!(world.informers[0].missing(&scope).is_empty());
    world.informers[0].check_read(&scope, true);
    world.follow(0);
    assert_eq!(world.informers[0].held[&recreated], (3, 3));
    world.informers[0].check_read(&scope, true);
    write(&mut world, &recreated, None);
    assert_eq!(world.informers[0].missing(&scope).len(), 1, "covered again");
    world.informers[0].check_read(&scope, true);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn reads_wait_exactly_as_long_as_a_model_with_full_history(steps in steps()) {
        run(steps, MAX_PENDING, true);
    }

    #[test]
    fn reads_never_miss_an_own_write_when_floors_replace_keys(steps in steps()) {
        run(steps, 3, false);
    }
}
