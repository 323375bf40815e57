//! Mutual exclusion: at most one leader, and one reconcile per key, at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::check::Checks;
use crate::intent::Intents;
use crate::program::Shared;
use crate::trace::Trace;

/// Records the leaders and the reconciles of each key, over all replicas. A clone is another handle.
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
    /// Returns false after the replica has lost the right to act, for example with its lease. Such an action
    /// may still wait for a response, and its further writes are rejected.
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

    /// Begins an action. It is a violation if another action on the same subject is running.
    pub(crate) fn begin(&self, what: impl Into<String>) -> ActingGuard {
        self.begin_while(what, || true)
    }

    /// Begins an action of a replica that may act as long as `may_act` returns true. It is a violation if
    /// another action on the same subject is running whose replica may act.
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
        // The context of the action is dropped without the lock.
        drop(running);
        drop(ended);
    }
}
