//! Which events are sent, and when, as pure state.
//!
//! # Invariants
//!
//! 1. Of one series one request is on its way at a time.
//! 2. No two events of a process have one name. Where somebody else's has it, another name is tried.
//! 3. There are at most [`MAX_SERIES`] series and as many objects; the one that was quiet longest makes room.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{EventKey, EventSubject, Recorded};

/// Series and objects that are remembered, as upstream.
pub(super) const MAX_SERIES: usize = 4096;

/// A series is over when nothing was added to it for this long, as upstream.
pub(super) const SERIES_IDLE: Duration = Duration::from_secs(6 * 60);

/// How often a series that goes on tells its count, as upstream.
pub(super) const SERIES_REFRESH: Duration = Duration::from_secs(30 * 60);

/// Different events of one object at once, and how long one more takes, as upstream's older recorder.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// Names that are tried for one event: a server that has them all has something else against it.
const MAX_NAMES: u32 = 5;

/// As much of the name of an object is in the names of its events: with the time it stays below the 253 bytes of a name.
const MAX_STEM: usize = 200;

/// A request to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) key: EventKey,
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) count: u32,
    /// Whether the event is there already, and only its series is to be told.
    pub(crate) exists: bool,
    /// Whether it may have been sent before, so that it may be there already.
    pub(crate) repeats: bool,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    /// The event is gone: others delete them after an hour.
    Gone,
    /// Another event has the name.
    Taken,
    Refused,
}

#[derive(Debug)]
struct Series {
    name: String,
    names: u32,
    note: String,
    first: Timestamp,
    last: Timestamp,
    last_at: Instant,
    count: u32,
    told: u32,
    told_at: Instant,
    exists: bool,
    on_its_way: bool,
    interrupted: bool,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// What is remembered of events.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    series: HashMap<EventKey, Series>,
    buckets: HashMap<EventSubject, Bucket>,
    /// The last one in a name, in nanoseconds.
    stamp: u64,
}

impl EventState {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.series.len() + self.buckets.len()
    }

    /// An event; a request where one is due. `Err` where the object has had too many.
    pub(crate) fn record(
        &mut self,
        event: Recorded,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<Write>, ()> {
        if let Some(series) = self.series.get_mut(&event.key) {
            series.count = series.count.saturating_add(1);
            (series.last, series.last_at) = (wall, now);
            // The second makes a series of it; later ones only count, until it is refreshed.
            let due = series.told < 2;
            return Ok(if due { self.write(&event.key, now) } else { None });
        }
        if !self.take(&event.key.regarding, now) {
            return Err(());
        }
        make_room(&mut self.series, |series| series.last_at);
        let series = Series {
            name: event_name(&event.key.regarding.name, next_stamp(&mut self.stamp, wall)),
            names: 1,
            note: event.note,
            first: wall,
            last: wall,
            last_at: now,
            count: 1,
            told: 0,
            told_at: now,
            exists: false,
            on_its_way: false,
            interrupted: false,
        };
        self.series.insert(event.key.clone(), series);
        Ok(self.write(&event.key, now))
    }

    /// What became of the request of a key; another one where something happened meanwhile that is to be told.
    pub(crate) fn written(&mut self, write: &Write, outcome: Written, now: Instant) -> Option<Write> {
        let series = self.series.get_mut(&write.key).filter(|series| series.name == write.name)?;
        (series.on_its_way, series.interrupted) = (false, false);
        match outcome {
            Written::Done => {
                (series.exists, series.told) = (true, write.count);
                let second = series.told < 2 && series.count > series.told;
                if second { self.write(&write.key, now) } else { None }
            }
            Written::Gone => {
                series.exists = false;
                self.write(&write.key, now)
            }
            Written::Taken if series.names < MAX_NAMES => {
                series.names += 1;
                let stamp = next_stamp(&mut self.stamp, series.first);
                series.name = event_name(&write.key.regarding.name, stamp);
                self.write(&write.key, now)
            }
            Written::Taken | Written::Refused => {
                self.series.remove(&write.key);
                None
            }
        }
    }

    /// What is due: counts of series that go on, and of those that are over, which are forgotten.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Write> {
        let due = |series: &Series| {
            let idle = now.saturating_duration_since(series.last_at) >= SERIES_IDLE;
            let refresh = now.saturating_duration_since(series.told_at) >= SERIES_REFRESH;
            idle || refresh
        };
        let writes = self.pending(now, due);
        self.series.retain(|_, series| {
            now.saturating_duration_since(series.last_at) < SERIES_IDLE || series.on_its_way
        });
        let full = |bucket: &Bucket| bucket.tokens + refilled(bucket, now) >= BURST;
        self.buckets.retain(|_, bucket| !full(bucket));
        writes
    }

    /// Nothing is on its way any more: what was, and everything else that was not told.
    pub(crate) fn interrupted(&mut self, now: Instant) -> Vec<Write> {
        for series in self.series.values_mut() {
            (series.interrupted, series.on_its_way) = (series.on_its_way, false);
        }
        self.flush(now)
    }

    /// Everything that was not told.
    pub(crate) fn flush(&mut self, now: Instant) -> Vec<Write> {
        self.pending(now, |_| true)
    }

    fn pending(&mut self, now: Instant, due: impl Fn(&Series) -> bool) -> Vec<Write> {
        let keys = self.series.iter().filter(|(_, series)| series.count > series.told && due(series));
        let keys: Vec<EventKey> = keys.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.write(key, now)).collect()
    }

    fn write(&mut self, key: &EventKey, now: Instant) -> Option<Write> {
        let series = self.series.get_mut(key).filter(|series| !series.on_its_way)?;
        series.on_its_way = true;
        series.told_at = now;
        Some(Write {
            key: key.clone(),
            name: series.name.clone(),
            note: series.note.clone(),
            first: series.first,
            last: series.last,
            count: series.count,
            exists: series.exists,
            repeats: series.interrupted,
        })
    }

    fn take(&mut self, subject: &EventSubject, now: Instant) -> bool {
        if !self.buckets.contains_key(subject) {
            make_room(&mut self.buckets, |bucket| bucket.at);
        }
        let bucket = self.buckets.entry(subject.clone()).or_insert(Bucket { tokens: BURST, at: now });
        bucket.tokens = BURST.min(bucket.tokens + refilled(bucket, now));
        bucket.at = now;
        let taken = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(taken));
        taken
    }
}

fn refilled(bucket: &Bucket, now: Instant) -> f64 {
    now.saturating_duration_since(bucket.at).as_secs_f64() / REFILL.as_secs_f64()
}

/// What tells the names of events apart: the time, or the next number where the clock has not gone on.
fn next_stamp(last: &mut u64, wall: Timestamp) -> u64 {
    *last = (wall.as_nanosecond() as u64).max(last.saturating_add(1));
    *last
}

/// The name of an event: that of its object, and about when it began. Some kinds have objects whose names may be no part of it.
fn event_name(object: &str, stamp: u64) -> String {
    let stem: String = object.chars().take(MAX_STEM).collect();
    // It may have been cut where a name must not end.
    let stem = Some(stem.trim_end_matches(['-', '.'])).filter(|stem| is_subdomain(stem)).unwrap_or("event");
    format!("{stem}.{stamp:016x}")
}

fn is_subdomain(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.chars().all(inner)
    };
    name.split('.').all(is_label)
}

/// Forgets the oldest eighth where the map is full, so that a flood does not look for the oldest each time.
fn make_room<K: Clone + Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>, at: impl Fn(&V) -> Instant) {
    if map.len() < MAX_SERIES {
        return;
    }
    let mut ages: Vec<Instant> = map.values().map(&at).collect();
    let (_, oldest, _) = ages.select_nth_unstable(MAX_SERIES / 8);
    let oldest = *oldest;
    let mut excess = MAX_SERIES / 8;
    map.retain(|_, value| {
        let goes = excess > 0 && at(value) <= oldest;
        excess -= usize::from(goes);
        !goes
    });
}
