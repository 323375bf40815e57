//! Decides which events are sent and when. This is a pure state machine without a clock.
//!
//! # Invariants
//!
//! 1. At most one request per series is in flight.
//! 2. All events of a process have different names. If an event with a name already exists on the server,
//!    another name is tried.
//! 3. There are at most [`MAX_SERIES`] series, and rate limits for as many objects; the least recently used
//!    entry is evicted.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{EventKey, EventSubject, Recorded};

/// The maximum number of series and of objects, as in client-go.
pub(super) const MAX_SERIES: usize = 4096;

/// A series ends when no event was added to it for this time, as in client-go.
pub(super) const SERIES_IDLE: Duration = Duration::from_secs(6 * 60);

/// The interval at which the count of a running series is updated, as in client-go.
pub(super) const SERIES_REFRESH: Duration = Duration::from_secs(30 * 60);

/// The number of different events that an object may get at once, and the time after which it may get one
/// more, as in client-go's `record` package.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// The maximum number of names that are tried for one event. If all of them exist, the cause is a different
/// problem.
const MAX_NAMES: u32 = 5;

/// The maximum length of the object's name within an event's name. With the timestamp, the event's name stays
/// below 253 bytes.
const MAX_STEM: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventWrite {
    pub(crate) key: EventKey,
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) count: u32,
    /// True if the event exists on the server, so that only its series is updated.
    pub(crate) exists: bool,
    /// True if this write may have been sent before, so that the event may exist.
    pub(crate) repeats: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteResult {
    Done,
    /// The event does not exist any more, since servers delete events after an hour.
    NotFound,
    NameTaken,
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
    sent_count: u32,
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

#[derive(Debug, Default)]
pub(crate) struct EventState {
    series: HashMap<EventKey, Series>,
    buckets: HashMap<EventSubject, Bucket>,
    /// The last timestamp that was used in the name of an event, in nanoseconds.
    stamp: u64,
}

impl EventState {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.series.len() + self.buckets.len()
    }

    /// Records an event. Returns a request if one is due, and `Err` if the rate of the object is exceeded.
    pub(crate) fn record(
        &mut self,
        event: Recorded,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<EventWrite>, ()> {
        if let Some(series) = self.series.get_mut(&event.key) {
            series.count = series.count.saturating_add(1);
            (series.last, series.last_at) = (wall, now);
            // The second event turns the event into a series. Later ones are only counted until the next
            // update.
            let due = series.sent_count < 2;
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
            sent_count: 0,
            told_at: now,
            exists: false,
            on_its_way: false,
            interrupted: false,
        };
        self.series.insert(event.key.clone(), series);
        Ok(self.write(&event.key, now))
    }

    /// Handles the result of a request. Returns another request if an update is due.
    pub(crate) fn written(
        &mut self,
        write: &EventWrite,
        outcome: WriteResult,
        now: Instant,
    ) -> Option<EventWrite> {
        let series = self.series.get_mut(&write.key).filter(|series| series.name == write.name)?;
        (series.on_its_way, series.interrupted) = (false, false);
        match outcome {
            WriteResult::Done => {
                (series.exists, series.sent_count) = (true, write.count);
                let second = series.sent_count < 2 && series.count > series.sent_count;
                if second { self.write(&write.key, now) } else { None }
            }
            WriteResult::NotFound => {
                series.exists = false;
                self.write(&write.key, now)
            }
            WriteResult::NameTaken if series.names < MAX_NAMES => {
                series.names += 1;
                let stamp = next_stamp(&mut self.stamp, series.first);
                series.name = event_name(&write.key.regarding.name, stamp);
                self.write(&write.key, now)
            }
            WriteResult::NameTaken | WriteResult::Refused => {
                self.series.remove(&write.key);
                None
            }
        }
    }

    /// Returns the requests that are due: updates of the counts of running series, and final counts of ended
    /// series, which are removed.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<EventWrite> {
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

    /// Returns the requests that were in flight, and all recorded events and counts that were not sent.
    pub(crate) fn interrupted(&mut self, now: Instant) -> Vec<EventWrite> {
        for series in self.series.values_mut() {
            (series.interrupted, series.on_its_way) = (series.on_its_way, false);
        }
        self.flush(now)
    }

    /// Returns all recorded events and counts that were not sent.
    pub(crate) fn flush(&mut self, now: Instant) -> Vec<EventWrite> {
        self.pending(now, |_| true)
    }

    fn pending(&mut self, now: Instant, due: impl Fn(&Series) -> bool) -> Vec<EventWrite> {
        let keys = self.series.iter().filter(|(_, series)| series.count > series.sent_count && due(series));
        let keys: Vec<EventKey> = keys.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.write(key, now)).collect()
    }

    fn write(&mut self, key: &EventKey, now: Instant) -> Option<EventWrite> {
        let series = self.series.get_mut(key).filter(|series| !series.on_its_way)?;
        series.on_its_way = true;
        series.told_at = now;
        Some(EventWrite {
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

/// Returns a unique timestamp for an event name: the current time, or the last value plus one if the clock
/// has not advanced.
fn next_stamp(last: &mut u64, wall: Timestamp) -> u64 {
    *last = (wall.as_nanosecond() as u64).max(last.saturating_add(1));
    *last
}

/// Returns the name of an event: the object's name and a timestamp. If the object's name is not valid in an
/// event's name, `event` replaces it.
fn event_name(object: &str, stamp: u64) -> String {
    let stem: String = object.chars().take(MAX_STEM).collect();
    // Truncation may leave an invalid last character.
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

/// Makes room in a full map by evicting the oldest eighth of its entries, so that a burst does not search for
/// the oldest entry each time.
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
