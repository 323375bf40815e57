//! Counts the events that handlers receive, and measures their delays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informer::Object;
use informer::cache::Event;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::gauge;

/// The name of the label that identifies the change of an object. Its value is the time of the change, or the
/// name of a burst or relist.
pub(super) const LABEL: &str = "bench-sent";

#[derive(Debug, Default)]
struct Heard {
    /// The number of events after which the waiting task is notified. A notification for each event would
    /// cost as much as handling the event.
    wanted: usize,
    /// Nanoseconds from the time when the server sends an event until the handler is called.
    delays: Vec<u64>,
    burst: usize,
    burst_began: Option<Instant>,
    burst_ended: Option<Instant>,
    relisted: bool,
}

/// The events that one or more handlers received since the last call of `begin`.
#[derive(Debug, Default)]
pub(super) struct Tally {
    heard: Mutex<Heard>,
    /// True if handlers read every object of a burst in typed form.
    pub(super) reads: AtomicBool,
    news: Notify,
}

impl Tally {
    /// Records an event. `read` reads the object in typed form.
    pub(super) fn hear<O: Object>(&self, event: &Event<O>, read: impl FnOnce(&Arc<O>)) {
        let object = event.object();
        let Some(sent) = object.labels().get(LABEL).filter(|sent| *sent != "none") else { return };
        let is_burst = sent.starts_with("burst-");
        if is_burst && self.reads.load(Ordering::Relaxed) {
            read(object);
        }
        let mut heard = self.heard.lock();
        if let Some(sent) = sent.strip_prefix('t').and_then(|sent| sent.parse().ok()) {
            heard.delays.push(gauge::wall_nanos().saturating_sub(sent));
        } else if is_burst {
            heard.burst += 1;
            let now = Instant::now();
            heard.burst_began.get_or_insert(now);
            heard.burst_ended = Some(now);
        } else if sent.starts_with("relisted-") {
            heard.relisted = true;
        }
        let done = heard.relisted || heard.burst + heard.delays.len() >= heard.wanted;
        drop(heard);
        if done {
            self.news.notify_one();
        }
    }

    /// Resets the counts, and sets the number of events after which the waiting task is notified.
    pub(super) fn begin(&self, wanted: usize) {
        *self.heard.lock() = Heard { wanted, ..Heard::default() };
    }

    pub(super) async fn relisted(&self) {
        while !self.heard.lock().relisted {
            self.news.notified().await;
        }
    }

    /// Waits until the delays of `count` events are known.
    pub(super) async fn received(&self, count: usize) {
        while self.heard.lock().delays.len() < count {
            self.news.notified().await;
        }
    }

    /// Waits until the delays of `count` events are known. Returns the delays in nanoseconds, sorted.
    pub(super) async fn delays(&self, count: usize) -> Vec<u64> {
        self.received(count).await;
        let mut delays = std::mem::take(&mut self.heard.lock().delays);
        delays.sort_unstable();
        delays
    }

    pub(super) fn burst(&self) -> usize {
        self.heard.lock().burst
    }

    /// Waits until all events of a burst were received. Returns events per second.
    pub(super) async fn burst_done(&self, count: usize) -> f64 {
        while self.burst() < count {
            self.news.notified().await;
        }
        let heard = self.heard.lock();
        let spent = heard.burst_began.zip(heard.burst_ended).map(|(began, ended)| ended - began);
        count as f64 / spent.unwrap_or_default().as_secs_f64()
    }
}
