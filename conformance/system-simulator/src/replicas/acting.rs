//! Mutual exclusion: at most one leader, and one reconcile per key, at any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::check::Checks;
use crate::intent::Intents;
use crate::program::Shared;
use crate::trace::Trace;

/// Counts the leaders and the reconciles of each key, over all replicas. A clone is another handle.
#[derive(Debug, Clone)]
pub(crate) struct Acting {
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    checks: Checks,
    trace: Trace,
    pub(super) intents: Intents,
}

/// Ends the action when it is dropped.
pub(crate) struct ActingGuard {
    acting: Acting,
    what: String,
}

impl Acting {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            counts: Arc::default(),
            checks: shared.checks.clone(),
            trace: shared.trace.clone(),
            intents: shared.intents.clone(),
        }
    }

    /// Begins an action. It is a violation if another action on the same subject is running.
    pub(crate) fn begin(&self, what: impl Into<String>) -> ActingGuard {
        let what = what.into();
        self.trace.line(format_args!("  {what} begins"));
        let mut counts = self.counts.lock();
        let count = counts.entry(what.clone()).or_default();
        *count += 1;
        self.checks
            .ensure("one-acts", *count == 1, || format!("{what}: {count} are active at the same time"));
        ActingGuard { acting: self.clone(), what }
    }
}

impl Drop for ActingGuard {
    fn drop(&mut self) {
        self.acting.trace.line(format_args!("  {} ends", self.what));
        if let Some(count) = self.acting.counts.lock().get_mut(&self.what) {
            *count -= 1;
        }
    }
}
