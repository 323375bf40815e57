//! The last snapshots, rates, and the reconciles that were received.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use informer::runtime::console::{
    ConsoleEvent, ConsoleSnapshot, ControllerSnapshot, ProcessSnapshot, ReconcileSnapshot,
};
use tokio::time::Instant;

/// The number of reconciles that are kept.
const MAX_RECONCILES: usize = 20_000;

/// The number of samples of a series: five minutes.
const MAX_SAMPLES: usize = 300;

const MINUTE: Duration = Duration::from_secs(60);

/// The longest time between two snapshots of which nothing is missing.
const MAX_GAP: Duration = Duration::from_secs(5);

/// A reconcile, and the time when it began.
pub(super) struct SampledReconcile {
    pub(super) reconcile: ReconcileSnapshot,
    pub(super) began: Instant,
}

/// The numbers of ended and of failed reconciles of a controller since its start.
#[derive(Clone, Copy, Default)]
struct ResultCounts {
    finished: u64,
    failed: u64,
}

/// The results of all controllers at one time.
struct SampledResults {
    /// The uptime of the program. It is exact, also if two snapshots arrive together.
    uptime: Duration,
    of: HashMap<String, ResultCounts>,
}

/// The failed reconciles of a controller in the last minute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecentFailures {
    pub(super) failed: u64,
    /// The number of reconciles that ended in the last minute; `None` until the data of a whole minute is
    /// known.
    pub(super) finished: Option<u64>,
    /// The last error that is known.
    pub(super) error: Option<String>,
}

impl RecentFailures {
    /// Adds up the failures of two controllers.
    pub(super) fn add(sum: Option<Self>, other: Self) -> Option<Self> {
        let Some(sum) = sum else { return Some(other) };
        let finished = sum.finished.zip(other.finished).map(|(one, other)| one + other);
        Some(Self { failed: sum.failed + other.failed, finished, error: sum.error.or(other.error) })
    }

    /// Returns the share of failures, such as ` (4.8 %)`; empty if it is not known. It has a decimal below
    /// 10 %.
    pub(super) fn share(&self) -> String {
        let Some(finished) = self.finished.filter(|finished| *finished > 0 && self.failed > 0) else {
            return String::new();
        };
        match self.failed as f64 / finished as f64 * 100.0 {
            ..0.05 => " (less than 0.1 %)".to_owned(),
            percent @ ..9.95 => format!(" ({percent:.1} %)"),
            percent => format!(" ({percent:.0} %)"),
        }
    }
}

impl SampledReconcile {
    fn ended(&self) -> Instant {
        let took = self.reconcile.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.began.checked_add(took.unwrap_or_default()).unwrap_or(self.began)
    }
}

#[derive(Default)]
pub(super) struct Samples {
    pub(super) now: Option<ConsoleSnapshot>,
    before: Option<ConsoleSnapshot>,
    /// The process of the last event, also of one that was received during a pause.
    process: Option<ProcessSnapshot>,
    /// True if the program has restarted since the snapshot that is shown.
    has_restarted: bool,
    /// The time between the two snapshots.
    interval: Option<Duration>,
    at: Option<Instant>,
    /// The last reconciles, oldest first.
    pub(super) reconciles: VecDeque<SampledReconcile>,
    seen: HashSet<String>,
    /// The number of reconciles that the source did not deliver, or that ended during a pause and are more
    /// than are kept.
    pub(super) dropped: u64,
    /// The reconciles that were received during a pause, oldest first.
    held: VecDeque<SampledReconcile>,
    /// The number of reconciles that were not delivered during a pause.
    held_dropped: u64,
    /// The number of changes of the data that is shown.
    pub(super) version: u64,
    /// The ended reconciles per second, oldest first.
    pub(super) series: VecDeque<u64>,
    /// The failed reconciles per second, oldest first.
    pub(super) failed_series: VecDeque<u64>,
    /// The results of the last minute, oldest first.
    results: VecDeque<SampledResults>,
    /// The number of known failed reconciles of the last minute, by controller.
    recent_failed: HashMap<String, u64>,
    /// The last known error, by controller.
    last_errors: HashMap<String, String>,
}

pub(super) fn finished(controller: &ControllerSnapshot) -> u64 {
    let results = &controller.results;
    results.success + results.error + results.requeue + results.requeue_after
}

impl Samples {
    pub(super) fn add(&mut self, event: ConsoleEvent, now: Instant) {
        let ConsoleEvent { snapshot, reconciles, dropped, .. } = event;
        self.follow_process(&snapshot.process);
        let is_same = !std::mem::take(&mut self.has_restarted);
        self.before = self.now.replace(snapshot).filter(|_| is_same);
        self.interval = self.at.replace(now).filter(|_| is_same).map(|before| now - before);
        self.dropped += dropped;
        let new = self.unseen(reconciles, now);
        self.reconciles.extend(new);
        self.limit();
        self.version += 1;
        let ended = self.rate(|all| Some(all.controllers.iter().map(finished).sum()));
        let failed = self.rate(|all| Some(all.controllers.iter().map(|one| one.results.error).sum()));
        for (series, rate) in [(&mut self.series, ended), (&mut self.failed_series, failed)] {
            series.push_back(rate.unwrap_or_default().round() as u64);
            if series.len() > MAX_SAMPLES {
                series.pop_front();
            }
        }
        self.measure(is_same, now);
    }

    /// Measures the results of the last minute.
    fn measure(&mut self, is_same: bool, now: Instant) {
        let Some(snapshot) = &self.now else { return };
        let uptime = Duration::try_from_secs_f64(snapshot.process.uptime_seconds).unwrap_or_default();
        // After a gap in the data, the last minute is not known.
        let has_gap = self.results.back().is_some_and(|last| uptime.saturating_sub(last.uptime) > MAX_GAP);
        if !is_same || has_gap {
            self.results.clear();
        }
        let counts =
            |one: &ControllerSnapshot| ResultCounts { finished: finished(one), failed: one.results.error };
        let of = snapshot.controllers.iter().map(|one| (one.name.clone(), counts(one))).collect();
        self.results.push_back(SampledResults { uptime, of });
        while self.results.get(1).is_some_and(|second| uptime.saturating_sub(second.uptime) >= MINUTE) {
            self.results.pop_front();
        }
        self.recent_failed.clear();
        // The reconciles are in the order in which they ended.
        let is_recent = |one: &&SampledReconcile| now.saturating_duration_since(one.ended()) < MINUTE;
        for SampledReconcile { reconcile: one, .. } in self.reconciles.iter().rev().take_while(is_recent) {
            if one.result.as_deref() == Some("error") {
                *self.recent_failed.entry(one.controller.clone()).or_default() += 1;
            }
        }
    }

    /// Keeps the reconciles of an event that is received during a pause, until [`resume`](Self::resume).
    pub(super) fn hold(&mut self, event: ConsoleEvent, now: Instant) {
        self.follow_process(&event.snapshot.process);
        self.held_dropped += event.dropped;
        let new = self.unseen(event.reconciles, now);
        self.held.extend(new);
        while self.held.len() > MAX_RECONCILES {
            if let Some(oldest) = self.held.pop_front() {
                self.seen.remove(&oldest.reconcile.id);
                self.held_dropped += 1;
            }
        }
    }

    /// Detects a restart of the program, whose reconciles have new ids.
    fn follow_process(&mut self, process: &ProcessSnapshot) {
        let is_same = self.process.replace(process.clone()).is_some_and(|before| {
            before.pid == process.pid && before.uptime_seconds < process.uptime_seconds
        });
        if !is_same {
            self.seen.clear();
            self.last_errors.clear();
            self.has_restarted = true;
        }
    }

    /// Shows the reconciles that were received during a pause.
    pub(super) fn resume(&mut self) {
        self.reconciles.append(&mut self.held);
        self.limit();
        self.dropped += std::mem::take(&mut self.held_dropped);
        self.version += 1;
    }

    /// Returns the reconciles that were not received before, and keeps their errors.
    fn unseen(&mut self, reconciles: Vec<ReconcileSnapshot>, now: Instant) -> Vec<SampledReconcile> {
        for one in &reconciles {
            if let Some(error) = &one.error {
                self.last_errors.insert(one.controller.clone(), error.clone());
            }
        }
        let new = reconciles.into_iter().filter(|reconcile| self.seen.insert(reconcile.id.clone()));
        new.map(|reconcile| {
            let ago = Duration::try_from_secs_f64(reconcile.began_seconds_ago).unwrap_or_default();
            SampledReconcile { reconcile, began: now.checked_sub(ago).unwrap_or(now) }
        })
        .collect()
    }

    fn limit(&mut self) {
        while self.reconciles.len() > MAX_RECONCILES {
            if let Some(oldest) = self.reconciles.pop_front() {
                self.seen.remove(&oldest.reconcile.id);
            }
        }
    }

    /// Returns the increase of a counter per second; `None` if it is unknown.
    pub(super) fn rate(&self, counter: impl Fn(&ConsoleSnapshot) -> Option<u64>) -> Option<f64> {
        let (now, before) = (counter(self.now.as_ref()?)?, counter(self.before.as_ref()?)?);
        let seconds = self.interval?.as_secs_f64();
        (seconds > 0.0 && now >= before).then(|| (now - before) as f64 / seconds)
    }

    /// Returns the failed reconciles of a controller in the last minute.
    pub(super) fn failures(&self, controller: &str) -> RecentFailures {
        let known = self.recent_failed.get(controller).copied().unwrap_or_default();
        let error = self.last_errors.get(controller).cloned();
        let counts = |one: &SampledResults| one.of.get(controller).copied().unwrap_or_default();
        let (Some(first), Some(last)) = (self.results.front(), self.results.back()) else {
            return RecentFailures { failed: known, finished: None, error };
        };
        let now = counts(last);
        if last.uptime < MINUTE {
            return RecentFailures { failed: now.failed, finished: Some(now.finished), error };
        }
        let before = counts(first);
        let failed = now.failed.saturating_sub(before.failed);
        // The program sends the failures before the first snapshot, but not the number of the other
        // reconciles.
        if last.uptime.saturating_sub(first.uptime) < MINUTE - Duration::from_secs(1) {
            return RecentFailures { failed: failed.max(known), finished: None, error };
        }
        RecentFailures { failed, finished: Some(now.finished.saturating_sub(before.finished)), error }
    }
}
