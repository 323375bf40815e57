//! Read-your-writes: cached reads show the writes of the program.
//!
//! # Contract
//!
//! - A read that begins after a write of a client of this cache has returned shows that write or a later
//!   state. It waits only for the informers that it reads.
//! - Reads do not wait for a write without a response, since it may not have happened.
//! - When an informer follows a restore of the server from a backup, reads no longer wait for earlier writes.
//!   An informer that has received nothing newer than the restored version cannot notice the restore. A read
//!   that has waited for half of its timeout therefore requests the version of the server, and waits for that
//!   version instead of lost writes.
//! - An informer that is created after a write waits for that write, too.
//! - Not covered: writes of other programs, writes whose response was lost, deletions of collections, and
//!   writes after a restore until the informer has followed it.
//!
//! # Lock order
//!
//! The lock of the cache's table of informers is taken before the lock of an informer's pending writes.
//! Stores are read under neither of them.

mod pending;
mod selection;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_core::{Gvk, Object, ObjectKey, ResourceVersion};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cache, CacheInformer, InformerScope, ScopedInformer};
use crate::ReadError;
use crate::ResourceKind;
use pending::{CompletedWrite, MAX_PENDING, Subject};
pub(crate) use pending::{Expectation, PendingWrites, Scope, Ticket};

/// The maximum number of own writes of a kind that are remembered individually for informers that do not
/// exist yet. A new informer must show these writes before it is read. Beyond this number, only the newest
/// version per namespace is remembered.
const MAX_RECENT: usize = 256;

/// A write of this program to which the server has responded, and which later reads must show.
#[derive(Debug)]
pub(crate) struct OwnWrite<'a> {
    pub(crate) kind: &'a ResourceKind,
    pub(crate) key: ObjectKey,
    /// The resourceVersion of the object after the write; unset if the response contains none.
    pub(crate) version: ResourceVersion,
    /// The uid of the object, if the write removed the object.
    pub(crate) deleted: Option<String>,
    /// The written object; `None` if the response is something else, such as a Status or a Scale.
    pub(crate) object: Option<&'a Value>,
    pub(crate) began: Ticket,
}

impl OwnWrite<'_> {
    fn completed(&self, ended: Ticket, selection: Option<pending::Selection>) -> CompletedWrite {
        CompletedWrite {
            key: self.key.clone(),
            version: self.version.clone(),
            deleted: self.deleted.clone(),
            selection,
            began: self.began,
            ended,
        }
    }
}

/// The recent own writes of one kind. An informer of the kind that is created later must show them before it
/// is read.
#[derive(Debug)]
pub(super) struct RecentWrites {
    pending: PendingWrites,
    /// The number of rewinds of all informers of the cache when the last write was recorded. In a rewind an
    /// informer follows a server that was restored to an older version. If the number has grown, the recorded
    /// writes may be lost and are discarded.
    rewinds: u64,
}

impl Default for RecentWrites {
    fn default() -> Self {
        Self { pending: PendingWrites::new(MAX_RECENT), rewinds: 0 }
    }
}

impl RecentWrites {
    fn record(&mut self, completed: &CompletedWrite, rewinds: u64) {
        self.follow(rewinds);
        self.pending.record(completed, 0);
    }

    /// Discards the recorded writes if an informer of the cache has followed a restore of the server since
    /// the last write was recorded. The restored server may not have these writes, so no read must wait for
    /// them.
    pub(super) fn follow(&mut self, rewinds: u64) {
        if self.rewinds != rewinds {
            self.pending.clear();
            self.rewinds = rewinds;
        }
    }

    pub(super) fn register_with<O: Object>(&self, informer: &CacheInformer<O>) {
        for part in informer.scoped_informers() {
            let holds =
                |namespace: &str| informer.holds_namespace(part, Some(namespace).filter(|n| !n.is_empty()));
            *part.pending.lock() = self.pending.for_new_informer(holds);
        }
    }
}

/// Returns true if two kinds have the same group and the same `kind`, and differ at most in their API
/// version. A write through one API version also changes the objects that are read through the other.
pub(super) fn is_same_kind(one: &Gvk, other: &Gvk) -> bool {
    one.group == other.group && one.kind == other.kind
}

impl Cache {
    pub(crate) fn begin_write(&self) -> Ticket {
        self.shared.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Records a completed write of this program, so that reads that begin from now on wait until the cache
    /// shows the write.
    pub(crate) fn write_completed(&self, write: &OwnWrite<'_>) {
        let ended = self.begin_write();
        let rewinds = self.rewinds();
        let informers = {
            let mut table = self.shared.table.lock();
            let completed = write.completed(ended, Some(pending::Selection::Unknown));
            table.recent_writes(write.kind.gvk()).record(&completed, rewinds);
            table.informers_of(write.kind.gvk())
        };
        informers.iter().for_each(|informer| informer.own_write(write, ended));
    }

    pub(super) fn rewinds(&self) -> u64 {
        let informers = self.shared.table.lock().informers();
        informers.iter().map(|informer| informer.rewinds()).sum()
    }
}

impl<O: Object> CacheInformer<O> {
    pub(super) fn record_own_write(&self, write: &OwnWrite<'_>, ended: Ticket) {
        let Some(part) = self.scoped_informer(write.key.namespace()) else { return };
        let same_version = write.kind.gvk() == self.kind().gvk();
        let selection = part.selectors.evaluate_write(write, same_version);
        part.record(&write.completed(ended, selection));
    }

    /// Waits until the informers of a scope (an object, a namespace or a kind) show the program's writes that
    /// completed before this call. Returns whether it had to wait.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Behind`] if an informer does not show the writes within `timeout`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because it only waits.
    pub(crate) async fn wait_for_own_writes(
        &self,
        scope: &Scope,
        timeout: Duration,
    ) -> Result<bool, ReadError> {
        let (begin, mut waited) = (Instant::now(), false);
        for part in self.informers_of(scope) {
            let rewinds = part.informer.rewinds();
            let missing = part.missing(scope, rewinds);
            if missing.is_empty() {
                continue;
            }
            waited = true;
            let left = timeout.saturating_sub(begin.elapsed());
            self.wait_for_informer(part, &missing, rewinds, left).await?;
            part.pending.lock().confirm(&missing);
        }
        Ok(waited)
    }

    fn informers_of(&self, scope: &Scope) -> &[ScopedInformer<O>] {
        let namespace = match scope {
            Scope::Kind => return self.scoped_informers(),
            Scope::Namespace(namespace) => Some(&**namespace),
            Scope::Key(key) => key.namespace(),
        };
        self.scoped_informer(namespace).map(std::slice::from_ref).unwrap_or_default()
    }

    /// Returns the namespace for a list request that determines the current version of the server; `None` for
    /// the whole cluster. Reads that wait too long send such a request, because the server may have lost
    /// writes. It is restricted to a cached namespace, because the program may lack the permission to list
    /// objects in others.
    pub(crate) fn namespace_of(&self, scope: &Scope) -> Option<String> {
        match scope {
            Scope::Key(key) => key.namespace().map(str::to_owned),
            Scope::Namespace(namespace) => Some(namespace.clone()).filter(|name| !name.is_empty()),
            Scope::Kind => self.scoped_informers().iter().find_map(|part| match &part.scope {
                InformerScope::Namespace(namespace) => Some(namespace.clone()),
                InformerScope::All | InformerScope::OtherNamespaces => None,
            }),
        }
    }

    pub(crate) fn missing_writes(&self, scope: &Scope) -> Vec<Vec<Expectation>> {
        let informers = self.informers_of(scope).iter();
        informers.map(|part| part.missing(scope, part.informer.rewinds())).collect()
    }

    /// Stops reads from waiting for writes that the server has lost because it was restored from a backup.
    /// These reads wait for the current version of the server instead. Returns true if the server has lost
    /// any of the writes.
    ///
    /// `missing` contains the writes that the informers do not show. `server` is the version of a consistent
    /// list that was requested after `missing` was read. A server that was not restored is at least at the
    /// version of each of these writes.
    pub(crate) fn lower_lost_writes(
        &self,
        scope: &Scope,
        missing: &[Vec<Expectation>],
        server: &ResourceVersion,
    ) -> bool {
        let mut is_lowered = false;
        for (part, missing) in self.informers_of(scope).iter().zip(missing) {
            is_lowered |= part.pending.lock().lower(missing, server);
        }
        is_lowered
    }

    /// Waits until the informer shows one write of the program, or a later state of the object.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Behind`] if the informer does not show the write within `timeout`.
    pub(crate) async fn wait_for_write(
        &self,
        write: &OwnWrite<'_>,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let Some(part) = self.scoped_informer(write.key.namespace()) else { return Ok(()) };
        let selection = part.selectors.evaluate_write(write, true);
        let expected = [Expectation::of(&write.completed(write.began, selection))];
        self.wait_for_informer(part, &expected, part.informer.rewinds(), timeout).await
    }

    /// Waits until one informer shows the expected writes. The wait also ends when the informer rewinds,
    /// which means that it follows a server that was restored to an older version and may not have these
    /// writes.
    async fn wait_for_informer(
        &self,
        part: &ScopedInformer<O>,
        expected: &[Expectation],
        rewinds: u64,
        timeout: Duration,
    ) -> Result<(), ReadError> {
        let begin = Instant::now();
        // The condition is checked after each change of the store. A write that the store has shown once
        // stays shown, so each check starts at the first write that was missing in the previous check.
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

impl<O: Object> ScopedInformer<O> {
    fn record(&self, completed: &CompletedWrite) {
        if self.pending.lock().is_check_due() {
            self.missing(&Scope::Kind, self.informer.rewinds());
            self.pending.lock().checked();
        }
        self.pending.lock().record(completed, self.informer.rewinds());
    }

    /// Returns the own writes of a scope that the store of this informer does not show yet. Writes that the
    /// store shows are removed from the pending ones, since reads need not wait for them any more.
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
        // The version of the store is read before the object. The object that is read afterwards reflects all
        // changes up to this version, even if the store changes in between.
        let store = indexer.resource_version();
        let held = expected.key().and_then(|key| indexer.get(key));
        expected.is_shown(held.as_deref().map(|held| (held.uid(), held.resource_version())), &store)
    }
}

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
