//! The running and the last reconciles of one controller.
//!
//! # Lock order
//!
//! The lock of the records is never held together with another lock. Only the pointers to records are cloned
//! under it. Records are dropped and converted to text without it.

use std::collections::VecDeque;
use std::sync::Arc;
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

#[derive(Clone)]
pub(super) struct ReconcileRecord<R> {
    pub(super) number: u64,
    pub(super) request: R,
    pub(super) causes: Arc<Causes>,
    /// The time between the first cause and the start of the reconcile.
    pub(super) waited: Option<Duration>,
    pub(super) began: Instant,
    /// `None` while the reconcile runs.
    pub(super) end: Option<ReconcileEnd>,
}

/// The end of a reconcile.
#[derive(Clone)]
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
    /// The last reconciles, oldest first.
    ended: VecDeque<Arc<ReconcileRecord<R>>>,
    /// The number of reconciles that have ended so far.
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
        ActiveReconcile { recent: self, number }
    }

    /// Returns at most `max` of the last ended reconciles, newest first.
    pub(super) fn newest(&self, max: usize) -> Vec<Arc<ReconcileRecord<R>>> {
        self.0.lock().ended.iter().rev().take(max).cloned().collect()
    }

    fn remove_running(&self, number: u64) -> Option<Arc<ReconcileRecord<R>>> {
        let mut records = self.0.lock();
        let at = records.running.iter().position(|record| record.number == number)?;
        Some(records.running.swap_remove(at))
    }

    fn add_ended(&self, record: ReconcileRecord<R>) {
        let oldest = {
            let mut records = self.0.lock();
            records.total += 1;
            records.ended.push_back(Arc::new(record));
            if records.ended.len() > MAX_RECENT { records.ended.pop_front() } else { None }
        };
        drop(oldest);
    }
}

#[cfg(feature = "console")]
impl<R: ReconcileRequest> RecentReconciles<R> {
    /// Returns at most `max` of the running reconciles.
    pub(super) fn running(&self, max: usize) -> Vec<Arc<ReconcileRecord<R>>> {
        self.0.lock().running.iter().take(max).cloned().collect()
    }

    /// Returns at most `max` of the newest reconciles that ended after the first `after` ones, oldest first,
    /// and the number of all that ended so far.
    pub(super) fn ended(&self, after: u64, max: usize) -> (Vec<Arc<ReconcileRecord<R>>>, u64) {
        let records = self.0.lock();
        let new = usize::try_from(records.total.saturating_sub(after)).unwrap_or(usize::MAX);
        let skipped = records.ended.len().saturating_sub(new.min(max));
        (records.ended.iter().skip(skipped).cloned().collect(), records.total)
    }
}

/// A running reconcile. If it is dropped without [`end`](Self::end), because its future was dropped, it
/// leaves no record.
pub(crate) struct ActiveReconcile<'a, R: ReconcileRequest> {
    recent: &'a RecentReconciles<R>,
    number: u64,
}

impl<R: ReconcileRequest> ActiveReconcile<'_, R> {
    /// Moves the reconcile to the ended ones. Later calls have no effect.
    pub(crate) fn end(&self, end: ReconcileEnd) {
        if let Some(record) = self.recent.remove_running(self.number) {
            let mut record = Arc::unwrap_or_clone(record);
            record.end = Some(end);
            self.recent.add_ended(record);
        }
    }
}

impl<R: ReconcileRequest> Drop for ActiveReconcile<'_, R> {
    fn drop(&mut self) {
        drop(self.recent.remove_running(self.number));
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
        let end = self.end.as_ref();
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
            end: None,
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
    }

    #[test]
    fn long_error_is_cut_at_a_character_boundary() {
        let end = ReconcileEnd::new("error", Duration::ZERO, Some("é".repeat(MAX_ERROR_BYTES)));
        let error = end.error.expect("an error");
        assert_eq!(error.chars().count(), MAX_ERROR_BYTES / 2 + 1);
    }
}
