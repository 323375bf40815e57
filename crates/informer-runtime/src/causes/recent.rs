//! The running and the last reconciles of one controller.
//!
//! # Lock order
//!
//! The lock of the records is never held together with another lock. Only the pointers to records are cloned
//! under it. Records are dropped and converted to text without it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Causes, texts};
use crate::ReconcileRequest;

/// The maximum number of ended reconciles that are kept per controller. At the maximum length of an error
/// they need about 2 MB.
pub(super) const MAX_RECENT: usize = 1_000;

/// The maximum length in bytes of the error of a reconcile that is kept. The log contains the whole error.
const MAX_ERROR_BYTES: usize = 1_024;

pub(super) struct ReconcileRecord<R> {
    pub(super) number: u64,
    pub(super) request: R,
    pub(super) causes: Arc<Causes>,
    /// The time between the first cause and the start of the reconcile.
    pub(super) waited: Option<Duration>,
    pub(super) began: Instant,
    /// Set when the reconcile ends.
    pub(super) end: OnceLock<ReconcileEnd>,
}

/// The end of a reconcile.
pub(crate) struct ReconcileEnd {
    pub(crate) result: &'static str,
    pub(crate) took: Duration,
    pub(crate) error: Option<Arc<str>>,
}

impl ReconcileEnd {
    /// Creates the end of a reconcile. A long error is shortened.
    pub(crate) fn new(result: &'static str, took: Duration, error: Option<String>) -> Self {
        let shorten = |mut error: String| -> Arc<str> {
            if error.len() > MAX_ERROR_BYTES {
                let end = (0..=MAX_ERROR_BYTES).rfind(|&end| error.is_char_boundary(end)).unwrap_or_default();
                error.truncate(end);
                error.push('…');
            }
            error.into()
        };
        Self { result, took, error: error.map(shorten) }
    }
}

struct Records<R> {
    /// At most one reconcile for each worker of the controller.
    running: Vec<Arc<ReconcileRecord<R>>>,
    /// The last recorded reconciles, oldest first, with their positions among all that have ended.
    ended: VecDeque<(u64, Arc<ReconcileRecord<R>>)>,
    /// The number of reconciles that have ended so far, with those that were not recorded.
    total: u64,
}

pub(super) struct RecentReconciles<R>(Mutex<Records<R>>);

impl<R> Default for RecentReconciles<R> {
    fn default() -> Self {
        Self(Mutex::new(Records { running: Vec::new(), ended: VecDeque::new(), total: 0 }))
    }
}

impl<R: ReconcileRequest> RecentReconciles<R> {
    pub(super) fn begin(&self, record: ReconcileRecord<R>) -> ActiveReconcile<'_, R> {
        let (number, record) = (record.number, Arc::new(record));
        self.0.lock().running.push(record);
        ActiveReconcile { recent: self, number, has_ended: Cell::new(false) }
    }

    /// Returns at most `max` of the last ended reconciles, newest first.
    pub(super) fn newest(&self, max: usize) -> Vec<Arc<ReconcileRecord<R>>> {
        self.0.lock().ended.iter().rev().take(max).map(|(_, record)| Arc::clone(record)).collect()
    }

    pub(super) fn count_unrecorded(&self) {
        self.0.lock().total += 1;
    }

    /// Adds a reconcile that has ended.
    pub(super) fn add_ended(&self, record: ReconcileRecord<R>) {
        let oldest = self.0.lock().add_ended(Arc::new(record));
        drop(oldest);
    }
}

impl<R> Records<R> {
    fn remove_running(&mut self, number: u64) -> Option<Arc<ReconcileRecord<R>>> {
        let at = self.running.iter().position(|record| record.number == number)?;
        Some(self.running.swap_remove(at))
    }

    /// Adds a reconcile that has ended. Returns the one that is no longer kept, which the caller drops
    /// without the lock.
    fn add_ended(&mut self, record: Arc<ReconcileRecord<R>>) -> Option<Arc<ReconcileRecord<R>>> {
        self.total += 1;
        self.ended.push_back((self.total, record));
        let oldest = if self.ended.len() > MAX_RECENT { self.ended.pop_front() } else { None };
        oldest.map(|(_, record)| record)
    }
}

#[cfg(feature = "console")]
impl<R: ReconcileRequest> RecentReconciles<R> {
    /// Returns at most `max` of the running reconciles.
    pub(super) fn running(&self, max: usize) -> Vec<Arc<ReconcileRecord<R>>> {
        self.0.lock().running.iter().take(max).cloned().collect()
    }

    /// Returns the number of kept reconciles that ended after the first `after` ones.
    pub(super) fn kept(&self, after: u64) -> usize {
        let records = self.0.lock();
        records.ended.iter().rev().take_while(|(position, _)| *position > after).count()
    }

    /// Returns at most `max` of the newest reconciles that ended after the first `after` ones, oldest first,
    /// and the number of all that ended so far.
    pub(super) fn ended(&self, after: u64, max: usize) -> (Vec<Arc<ReconcileRecord<R>>>, u64) {
        let records = self.0.lock();
        let new = records.ended.iter().rev().take_while(|(position, _)| *position > after).take(max);
        let mut new: Vec<_> = new.map(|(_, record)| Arc::clone(record)).collect();
        new.reverse();
        (new, records.total)
    }
}

/// A running reconcile. If it is dropped without [`end`](Self::end), because its future was dropped, it
/// leaves no record.
pub(crate) struct ActiveReconcile<'a, R: ReconcileRequest> {
    recent: &'a RecentReconciles<R>,
    number: u64,
    has_ended: Cell<bool>,
}

impl<R: ReconcileRequest> ActiveReconcile<'_, R> {
    /// Moves the reconcile to the ended ones. Later calls have no effect.
    pub(crate) fn end(&self, end: ReconcileEnd) {
        if self.has_ended.replace(true) {
            return;
        }
        let mut records = self.recent.0.lock();
        let oldest = records.remove_running(self.number).and_then(|record| {
            // `has_ended` was false, so the cell is empty, and `set` succeeds.
            let _ = record.end.set(end);
            records.add_ended(record)
        });
        drop(records);
        drop(oldest);
    }
}

impl<R: ReconcileRequest> Drop for ActiveReconcile<'_, R> {
    fn drop(&mut self) {
        if !self.has_ended.get() {
            let removed = self.recent.0.lock().remove_running(self.number);
            drop(removed);
        }
    }
}

impl<R: ReconcileRequest> ReconcileRecord<R> {
    /// Returns true if the key is the request of the reconcile, or that of an object that caused it.
    #[cfg(feature = "console")]
    pub(super) fn concerns(&self, key: &str) -> bool {
        let is_cause = |object: &super::CauseObject| object.key.as_str() == key;
        self.request.to_string() == key
            || self.causes.iter().filter_map(super::ReconcileCause::object).any(is_cause)
    }

    /// Returns the reconcile as JSON. `run` identifies the run of the controller in the id.
    pub(super) fn page(&self, run: u64, now: Instant) -> Value {
        let end = self.end.get();
        json!({
            "id": format!("{run:016x}-{}", self.number),
            "request": self.request.to_string(),
            "causes": texts(&self.causes),
            "omitted": self.causes.omitted(),
            "waitedSeconds": self.waited.map(|waited| waited.as_secs_f64()),
            "beganSecondsAgo": now.saturating_duration_since(self.began).as_secs_f64(),
            "seconds": end.map(|end| end.took.as_secs_f64()),
            "result": end.map(|end| end.result),
            "error": end.and_then(|end| end.error.as_deref()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    fn record(number: u64) -> ReconcileRecord<Request> {
        let request = format!("r{number}").parse().expect("a key");
        ReconcileRecord {
            number,
            request,
            causes: Arc::default(),
            waited: None,
            began: crate::clock::now(),
            end: OnceLock::new(),
        }
    }

    fn success() -> ReconcileEnd {
        ReconcileEnd::new("success", Duration::ZERO, None)
    }

    #[test]
    fn dropped_reconcile_leaves_no_record() {
        let recent = RecentReconciles::default();
        drop(recent.begin(record(1)));
        assert!(recent.newest(10).is_empty());
        assert!(recent.0.lock().running.is_empty());
    }

    #[test]
    fn ended_reconciles_are_limited_and_newest_are_kept() {
        let recent = RecentReconciles::default();
        for number in 0..MAX_RECENT as u64 + 5 {
            recent.begin(record(number)).end(success());
        }
        let kept = recent.newest(usize::MAX);
        assert_eq!((kept.len(), kept[0].number, kept[MAX_RECENT - 1].number), (MAX_RECENT, 1_004, 5));
    }

    #[cfg(feature = "console")]
    #[test]
    fn reader_gets_each_ended_reconcile_once() {
        let recent = RecentReconciles::default();
        let numbers = |(records, total): (Vec<Arc<ReconcileRecord<Request>>>, u64)| {
            (records.iter().map(|record| record.number).collect::<Vec<_>>(), total)
        };
        let (first, second) = (recent.begin(record(1)), recent.begin(record(2)));
        second.end(success());
        assert_eq!(numbers(recent.ended(0, 10)), (vec![2], 1));
        first.end(success());
        assert_eq!(numbers(recent.ended(1, 10)), (vec![1], 2), "in the order of their ends");
        assert_eq!(numbers(recent.ended(2, 10)), (vec![], 2));
        assert_eq!(numbers(recent.ended(0, 1)), (vec![1], 2), "the newest ones are kept");
        recent.count_unrecorded();
        assert_eq!(numbers(recent.ended(1, 10)), (vec![1], 3), "others are only counted");
        assert_eq!([0, 1, 2, 3].map(|after| recent.kept(after)), [2, 1, 0, 0]);
    }

    #[test]
    fn long_error_is_cut_at_a_character_boundary() {
        let end = ReconcileEnd::new("error", Duration::ZERO, Some("é".repeat(MAX_ERROR_BYTES)));
        let error = end.error.expect("an error");
        assert_eq!(error.chars().count(), MAX_ERROR_BYTES / 2 + 1);
    }
}
