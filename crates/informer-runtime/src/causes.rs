//! The causes of reconciles: which events have enqueued a request.
//!
//! A work queue merges the events of a key, so a request does not contain them. If a controller
//! [records causes](crate::ControllerOptions::record_causes), or while the console of its manager is read, a
//! [`CauseLog`] next to its queue keeps the events of each queued request, and a reconcile takes those of its
//! request from it.
//!
//! # Order
//!
//! A cause is recorded before its request is added to the queue. The next reconcile of the request that
//! begins takes it. So no cause is lost, but the request may be added after a reconcile has taken its cause.
//! The reconcile that then follows has no cause of its own, and sees the same state.

#[cfg(feature = "console")]
mod console;
#[cfg(feature = "console")]
mod failing;
mod fields;
#[cfg(feature = "console")]
mod reads;
mod recent;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use informer_cache::Event;
use informer_client::ChangedFields;
use informer_core::{Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::now;
use crate::{ReconcileRequest, Trigger};
#[cfg(feature = "console")]
pub(crate) use console::EnqueueError;
#[cfg(feature = "console")]
pub(crate) use reads::ConsoleReads;
pub(crate) use recent::{ActiveReconcile, ReconcileEnd};
use recent::{RecentReconciles, ReconcileRecord};

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

/// The maximum number of reconciles per second and controller that are recorded for the console, and of
/// requests whose causes are. An event of the console contains no more reconciles.
#[cfg(feature = "console")]
const MAX_RECORDED: u64 = 500;

/// The maximum number of running reconciles that the console shows per controller.
#[cfg(feature = "console")]
pub(crate) const MAX_RUNNING: usize = 200;

/// An event that has enqueued a request of a controller. `Display` prints it, for example `updated
/// Deployment.apps default/web (spec.replicas, metadata.labels["app"])`.
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
        /// The paths of the fields that differ, without their values. Empty if the cache does not hold the
        /// fields that changed. A metadata-only cache reports `spec` if `metadata.generation` changed.
        fields: ChangedFields,
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
    /// A user of the console enqueued the request.
    Console,
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

    /// Adds a cause. One that is equal to the last one, and those beyond [`MAX_CAUSES`], are not kept.
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

#[cfg(feature = "testing")]
impl FromIterator<ReconcileCause> for Causes {
    fn from_iter<I: IntoIterator<Item = ReconcileCause>>(causes: I) -> Self {
        let mut all = Self::default();
        causes.into_iter().for_each(|cause| all.push(cause));
        all
    }
}

/// The causes of the queued requests of one controller, and its running and recent reconciles.
///
/// The methods of `R` for hashing, comparing and cloning requests run under the lock.
pub(crate) struct CauseLog<R> {
    switch: CauseSwitch,
    by_request: Mutex<HashMap<R, PendingCauses, foldhash::fast::RandomState>>,
    recent: RecentReconciles<R>,
    #[cfg(feature = "console")]
    failing: failing::FailingKeys<R>,
    /// The requests whose causes were recorded for the console in this second.
    #[cfg(feature = "console")]
    new_requests: reads::SecondBudget,
    /// The reconciles that were recorded for the console in this second.
    #[cfg(feature = "console")]
    reconciles: reads::SecondBudget,
}

/// Determines when a [`CauseLog`] records.
#[derive(Clone)]
pub(crate) enum CauseSwitch {
    /// The controller records causes.
    Always,
    /// The log records while the console of the manager is read, and failed reconciles also at other times.
    #[cfg(feature = "console")]
    Console(Arc<ConsoleReads>),
}

/// The causes of a queued request.
struct PendingCauses {
    /// The time of the first cause.
    since: Instant,
    causes: Causes,
}

/// The causes of a request that is about to be reconciled.
pub(crate) struct TakenCauses {
    pub(crate) causes: Arc<Causes>,
    /// The time since the first cause; `None` if the request has no causes.
    pub(crate) waited: Option<Duration>,
}

/// A controller on the debug pages and in the console.
pub(crate) trait ControllerPage: Send + Sync {
    fn name(&self) -> &str;

    /// Returns the causes of the queued requests and of the last reconciles as JSON; `None` if the controller
    /// does not record causes.
    fn causes(&self) -> Option<Value>;

    /// Returns a random number that identifies the run of the controller.
    #[cfg(feature = "console")]
    fn run(&self) -> u64;

    /// Returns the state of the controller as JSON, with at most [`MAX_RUNNING`] of its running reconciles.
    #[cfg(feature = "console")]
    fn state(&self, now: Instant) -> Value;

    /// Returns at most `max` of the newest reconciles that ended after the first `after` ones, oldest first,
    /// and the number of all that ended so far.
    #[cfg(feature = "console")]
    fn reconciles(&self, after: u64, max: usize, now: Instant) -> (Vec<Value>, u64);

    /// Returns the number of kept reconciles that ended after the first `after` ones.
    #[cfg(feature = "console")]
    fn kept_reconciles(&self, after: u64) -> usize;

    /// Returns the history of one key as JSON: the causes for which it is queued, and the running and recent
    /// reconciles that have the key as request or as cause. Returns `None` if there are none of these.
    #[cfg(feature = "console")]
    fn history(&self, key: &str, now: Instant) -> Option<Value>;

    /// Returns a reference to the object of a key, with its uid if the cache has the object; `None` if the
    /// controller reconciles no kind, or if the key is invalid.
    #[cfg(feature = "console")]
    fn object(&self, key: &str) -> Option<crate::EventSubject>;

    /// Adds the request of a key to the queue.
    #[cfg(feature = "console")]
    fn enqueue_key(&self, key: &str) -> Result<(), EnqueueError>;
}

impl<R: ReconcileRequest> CauseLog<R> {
    pub(crate) fn new(switch: CauseSwitch) -> Self {
        Self {
            switch,
            by_request: Mutex::default(),
            recent: RecentReconciles::default(),
            #[cfg(feature = "console")]
            failing: failing::FailingKeys::default(),
            #[cfg(feature = "console")]
            new_requests: reads::SecondBudget::default(),
            #[cfg(feature = "console")]
            reconciles: reads::SecondBudget::default(),
        }
    }

    /// Returns true if causes and reconciles are recorded now.
    pub(crate) fn is_on(&self) -> bool {
        match &self.switch {
            CauseSwitch::Always => true,
            #[cfg(feature = "console")]
            CauseSwitch::Console(reads) => reads.is_recent(),
        }
    }

    /// Returns true if the controller itself records causes, so that reconcilers and spans have them.
    pub(crate) fn records_for_program(&self) -> bool {
        matches!(self.switch, CauseSwitch::Always)
    }

    /// Returns true if the log can contain records.
    pub(crate) fn is_available(&self) -> bool {
        match &self.switch {
            CauseSwitch::Always => true,
            #[cfg(feature = "console")]
            CauseSwitch::Console(reads) => reads.is_enabled(),
        }
    }

    /// Returns true if the changed fields of one more update may be compared now.
    pub(crate) fn may_compare(&self) -> bool {
        match &self.switch {
            CauseSwitch::Always => true,
            #[cfg(feature = "console")]
            CauseSwitch::Console(reads) => reads.may_compare(),
        }
    }

    /// Records a cause of a request. Must be called before the request is added to the queue.
    pub(crate) fn record(&self, request: &R, cause: ReconcileCause) {
        let most = match cause {
            ReconcileCause::Requeued(_) | ReconcileCause::Retried { .. } => MAX_REQUEUED,
            _ => MAX_REQUESTS,
        };
        let is_kept = {
            let by_request = self.by_request.lock();
            by_request.contains_key(request) || by_request.len() < most && self.may_add_request()
        };
        if is_kept {
            self.add(request, cause, most);
        }
    }

    /// Adds a cause, unless it is the first one of a request and there are `most` requests.
    fn add(&self, request: &R, cause: ReconcileCause, most: usize) {
        let since = now();
        let mut by_request = self.by_request.lock();
        if let Some(pending) = by_request.get_mut(request) {
            pending.causes.push(cause);
        } else if by_request.len() < most {
            let causes = Causes { recorded: vec![cause], omitted: 0 };
            by_request.insert(request.clone(), PendingCauses { since, causes });
        }
    }

    /// Returns true if the causes of one more request may be recorded in this second, and counts it.
    fn may_add_request(&self) -> bool {
        match &self.switch {
            CauseSwitch::Always => true,
            #[cfg(feature = "console")]
            CauseSwitch::Console(reads) => self.new_requests.take(MAX_RECORDED, reads.second(now())),
        }
    }

    /// Records the cause that a function creates, which compares two states of an object. The function is not
    /// called if the cause would not be kept, and it does not run under the lock. Must be called before the
    /// request is added to the queue.
    pub(crate) fn record_event(&self, request: &R, cause: impl FnOnce() -> ReconcileCause) {
        let is_kept = {
            let mut by_request = self.by_request.lock();
            let count = by_request.len();
            match by_request.get_mut(request) {
                Some(pending) if pending.causes.recorded.len() >= MAX_CAUSES => {
                    pending.causes.omitted += 1;
                    false
                }
                Some(_) => true,
                None => count < MAX_REQUESTS && self.may_add_request(),
            }
        };
        if is_kept {
            self.add(request, cause(), MAX_REQUESTS);
        }
    }

    /// Removes and returns the causes of a request that is about to be reconciled. Returns `None` if its
    /// reconcile is not recorded. Its causes are then dropped, because they would be wrong for a later one.
    pub(crate) fn take_recorded(&self, request: &R) -> Option<TakenCauses> {
        if self.may_record_reconcile() {
            return Some(self.take(request));
        }
        let unused = if self.is_available() { self.by_request.lock().remove_entry(request) } else { None };
        drop(unused);
        None
    }

    /// Returns true if one more reconcile may be recorded in this second, and counts it.
    fn may_record_reconcile(&self) -> bool {
        match &self.switch {
            CauseSwitch::Always => true,
            #[cfg(feature = "console")]
            CauseSwitch::Console(reads) => {
                reads.is_recent() && self.reconciles.take(MAX_RECORDED, reads.second(now()))
            }
        }
    }

    /// Removes and returns the causes of a request.
    fn take(&self, request: &R) -> TakenCauses {
        let taken = self.by_request.lock().remove_entry(request);
        let (causes, since) = match taken {
            Some((_, pending)) => (pending.causes, Some(pending.since)),
            None => (Causes::none(), None),
        };
        let waited = since.map(|since| now().saturating_duration_since(since));
        TakenCauses { causes: Arc::new(causes), waited }
    }

    /// Adds a reconcile to the running ones, until the returned value is dropped. `number` is the number of
    /// the reconcile in this run of the controller.
    pub(crate) fn begin(&self, number: u64, request: R, taken: &TakenCauses) -> ActiveReconcile<'_, R> {
        let (causes, waited) = (Arc::clone(&taken.causes), taken.waited);
        self.recent.begin(ReconcileRecord {
            number,
            request,
            causes,
            waited,
            began: now(),
            end: OnceLock::new(),
        })
    }

    /// Counts an ended reconcile that is not recorded.
    pub(crate) fn count_unrecorded(&self) {
        self.recent.count_unrecorded();
    }

    /// Adds a failed reconcile that was not recorded when it began.
    pub(crate) fn add_failed(&self, number: u64, request: R, end: ReconcileEnd) {
        let began = now().checked_sub(end.took).unwrap_or_else(now);
        let end = OnceLock::from(end);
        let causes = Arc::default();
        self.recent.add_ended(ReconcileRecord { number, request, causes, waited: None, began, end });
    }

    /// Returns the causes of at most [`MAX_SHOWN`] queued requests and of as many of the last reconciles as
    /// JSON. `run` identifies the run of the controller in the ids of reconciles.
    pub(crate) fn page(&self, run: u64) -> Value {
        let queued: Vec<(R, Causes)> = {
            let by_request = self.by_request.lock();
            let shown = by_request.iter().take(MAX_SHOWN);
            shown.map(|(request, pending)| (request.clone(), pending.causes.clone())).collect()
        };
        let queued: Vec<Value> = queued
            .iter()
            .map(|(request, causes)| {
                json!({"request": request.to_string(), "causes": texts(causes), "omitted": causes.omitted()})
            })
            .collect();
        let now = now();
        let recent = self.recent.newest(MAX_SHOWN);
        let recent: Vec<Value> = recent.iter().map(|record| record.page(run, now)).collect();
        json!({"queued": queued, "recent": recent})
    }
}

/// Returns the causes as they are shown on debug pages.
fn texts(causes: &Causes) -> Vec<String> {
    causes.iter().map(ToString::to_string).collect()
}

impl ReconcileCause {
    /// Returns the object whose event is the cause, if there is one.
    #[cfg(feature = "console")]
    fn object(&self) -> Option<&CauseObject> {
        match self {
            Self::Added { object, .. }
            | Self::Updated { object, .. }
            | Self::Deleted { object }
            | Self::Resync { object }
            | Self::Generic { object } => Some(object),
            Self::Enqueued | Self::Requeued(_) | Self::Retried { .. } | Self::KeyGained | Self::Console => {
                None
            }
        }
    }

    /// Converts a trigger, on which an event handler enqueues requests, to the cause that is recorded for
    /// these requests. `kind` is the kind of the trigger's object, or the name of the source. The changed
    /// fields of an update are compared if `may_compare` returns true.
    pub(crate) fn of<O: Object>(
        trigger: &Trigger<O>,
        kind: &Arc<str>,
        may_compare: impl FnOnce() -> bool,
    ) -> Self {
        let object = CauseObject { kind: Arc::clone(kind), key: trigger.key().clone() };
        match trigger {
            Trigger::Event(Event::Added { initial, .. }) => Self::Added { object, initial: *initial },
            Trigger::Event(Event::Updated { resync: true, .. }) => Self::Resync { object },
            Trigger::Event(Event::Updated { old, new, .. }) => {
                let (old, new) = (&**old, &**new);
                let fields = if may_compare() { fields::changed(old, new) } else { ChangedFields::default() };
                Self::Updated { object, changed: changed_parts(old, new), fields }
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
            Self::Updated { object, fields, .. } if !fields.is_empty() => {
                write!(f, "updated {object} ({fields})")
            }
            Self::Updated { object, changed, .. } => {
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
            Self::Console => f.write_str("enqueued in the console"),
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
        let log = CauseLog::new(CauseSwitch::Always);
        log.record(&request("a"), ReconcileCause::Enqueued);
        log.record(&request("a"), ReconcileCause::Enqueued);
        log.record(&request("a"), ReconcileCause::Retried { failures: 2 });
        log.record(&request("b"), ReconcileCause::KeyGained);
        let causes = log.take(&request("a")).causes;
        assert_eq!(causes.to_string(), "enqueued by the program; retry of failure 2");
        assert!(log.take(&request("a")).causes.is_empty());
        assert_eq!(log.take(&request("b")).causes.len(), 1);
    }

    #[cfg(feature = "console")]
    #[tokio::test(start_paused = true)]
    async fn causes_and_reconciles_for_the_console_are_limited_per_second() {
        let reads = Arc::new(ConsoleReads::default());
        reads.enable();
        reads.note_read(now());
        let log = CauseLog::new(CauseSwitch::Console(reads));
        let requests: Vec<Request> =
            (0..2 * MAX_RECORDED).map(|number| request(&format!("r{number}"))).collect();
        for request in &requests {
            log.record_event(request, || ReconcileCause::Enqueued);
            log.record(request, ReconcileCause::KeyGained);
        }
        let (first, second) = requests.split_at(MAX_RECORDED as usize);
        let lengths = |requests: &[Request]| -> Vec<Option<usize>> {
            requests.iter().map(|request| Some(log.take_recorded(request)?.causes.len())).collect()
        };
        assert_eq!(lengths(first), [Some(2); MAX_RECORDED as usize]);
        assert_eq!(lengths(&second[..1]), [None], "no more reconciles are recorded in this second");
        log.count_unrecorded();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lengths(&second[1..3]), [Some(0); 2], "reconciles are recorded without causes");
        let (ended, total) = log.ended(0, 10, 0, now());
        assert_eq!((ended.len(), total), (0, 1), "an unrecorded reconcile is counted");
    }

    #[cfg(feature = "console")]
    #[tokio::test(start_paused = true)]
    async fn causes_from_before_the_end_of_recording_are_dropped() {
        let reads = Arc::new(ConsoleReads::default());
        reads.enable();
        let log = CauseLog::new(CauseSwitch::Console(Arc::clone(&reads)));
        assert!(log.take_recorded(&request("a")).is_none(), "no client has read the console");
        reads.note_read(now());
        log.record(&request("a"), ReconcileCause::Enqueued);
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(!log.is_on() && log.take_recorded(&request("a")).is_none());
        reads.note_read(now());
        let taken = log.take_recorded(&request("a")).expect("the console was read");
        assert!(taken.causes.is_empty(), "old causes belong to an earlier reconcile");
    }

    #[test]
    fn causes_per_request_and_requests_are_limited() {
        let log = CauseLog::new(CauseSwitch::Always);
        for failures in 0..20 {
            log.record(&request("a"), ReconcileCause::Retried { failures });
        }
        let causes = log.take(&request("a")).causes;
        assert_eq!((causes.len(), causes.omitted()), (MAX_CAUSES, 4));
        assert!(causes.to_string().ends_with("retry of failure 15; and 4 more"), "{causes}");
        for number in 0..=MAX_REQUEUED {
            log.record(&request(&format!("r{number}")), ReconcileCause::Requeued(Duration::ZERO));
        }
        assert!(
            log.take(&request(&format!("r{MAX_REQUEUED}"))).causes.is_empty(),
            "half of the log is for events"
        );
        for number in 0..=MAX_REQUEUED {
            log.record(&request(&format!("n{number}")), ReconcileCause::Enqueued);
        }
        assert_eq!(log.take(&request("n0")).causes.len(), 1);
        log.record_event(&request("n0"), || ReconcileCause::KeyGained);
        log.record_event(&request("other"), || panic!("a cause that is not kept is not created"));
        for _ in 0..MAX_CAUSES {
            log.record(&request("n1"), ReconcileCause::Enqueued);
            log.record(&request("n1"), ReconcileCause::KeyGained);
        }
        log.record_event(&request("n1"), || panic!("a cause that is not kept is not created"));
        assert_eq!(log.take(&request("n1")).causes.omitted(), MAX_CAUSES / 2 + 1);
        assert!(log.take(&request(&format!("n{MAX_REQUEUED}"))).causes.is_empty());
    }
}
