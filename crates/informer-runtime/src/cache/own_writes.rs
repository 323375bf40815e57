//! Read-your-writes: cached reads show the writes of the program.
//!
//! # Contract
//!
//! - A read that begins after a write of a client of this cache has returned shows that write, or a later state. It waits
//!   for the informers that it reads, and for no others.
//! - A write without an answer is not waited for, since it may not have happened.
//! - An informer that follows a server which was restored from a backup no longer waits for writes from before.
//! - An informer that is created after a write waits for that write, too.
//! - Not covered: writes of other programs, writes whose answer was lost, deletions of collections, and writes after a
//!   restore until the informer has followed it.
//!
//! # Lock order
//!
//! The table of the cache, then the pending writes of one informer. Stores are read under neither of them.

mod pending;
mod selection;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_core::{Gvk, Object, ObjectKey, ResourceVersion};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cache, CacheInformer, InformerPart, ReadError};
use crate::ScopedKind;
use pending::{Answered, Expectation, MAX_PENDING, Subject};
pub(crate) use pending::{PendingWrites, Scope, Ticket};

/// The number of writes of a kind that are kept key by key for informers that are created later.
const MAX_RECENT: usize = 256;

/// A write that the server has answered.
#[derive(Debug)]
pub(crate) struct OwnWrite<'a> {
    pub(crate) kind: &'a ScopedKind,
    pub(crate) key: ObjectKey,
    /// The version of the object; unset where the answer has none.
    pub(crate) version: ResourceVersion,
    /// The uid of the object that the write removed.
    pub(crate) deleted: Option<String>,
    /// The object; `None` where the answer is not the object.
    pub(crate) object: Option<&'a Value>,
    /// When the write began.
    pub(crate) began: Ticket,
}

impl OwnWrite<'_> {
    fn answered(&self, ended: Ticket, selection: Option<pending::Selection>) -> Answered {
        Answered {
            key: self.key.clone(),
            version: self.version.clone(),
            deleted: self.deleted.clone(),
            selection,
            began: self.began,
            ended,
        }
    }
}

/// The writes that informers of one kind will have to show when they are created.
#[derive(Debug)]
pub(super) struct RecentWrites {
    pending: PendingWrites,
    /// The rewinds of all informers of the cache when the last write was recorded.
    rewinds: u64,
}

impl Default for RecentWrites {
    fn default() -> Self {
        Self { pending: PendingWrites::new(MAX_RECENT), rewinds: 0 }
    }
}

impl RecentWrites {
    fn record(&mut self, answered: &Answered, rewinds: u64) {
        self.follow(rewinds);
        self.pending.record(answered, 0);
    }

    /// Forgets what was written before any informer of the cache rewound.
    pub(super) fn follow(&mut self, rewinds: u64) {
        if self.rewinds != rewinds {
            self.pending.clear();
            self.rewinds = rewinds;
        }
    }

    /// Lets a new informer wait for these writes.
    pub(super) fn hand_to<O: Object>(&self, informer: &CacheInformer<O>) {
        for part in informer.parts() {
            let holds =
                |namespace: &str| informer.holds_namespace(part, Some(namespace).filter(|n| !n.is_empty()));
            *part.pending.lock() = self.pending.for_new_informer(holds);
        }
    }
}

/// Returns true for two API versions of one kind: a write of one changes the other.
pub(super) fn is_same_kind(one: &Gvk, other: &Gvk) -> bool {
    one.group == other.group && one.kind == other.kind
}

impl Cache {
    /// Takes the ticket of a write that begins.
    pub(crate) fn write_begins(&self) -> Ticket {
        self.shared.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets reads that begin from now on wait until they show the write.
    pub(crate) fn write_answered(&self, write: &OwnWrite<'_>) {
        let ended = self.write_begins();
        let rewinds = self.rewinds();
        let informers = {
            let mut table = self.shared.table.lock();
            let answered = write.answered(ended, Some(pending::Selection::Unknown));
            table.recent_writes(write.kind.gvk()).record(&answered, rewinds);
            table.informers_of(write.kind.gvk())
        };
        informers.iter().for_each(|informer| informer.own_write(write, ended));
    }

    /// The rewinds of all informers.
    pub(super) fn rewinds(&self) -> u64 {
        let informers = self.shared.table.lock().informers();
        informers.iter().map(|informer| informer.rewinds()).sum()
    }
}

impl<O: Object> CacheInformer<O> {
    /// Records a write with the informer that holds its key.
    pub(super) fn record_own_write(&self, write: &OwnWrite<'_>, ended: Ticket) {
        let Some(part) = self.part_in(write.key.namespace()) else { return };
        let same_version = write.kind.gvk() == self.kind().gvk();
        let selection = write.object.map(|object| part.selects.evaluate(&write.key, object, same_version));
        part.record(&write.answered(ended, selection));
    }

    /// Waits until the informers of a scope show the own writes that were answered before. Returns whether it had to wait.
    ///
    /// # Errors
    ///
    /// [`ReadError::Behind`] after `timeout`.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only waits.
    pub(crate) async fn wait_for_own_writes(
        &self,
        scope: &Scope,
        timeout: Duration,
    ) -> Result<bool, ReadError> {
        let (begin, mut waited) = (Instant::now(), false);
        let parts = match scope {
            Scope::Kind => self.parts(),
            Scope::Namespace(namespace) => {
                self.part_in(Some(namespace)).map(std::slice::from_ref).unwrap_or_default()
            }
            Scope::Key(key) => self.part_in(key.namespace()).map(std::slice::from_ref).unwrap_or_default(),
        };
        for part in parts {
            let rewinds = part.informer.rewinds();
            let missing = part.missing(scope, rewinds);
            if missing.is_empty() {
                continue;
            }
            waited = true;
            let left = timeout.saturating_sub(begin.elapsed());
            self.wait_for_part(part, &missing, rewinds, left).await?;
            part.pending.lock().confirm(&missing);
        }
        Ok(waited)
    }

    /// Waits until the informer shows one write, or a later state of the object.
    ///
    /// # Errors
    ///
    /// [`ReadError::Behind`] after `timeout`.
    pub(crate) async fn wait_for_write(
        &self,
        write: &OwnWrite<'_>,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let Some(part) = self.part_in(write.key.namespace()) else { return Ok(()) };
        let selection = write.object.map(|object| part.selects.evaluate(&write.key, object, true));
        let expected = [Expectation::of(&write.answered(write.began, selection))];
        self.wait_for_part(part, &expected, part.informer.rewinds(), timeout).await
    }

    /// Waits until one informer shows what is expected, or rewinds.
    async fn wait_for_part(
        &self,
        part: &InformerPart<O>,
        expected: &[Expectation],
        rewinds: u64,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let begin = Instant::now();
        // An expectation that is shown once stays shown, so each check begins where the last one stopped.
        let shown = AtomicUsize::new(0);
        let all_shown = || {
            let mut next = shown.load(Ordering::Relaxed);
            while expected.get(next).is_some_and(|expected| part.shows(expected)) {
                next += 1;
            }
            shown.store(next, Ordering::Relaxed);
            next == expected.len()
        };
        let condition = |_: &_| part.informer.rewinds() != rewinds || all_shown();
        let waited = part.informer.wait_until_for(timeout, condition).await;
        waited.map_err(|_| {
            let missing = expected.get(shown.load(Ordering::Relaxed));
            let key = missing.map_or_else(String::new, |missing| missing.subject.to_string());
            ReadError::Behind { kind: self.name(), key, waited: begin.elapsed() }
        })
    }
}

impl<O: Object> InformerPart<O> {
    fn record(&self, answered: &Answered) {
        if self.pending.lock().is_check_due() {
            self.missing(&Scope::Kind, self.informer.rewinds());
            self.pending.lock().checked();
        }
        self.pending.lock().record(answered, self.informer.rewinds());
    }

    /// The own writes of a scope that the store does not show; the others are forgotten.
    fn missing(&self, scope: &Scope, rewinds: u64) -> Vec<Expectation> {
        let pending = self.pending.lock().pending(scope, rewinds);
        if pending.is_empty() {
            return pending;
        }
        let (shown, missing): (Vec<_>, Vec<_>) = pending.into_iter().partition(|pending| self.shows(pending));
        self.pending.lock().confirm(&shown);
        missing
    }

    fn shows(&self, expected: &Expectation) -> bool {
        let indexer = self.informer.indexer();
        // Read before the object: every later read of the store shows all states up to this version.
        let store = indexer.resource_version();
        let held = expected.key().and_then(|key| indexer.get(key));
        expected.is_shown(held.as_deref().map(|held| (held.uid(), held.resource_version())), &store)
    }
}

/// The pending writes of an informer that is not in the cache yet.
pub(super) fn nothing_pending() -> PendingWrites {
    PendingWrites::new(MAX_PENDING)
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Namespace(namespace) if namespace.is_empty() => f.write_str("many objects"),
            Self::Namespace(namespace) => write!(f, "many objects in namespace {namespace}"),
            Self::Everywhere => f.write_str("many objects"),
        }
    }
}
