//! The last snapshots, rates, and the reconciles that were received.

use std::collections::{HashSet, VecDeque};
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

/// A reconcile, and the time when it began.
pub(super) struct SampledReconcile {
    pub(super) reconcile: ReconcileSnapshot,
    pub(super) began: Instant,
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
        let rate = self.rate(|all| Some(all.controllers.iter().map(finished).sum()));
        self.series.push_back(rate.unwrap_or_default().round() as u64);
        if self.series.len() > MAX_SAMPLES {
            self.series.pop_front();
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

    /// Returns the reconciles that were not received before.
    fn unseen(&mut self, reconciles: Vec<ReconcileSnapshot>, now: Instant) -> Vec<SampledReconcile> {
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

    /// Returns the number of failed reconciles of a controller in the last minute and the last error, if
    /// there are any.
    pub(super) fn failures(&self, controller: &str) -> Option<(u64, &str)> {
        let now = self.at?;
        // The reconciles are in the order in which they ended.
        let ended = |one: &SampledReconcile| {
            one.began
                + one
                    .reconcile
                    .seconds
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .unwrap_or_default()
        };
        let recent =
            self.reconciles.iter().rev().take_while(|one| now.saturating_duration_since(ended(one)) < MINUTE);
        let failed = recent
            .map(|one| &one.reconcile)
            .filter(|one| one.controller == controller && one.result.as_deref() == Some("error"));
        let all: Vec<&ReconcileSnapshot> = failed.collect();
        let last = all.first()?.error.as_deref().unwrap_or_default();
        Some((all.len() as u64, last))
    }
}
