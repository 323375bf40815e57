//! Checks read-your-writes: compares what programs read after their own writes with the history of the
//! server.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::auditor::{Gap, History, Recorded, State};
use crate::check::Checks;
use crate::sample::is_unreadable;
use crate::view::View;

/// A read of an object that followed a write of the same object through the same client.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) key: String,
    pub(crate) written: u64,
    /// Number of restores of the server before the write; `None` if the server was restored between the write
    /// and the read.
    pub(crate) epoch: Option<u64>,
    /// The server's resourceVersion when the read returned. The cache cannot have returned a later state.
    pub(crate) server: u64,
    pub(crate) took: Duration,
    /// The resourceVersion of the object that the cache returned, or the error of the read.
    pub(crate) read: Result<Option<u64>, String>,
}

/// The recorded reads of one program for one kind. A clone refers to the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnWrites(Arc<Mutex<Vec<Observation>>>);

/// The maximum duration of a read: it may wait until the informer has synced, and then for own writes.
const MAX_READ: Duration = Duration::from_secs(40);

impl OwnWrites {
    pub(crate) fn record(&self, observation: Observation) {
        self.0.lock().push(observation);
    }

    /// Returns the observations since the last call.
    pub(crate) fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Checks that each read returned the state of the preceding write, or a later one.
pub(crate) fn check(observations: &[Observation], view: &dyn View, history: &History, checks: &Checks) {
    for observation in observations {
        checks.ensure("reads-end", observation.took <= MAX_READ, || {
            format!("{}: a read of {} took {:?}", view.name(), observation.key, observation.took)
        });
        let Some(epoch) = observation.epoch else { continue };
        let shows = match observation.read {
            Ok(Some(version)) => {
                version >= observation.written
                    || history.look(|history| may_be_older(history, observation, epoch))
            }
            Ok(None) => history.look(|history| may_be_missing(history, observation, epoch, view)),
            // A read may fail because its time limit expired. The invariant `reads-recover` checks that reads
            // succeed once all faults are over.
            Err(_) => true,
        };
        checks.ensure("read-your-writes", shows, || {
            format!(
                "{}: after the write @{} of {} the cache showed {:?}",
                view.name(),
                observation.written,
                observation.key,
                observation.read
            )
        });
    }
}

/// Returns true if a cache may hold a state older than the write. This is correct if a state between the
/// write and the read cannot be decoded, since a cache keeps the last state that it could decode.
fn may_be_older(history: &Recorded, observation: &Observation, epoch: u64) -> bool {
    states_between(history, observation, epoch).any(|state| state.object.as_ref().is_some_and(is_unreadable))
}

/// Returns true if a cache may contain no state of the object: a state between the write and the read was
/// deleted, is not selected by the view, or cannot be decoded. The auditor may also have missed states when
/// its watch ended; then any state is possible.
fn may_be_missing(history: &Recorded, observation: &Observation, epoch: u64, view: &dyn View) -> bool {
    let (written, server) = (observation.written, observation.server);
    let missing = |state: &State| {
        let held = |object: &Value| view.selection().selects(object) && !is_unreadable(object);
        !state.object.as_ref().is_some_and(held)
    };
    let unknown =
        |gap: &Gap| gap.epoch == epoch && gap.versions.start() < &server && gap.versions.end() >= &written;
    states_between(history, observation, epoch).any(missing) || history.gaps.iter().any(unknown)
}

/// Returns the recorded states of the object that are not older than the write and not newer than the read.
fn states_between<'h>(
    history: &'h Recorded,
    observation: &'h Observation,
    epoch: u64,
) -> impl Iterator<Item = &'h State> {
    let Observation { key, written, server, .. } = observation;
    history.states.iter().filter(move |state| {
        let concerns = state.key == *key && state.version >= *written;
        concerns && (state.version <= *server || state.epoch != epoch)
    })
}
