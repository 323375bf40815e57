//! Checks that writes of programs change only the fields that the programs intended to change.

use std::sync::Arc;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::Value;

use crate::auditor::{History, State};
use crate::check::Checks;
use crate::difference::{changed_paths, is_within};

/// Fields that may change in any write, because the server's own controllers or the webhooks set them.
const OF_OTHERS: [&str; 4] = [
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.ownerReferences",
    "metadata.annotations.sim.example.com/defaulted",
];

#[derive(Debug, Clone)]
struct Intent {
    resource: String,
    key: String,
    epoch: u64,
    /// The paths of the fields that the write may change.
    paths: Vec<String>,
    /// The resourceVersion that the write created; `None` if the response was lost or the write was rejected.
    version: Option<u64>,
    what: String,
}

/// The intended changes of all writes of a run. A clone refers to the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Intents(Arc<Mutex<Vec<Intent>>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(usize);

impl Intents {
    pub(crate) fn begin(
        &self,
        gvr: &Gvr,
        key: &str,
        epoch: u64,
        (what, paths): (&str, Vec<String>),
    ) -> Ticket {
        let mut intents = self.0.lock();
        intents.push(Intent {
            resource: gvr.resource.clone(),
            key: key.to_owned(),
            epoch,
            paths,
            version: None,
            what: what.to_owned(),
        });
        Ticket(intents.len() - 1)
    }

    pub(crate) fn completed(&self, ticket: Ticket, version: u64) {
        if let Some(intent) = self.0.lock().get_mut(ticket.0) {
            intent.version = Some(version);
        }
    }

    /// Checks each change in a recorded history against the writes that may have caused it.
    pub(crate) fn check(&self, gvr: &Gvr, history: &History, checks: &Checks) {
        let intents = self.0.lock();
        let of_kind: Vec<&Intent> = intents.iter().filter(|intent| intent.resource == gvr.resource).collect();
        history.look(|history| {
            let mut last = std::collections::BTreeMap::<&str, &State>::new();
            for state in &history.states {
                let before = last.insert(&state.key, state).filter(|_| state.follows);
                let objects =
                    before.and_then(|before| Some((before.object.as_ref()?, state.object.as_ref()?)));
                if let Some((old, new)) = objects {
                    check_transition(&of_kind, state, (old, new), checks);
                }
            }
        });
    }
}

fn check_transition(intents: &[&Intent], state: &State, (old, new): (&Value, &Value), checks: &Checks) {
    let of_object = intents.iter().filter(|intent| intent.key == state.key && intent.epoch == state.epoch);
    // A write whose response was lost may have caused any of the changes.
    let (claimed, uncertain): (Vec<&&Intent>, Vec<&&Intent>) = of_object
        .filter(|intent| intent.version.is_none_or(|version| version == state.version))
        .partition(|intent| intent.version.is_some());
    let Some(claimant) = claimed.first() else { return };
    let changed = changed_paths(old, new);
    // The response to a write that changed nothing contains the resourceVersion of an earlier write. Several
    // writes may therefore claim the same version.
    let paths = claimed.iter().chain(&uncertain).flat_map(|intent| intent.paths.iter().map(String::as_str));
    let allowed: Vec<&str> = paths.chain(OF_OTHERS).collect();
    let is_meant = |path: &String| allowed.iter().any(|prefix| is_within(path, prefix));
    let strange: Vec<_> = changed.iter().filter(|path| !is_meant(path)).cloned().collect();
    checks.ensure("fields-kept", strange.is_empty(), || {
        let what = &claimant.what;
        format!("{what} of {} @{} may change {allowed:?}, and changed {strange:?}", state.key, state.version)
    });
}
