//! The objects and changes that the handlers of `informer watch --ui` have received.
//!
//! # Lock order
//!
//! One lock guards the state. It is held while a change is added, and while the rows of a frame are
//! collected. Objects are decoded and compared, and the terminal is written, without it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use informer::cache::Event;
use informer::client::ResourceKind;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::failure::{chain, plain};
use crate::format::plural;
use crate::watch::Text;
use crate::watch::diff::{Difference, Rendering, path};
use crate::watch::ignore::{IgnoredPath, without_ignored};
use crate::watch::printer::{Styles, is_secret, version};
use crate::watch::states::States;

/// The number of changes that are kept, of all objects together.
const MAX_CHANGES: usize = 10_000;
/// The number of deleted objects that are kept.
pub(super) const MAX_DELETED: usize = 1_000;
/// The maximum number of lines of one change. Further lines are only counted.
const MAX_LINES: usize = 200;
/// The maximum length of the list of changed fields in the table, in characters.
const MAX_FIELDS_CHARS: usize = 120;

/// The kind and the key of an object, as they are shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectId {
    pub(super) kind: String,
    pub(super) key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The object was in the first list.
    Listed,
    Added,
    Updated,
    Deleted,
}

#[derive(Clone)]
pub(super) struct WatchedObject {
    pub(super) change: ChangeKind,
    /// The newest state, or the last known one of a deleted object.
    object: Arc<Text>,
    is_masked: bool,
    /// The number of changes since the object was listed.
    pub(super) changes: u64,
    pub(super) changed: Instant,
    /// The paths of the fields that the last update has changed.
    pub(super) fields: String,
    /// The position of the last change among those of all objects; 0 for a listed object.
    order: u64,
}

/// A change of an object after its first list.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) id: Arc<ObjectId>,
    pub(super) kind: ChangeKind,
    /// The time in UTC.
    pub(super) time: String,
    pub(super) versions: String,
    /// The changed fields, one a line, as `informer watch` prints them.
    pub(super) lines: Vec<String>,
}

/// The order of the objects on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The last changed object first. Objects without a change follow in the order of their names.
    #[default]
    Changed,
    Name,
}

#[derive(Default)]
pub(super) struct Changes {
    objects: BTreeMap<Arc<ObjectId>, WatchedObject>,
    by_change: BTreeSet<(Reverse<u64>, Arc<ObjectId>)>,
    /// The last changes of all objects, oldest first.
    log: VecDeque<Change>,
    /// The deleted objects, in the order of their deletions.
    deleted: VecDeque<Arc<ObjectId>>,
    /// The number of changes that were received, besides listed objects.
    pub(super) total: u64,
    /// The number of events that were received. The screen is drawn again when it changes.
    pub(super) events: u64,
}

impl Changes {
    fn add(&mut self, id: ObjectId, mut object: WatchedObject, change: Option<Change>) {
        self.events += 1;
        let known = self.objects.get_key_value(&id);
        let before = known.map(|(id, before)| (Arc::clone(id), before.clone()));
        let (id, changes) = match before {
            Some((id, before)) => {
                self.by_change.remove(&(Reverse(before.order), Arc::clone(&id)));
                if before.change == ChangeKind::Deleted {
                    self.deleted.retain(|deleted| *deleted != id);
                }
                (id, before.changes)
            }
            None => (Arc::new(id), 0),
        };
        if let Some(change) = change {
            self.total += 1;
            (object.order, object.changes) = (self.total, changes + 1);
            self.log.push_back(Change { id: Arc::clone(&id), ..change });
            if self.log.len() > MAX_CHANGES {
                self.log.pop_front();
            }
        }
        if object.change == ChangeKind::Deleted {
            self.deleted.push_back(Arc::clone(&id));
        }
        self.by_change.insert((Reverse(object.order), Arc::clone(&id)));
        self.objects.insert(id, object);
        if self.deleted.len() > MAX_DELETED
            && let Some(id) = self.deleted.pop_front()
            && let Some(object) = self.objects.remove(&id)
        {
            self.by_change.remove(&(Reverse(object.order), id));
        }
    }

    /// Replaces the state of an object after a change that is not shown.
    fn replace(&mut self, id: &ObjectId, object: &Arc<Text>) {
        if let Some(known) = self.objects.get_mut(id) {
            known.object = Arc::clone(object);
            self.events += 1;
        }
    }

    /// Returns the objects whose kind or key contains each word of the filter, which is in lower case.
    pub(super) fn objects<'a>(
        &'a self,
        order: Order,
        filter: &'a [String],
    ) -> impl Iterator<Item = (&'a Arc<ObjectId>, &'a WatchedObject)> {
        let ordered: Box<dyn Iterator<Item = &Arc<ObjectId>>> = match order {
            Order::Changed => Box::new(self.by_change.iter().map(|(_, id)| id)),
            Order::Name => Box::new(self.objects.keys()),
        };
        let is_shown = |id: &&Arc<ObjectId>| {
            filter.is_empty() || {
                let text = format!("{} {}", id.kind, id.key).to_lowercase();
                filter.iter().all(|word| text.contains(word))
            }
        };
        ordered.filter(is_shown).filter_map(|id| Some((id, self.objects.get(id)?)))
    }

    pub(super) fn object(&self, id: &ObjectId) -> Option<&WatchedObject> {
        self.objects.get(id)
    }

    /// Returns the numbers of objects that match the filter, such as `3 objects, 1 deleted`.
    pub(super) fn matching(&self, filter: &[String]) -> String {
        let (all, deleted) = if filter.is_empty() {
            (self.objects.len(), self.deleted.len())
        } else {
            self.objects(Order::Name, filter).fold((0, 0), |(all, deleted), (_, object)| {
                (all + 1, deleted + usize::from(object.change == ChangeKind::Deleted))
            })
        };
        let present = plural(all - deleted, "object");
        if deleted == 0 { present } else { format!("{present}, {deleted} deleted") }
    }

    /// Returns the changes of an object that are kept, newest first.
    pub(super) fn of<'a>(&'a self, id: &'a ObjectId) -> impl Iterator<Item = &'a Change> {
        self.log.iter().rev().filter(move |change| *change.id == *id)
    }
}

impl WatchedObject {
    /// Returns the newest state as YAML, or the reason why it cannot be shown. Values of Secrets are hidden.
    pub(super) fn yaml(&self) -> String {
        let rendering = Rendering { masked: self.is_masked, styles: &Styles::default() };
        let object = match self.object.get() {
            Ok(object) => rendering.value(&[], &object),
            Err(error) => return plain(&chain(&error)),
        };
        match serde_norway::to_string(&object) {
            Ok(text) => text.lines().map(plain).collect::<Vec<_>>().join("\n"),
            Err(error) => plain(&chain(&error)),
        }
    }
}

/// Receives the events of all handlers.
pub(super) struct ChangeLog {
    changes: Mutex<Changes>,
    ignore: Vec<IgnoredPath>,
    show_secrets: bool,
}

impl ChangeLog {
    pub(super) fn new(ignore: Vec<IgnoredPath>, show_secrets: bool) -> Self {
        Self { changes: Mutex::default(), ignore, show_secrets }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock()
    }

    /// Adds the change that an event describes. A resync is no change. An update of nothing but ignored
    /// fields replaces the state of the object, and is not listed.
    pub(super) fn record(&self, kind: &ResourceKind, event: &Event<Text>) {
        let change = match event {
            Event::Added { initial: true, .. } => ChangeKind::Listed,
            Event::Added { .. } => ChangeKind::Added,
            Event::Updated { resync: true, .. } => return,
            Event::Updated { .. } => ChangeKind::Updated,
            Event::Deleted { .. } => ChangeKind::Deleted,
        };
        let id = ObjectId { kind: kind.resource(), key: plain(event.key().as_str()) };
        let is_masked = !self.show_secrets && is_secret(kind);
        let (mut lines, mut fields) = (Vec::new(), String::new());
        if change == ChangeKind::Updated {
            let states = States::of(event);
            let all = states.changes();
            let changes = without_ignored(&all, &self.ignore);
            if changes.is_empty() && !all.is_empty() {
                return self.changes.lock().replace(&id, event.object());
            }
            let rendering = Rendering { masked: is_masked, styles: &Styles::default() };
            lines = match &states.error {
                Some(error) => vec![error.clone()],
                None => lines_of(&rendering.lines(&changes)),
            };
            fields = fields_of(&changes);
        }
        let record = (change != ChangeKind::Listed).then(|| Change {
            id: Arc::new(id.clone()),
            kind: change,
            time: format!("{:.3}", Timestamp::now()),
            versions: versions(event),
            lines,
        });
        let object = WatchedObject {
            change,
            object: Arc::clone(event.object()),
            is_masked,
            changes: 0,
            changed: Instant::now(),
            fields,
            order: 0,
        };
        self.changes.lock().add(id, object, record);
    }
}

fn versions(event: &Event<Text>) -> String {
    match event {
        Event::Updated { old, new, .. } => format!("@{} -> @{}", version(old), version(new)),
        Event::Added { object, .. } => format!("@{}", version(object)),
        Event::Deleted { last, stale } => {
            format!("@{}{}", version(last), if *stale { " (last known)" } else { "" })
        }
    }
}

fn lines_of(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().take(MAX_LINES).map(str::to_owned).collect();
    let more = text.lines().count() - lines.len();
    if more > 0 {
        lines.push(format!("    ... ({more} more lines)"));
    }
    if lines.is_empty() {
        lines.push("    (only resourceVersion or managed fields changed)".to_owned());
    }
    lines
}

fn fields_of(changes: &[&Difference<'_>]) -> String {
    let mut fields = String::new();
    for change in changes {
        if !fields.is_empty() {
            fields.push_str(", ");
        }
        fields.push_str(&path(&change.path));
        if let Some((end, _)) = fields.char_indices().nth(MAX_FIELDS_CHARS) {
            fields.truncate(end);
            break;
        }
    }
    fields
}
