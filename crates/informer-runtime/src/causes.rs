//! The causes of reconciles: which events have enqueued a request.
//!
//! A work queue merges the events of a key, so a request does not contain them. If a controller
//! [records causes](crate::ControllerOptions::record_causes), a [`CauseLog`] next to its queue keeps the
//! events of each queued request, and a reconcile takes those of its request from it.
//!
//! # Order
//!
//! A cause is recorded before its request is added to the queue. The next reconcile of the request that
//! begins takes it. So no cause is lost, but the request may be added after a reconcile has taken its cause.
//! The reconcile that then follows has no cause of its own, and sees the same state.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::Event;
use informer_core::{Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{ReconcileRequest, Trigger};

/// The maximum number of causes that are kept per request. Later causes are only counted.
pub(crate) const MAX_CAUSES: usize = 16;

/// The maximum number of requests whose causes are kept, including those that wait for a delay. The requests
/// beyond it are reconciled without causes, so that a long queue does not need much memory.
pub(crate) const MAX_REQUESTS: usize = 65_536;

/// The maximum number of requests for which a requeue or a retry is recorded as the first cause. If all
/// objects are requeued regularly, there is thus still room for the causes of events.
const MAX_REQUEUED: usize = MAX_REQUESTS / 2;

/// The maximum number of reconciles, and of queued requests, whose causes a debug page shows per controller.
const MAX_SHOWN: usize = 100;

/// An event that has enqueued a request of a controller. `Display` prints it, for example `updated
/// Deployment.apps default/web (spec, labels)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconcileCause {
    /// A watched object was added to the cache.
    Added {
        /// The watched object.
        object: CauseObject,
        /// True if the object was in the initial list of its informer, or a source delivered it again.
        initial: bool,
    },
    /// A watched object was changed.
    Updated {
        /// The watched object.
        object: CauseObject,
        /// The parts that differ between the old and the new state.
        changed: Vec<ChangedPart>,
    },
    /// A watched object was deleted.
    Deleted {
        /// The watched object.
        object: CauseObject,
    },
    /// The resync period of a watched kind has elapsed. The object did not change.
    Resync {
        /// The watched object.
        object: CauseObject,
    },
    /// A channel or a stream sent an object.
    Generic {
        /// The object that was sent.
        object: CauseObject,
    },
    /// The program enqueued the request, through a handle or a source without objects.
    Enqueued,
    /// The last reconcile has requested another one after this delay. An event may cause it earlier. Zero
    /// means that the rate limiter of the queue has chosen the delay.
    Requeued(Duration),
    /// The last reconcile of the request has failed, and the request is retried with backoff. An event may
    /// cause the retry earlier.
    Retried {
        /// Number of failures and of requeues by the rate limiter since the last other success.
        failures: u32,
    },
    /// This replica of a sharded controller now owns the key.
    KeyGained,
}

/// The object whose event enqueued a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseObject {
    /// The kind of the object with its group, such as `Deployment.apps`, or the name of the source.
    pub kind: Arc<str>,
    /// The key of the object, which consists of namespace and name.
    pub key: ObjectKey,
}

/// A part of an object that differs between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangedPart {
    /// `metadata.generation`, which the server increases with each change of the spec.
    Spec,
    /// `metadata.labels`.
    Labels,
    /// `metadata.annotations`.
    Annotations,
    /// `metadata.ownerReferences`.
    OwnerReferences,
    /// `metadata.deletionTimestamp`: the object is being deleted.
    DeletionTimestamp,
    /// The uid: the object was deleted and created again.
    Uid,
    /// None of the other parts: the status or other metadata, or any field of a kind without a generation,
    /// such as the data of a ConfigMap.
    Other,
}

/// The causes of a reconcile, oldest first. Dereferences to a slice. Empty if the controller does not [record
/// causes](crate::ControllerOptions::record_causes).
///
/// `Display` prints them in one line, separated by semicolons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Causes {
    recorded: Vec<ReconcileCause>,
    omitted: usize,
}

impl Causes {
    /// Returns the causes of a controller that does not record them.
    pub(crate) const fn none() -> Self {
        Self { recorded: Vec::new(), omitted: 0 }
    }

    /// Returns the number of further causes, which are not kept because the request has more than 16.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    fn push(&mut self, cause: ReconcileCause) {
        if self.recorded.last() == Some(&cause) {
            return;
        }
        if self.recorded.len() < MAX_CAUSES {
            self.recorded.push(cause);
        } else {
            self.omitted += 1;
        }
    }
}

/// The causes of the queued requests of one controller.
///
/// The methods of `R` for hashing and comparing requests run under the lock, as in every map of requests.
pub(crate) struct CauseLog<R> {
    by_request: Mutex<HashMap<R, Causes>>,
    /// The last reconciles, oldest first, for the debug page.
    recent: Mutex<VecDeque<(R, Causes)>>,
}

/// The causes of one controller's requests as JSON, for a debug page.
pub(crate) trait CausePage: Send + Sync {
    fn page(&self) -> Value;
}

impl<R: ReconcileRequest> CausePage for CauseLog<R> {
    fn page(&self) -> Value {
        let queued: Vec<(R, Causes)> = {
            let by_request = self.by_request.lock();
            by_request
                .iter()
                .take(MAX_SHOWN)
                .map(|(request, causes)| (request.clone(), causes.clone()))
                .collect()
        };
        let recent: Vec<(R, Causes)> = self.recent.lock().iter().rev().cloned().collect();
        let shown = |requests: Vec<(R, Causes)>| -> Vec<Value> {
            let one = |(request, causes): &(R, Causes)| {
                let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
                json!({"request": request.to_string(), "causes": texts, "omitted": causes.omitted()})
            };
            requests.iter().map(one).collect()
        };
        json!({"queued": shown(queued), "recent": shown(recent)})
    }
}

impl<R: ReconcileRequest> CauseLog<R> {
    pub(crate) fn new() -> Self {
        Self { by_request: Mutex::default(), recent: Mutex::default() }
    }

    /// Records a cause of a request. Must be called before the request is added to the queue.
    pub(crate) fn record(&self, request: &R, cause: ReconcileCause) {
        let most = match cause {
            ReconcileCause::Requeued(_) | ReconcileCause::Retried { .. } => MAX_REQUEUED,
            _ => MAX_REQUESTS,
        };
        let mut by_request = self.by_request.lock();
        if let Some(causes) = by_request.get_mut(request) {
            causes.push(cause);
        } else if by_request.len() < most {
            by_request.insert(request.clone(), Causes { recorded: vec![cause], omitted: 0 });
        }
    }

    /// Removes and returns the causes of a request that is about to be reconciled.
    pub(crate) fn take(&self, request: &R) -> Causes {
        let taken = self.by_request.lock().remove_entry(request);
        let causes = taken.map_or_else(Causes::none, |(_, causes)| causes);
        let oldest = {
            let mut recent = self.recent.lock();
            recent.push_back((request.clone(), causes.clone()));
            if recent.len() > MAX_SHOWN { recent.pop_front() } else { None }
        };
        drop(oldest);
        causes
    }
}

impl ReconcileCause {
    /// Converts a trigger, on which an event handler enqueues requests, to the cause that is recorded for
    /// these requests. `kind` is the kind of the trigger's object, or the name of the source.
    pub(crate) fn of<O: Object>(trigger: &Trigger<O>, kind: &Arc<str>) -> Self {
        let object = CauseObject { kind: Arc::clone(kind), key: trigger.key().clone() };
        match trigger {
            Trigger::Event(Event::Added { initial, .. }) => Self::Added { object, initial: *initial },
            Trigger::Event(Event::Updated { resync: true, .. }) => Self::Resync { object },
            Trigger::Event(Event::Updated { old, new, .. }) => {
                Self::Updated { object, changed: changed_parts(&**old, &**new) }
            }
            Trigger::Event(Event::Deleted { .. }) => Self::Deleted { object },
            Trigger::Generic(_) => Self::Generic { object },
        }
    }
}

fn changed_parts<O: Object>(old: &O, new: &O) -> Vec<ChangedPart> {
    let parts = [
        (ChangedPart::Uid, old.uid() != new.uid()),
        (ChangedPart::Spec, old.generation() != new.generation()),
        (ChangedPart::Labels, old.labels() != new.labels()),
        (ChangedPart::Annotations, old.annotations() != new.annotations()),
        (ChangedPart::OwnerReferences, old.owners() != new.owners()),
        (ChangedPart::DeletionTimestamp, old.deletion_timestamp() != new.deletion_timestamp()),
    ];
    let changed: Vec<_> = parts.into_iter().filter_map(|(part, differs)| differs.then_some(part)).collect();
    if changed.is_empty() { vec![ChangedPart::Other] } else { changed }
}

impl Deref for Causes {
    type Target = [ReconcileCause];

    fn deref(&self) -> &[ReconcileCause] {
        &self.recorded
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.recorded.iter().enumerate() {
            write!(f, "{}{cause}", if index == 0 { "" } else { "; " })?;
        }
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, "; and {omitted} more"),
        }
    }
}

impl fmt::Display for ReconcileCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, initial: true } => write!(f, "listed {object}"),
            Self::Added { object, initial: false } => write!(f, "added {object}"),
            Self::Updated { object, changed } => {
                let parts: Vec<String> = changed.iter().map(ToString::to_string).collect();
                write!(f, "updated {object} ({})", parts.join(", "))
            }
            Self::Deleted { object } => write!(f, "deleted {object}"),
            Self::Resync { object } => write!(f, "resync of {object}"),
            Self::Generic { object } => write!(f, "event of {object}"),
            Self::Enqueued => f.write_str("enqueued by the program"),
            Self::Requeued(delay) if delay.is_zero() => f.write_str("requeue requested"),
            Self::Requeued(delay) => write!(f, "requeue requested after {delay:?}"),
            Self::Retried { failures } => write!(f, "retry of failure {failures}"),
            Self::KeyGained => f.write_str("this replica gained the key"),
        }
    }
}

impl fmt::Display for CauseObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl fmt::Display for ChangedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spec => "spec",
            Self::Labels => "labels",
            Self::Annotations => "annotations",
            Self::OwnerReferences => "owner references",
            Self::DeletionTimestamp => "deletion timestamp",
            Self::Uid => "uid",
            Self::Other => "other fields",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    fn request(key: &str) -> Request {
        key.parse().unwrap()
    }

    #[test]
    fn causes_of_a_request_are_taken_once_and_equal_neighbors_are_merged() {
        let log = CauseLog::new();
        log.record(&request("a"), ReconcileCause::Enqueued);
        log.record(&request("a"), ReconcileCause::Enqueued);
        log.record(&request("a"), ReconcileCause::Retried { failures: 2 });
        log.record(&request("b"), ReconcileCause::KeyGained);
        let causes = log.take(&request("a"));
        assert_eq!(causes.to_string(), "enqueued by the program; retry of failure 2");
        assert!(log.take(&request("a")).is_empty());
        assert_eq!(log.take(&request("b")).len(), 1);
    }

    #[test]
    fn causes_per_request_and_requests_are_limited() {
        let log = CauseLog::new();
        for failures in 0..20 {
            log.record(&request("a"), ReconcileCause::Retried { failures });
        }
        let causes = log.take(&request("a"));
        assert_eq!((causes.len(), causes.omitted()), (MAX_CAUSES, 4));
        assert!(causes.to_string().ends_with("retry of failure 15; and 4 more"), "{causes}");
        for number in 0..=MAX_REQUEUED {
            log.record(&request(&format!("r{number}")), ReconcileCause::Requeued(Duration::ZERO));
        }
        assert!(log.take(&request(&format!("r{MAX_REQUEUED}"))).is_empty(), "half of the log is for events");
        for number in 0..=MAX_REQUEUED {
            log.record(&request(&format!("n{number}")), ReconcileCause::Enqueued);
        }
        assert_eq!(log.take(&request("n0")).len(), 1);
        assert!(log.take(&request(&format!("n{MAX_REQUEUED}"))).is_empty());
    }
}
