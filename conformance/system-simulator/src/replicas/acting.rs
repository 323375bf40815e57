//! Checks mutual exclusion of replicas: at any time at most one leader, and at most one reconcile per key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::check::Checks;
use crate::intent::Intents;
use crate::program::Shared;
use crate::trace::Trace;

/// The running actions (being the leader, or reconciling a key) of all replicas. A clone refers to the same
/// record.
#[derive(Clone)]
pub(crate) struct Acting {
    running: Arc<Mutex<BTreeMap<String, Vec<Action>>>>,
    next: Arc<AtomicU64>,
    checks: Checks,
    trace: Trace,
    pub(super) intents: Intents,
}

struct Action {
    number: u64,
    /// Returns whether the replica may still act. It returns false when the replica has lost that right, for
    /// example with its lease. The replica's action may then still wait for a response, but the server
    /// rejects its further writes.
    may_act: Box<dyn Fn() -> bool + Send + Sync>,
}

pub(crate) struct ActingGuard {
    acting: Acting,
    what: String,
    number: u64,
}

impl Acting {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            running: Arc::default(),
            next: Arc::default(),
            checks: shared.checks.clone(),
            trace: shared.trace.clone(),
            intents: shared.intents.clone(),
        }
    }

    /// Begins an action. It is a violation if another action with the same subject is running.
    pub(crate) fn begin(&self, what: impl Into<String>) -> ActingGuard {
        self.begin_while(what, || true)
    }

    /// Begins an action of a replica that may act as long as `may_act` returns true. It is a violation if
    /// another replica that may act is running an action with the same subject.
    pub(crate) fn begin_while(
        &self,
        what: impl Into<String>,
        may_act: impl Fn() -> bool + Send + Sync + 'static,
    ) -> ActingGuard {
        let what = what.into();
        self.trace.line(format_args!("  {what} begins"));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut running = self.running.lock();
        let actions = running.entry(what.clone()).or_default();
        let count = 1 + actions.iter().filter(|action| (action.may_act)()).count();
        self.checks.ensure("one-acts", count == 1, || format!("{what}: {count} are active at the same time"));
        actions.push(Action { number, may_act: Box::new(may_act) });
        ActingGuard { acting: self.clone(), what, number }
    }
}

impl Drop for ActingGuard {
    fn drop(&mut self) {
        self.acting.trace.line(format_args!("  {} ends", self.what));
        let mut running = self.acting.running.lock();
        let Some(actions) = running.get_mut(&self.what) else { return };
        let ended = actions.extract_if(.., |action| action.number == self.number).collect::<Vec<_>>();
        // The lock is released before the context of the action is dropped.
        drop(running);
        drop(ended);
    }
}
