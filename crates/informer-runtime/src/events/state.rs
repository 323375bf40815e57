//! Decides which recorded events are sent to the API server, and when. This is a pure state machine without a
//! clock.
//!
//! # Invariants
//!
//! 1. At most one request per series is in flight.
//! 2. All Event objects of a process have different names. If the server already has an Event with that name,
//!    the write is repeated with another name.
//! 3. There are at most [`MAX_SERIES`] series, and rate limits for as many objects; the least recently used
//!    entry is evicted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{EventKey, Recorded};
use crate::EventSubject;

/// The maximum number of event series, and of objects with a rate limit, that are kept in memory, as in
/// client-go. The oldest entries are evicted.
pub(super) const MAX_SERIES: usize = 4096;

/// A series of events ends when no event was added to it for this time, as in client-go. The server then gets
/// the final count of the series.
pub(super) const SERIES_IDLE: Duration = Duration::from_secs(6 * 60);

/// The interval at which the server gets the current count of a running series of events, as in client-go.
pub(super) const SERIES_REFRESH: Duration = Duration::from_secs(30 * 60);

/// The number of different events that an object may get in a burst. After the burst, the object may get one
/// more event in each `REFILL` interval. Both limits are those of client-go's `record` package.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// The maximum number of names that are tried for one Event object. If the server reports that all of them
/// exist, unique names do not solve the problem, and the event is dropped.
const MAX_NAMES: u32 = 5;

/// The maximum length of the object's name in the name of an Event. A timestamp follows it, and the whole
/// name must stay below Kubernetes' limit of 253 bytes.
const MAX_STEM: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventWrite {
    pub(crate) key: EventKey,
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) count: u32,
    /// True if the server already has the Event object. The write then only updates the series in it.
    pub(crate) exists: bool,
    /// True if the same write may have been sent before without a response. The server may then report that
    /// the Event exists, which counts as success.
    pub(crate) repeats: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteResult {
    Done,
    /// The server does not have the Event object any more. Servers delete Events after an hour by default.
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
    /// The rates of Events by reporter and object, as in client-go: a component that records many Events
    /// about an object does not suppress those of another one.
    buckets: HashMap<(Arc<str>, EventSubject), Bucket>,
    /// The last timestamp in the name of an Event, in nanoseconds. The next one must be greater, so that
    /// names are unique.
    stamp: u64,
}

impl EventState {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.series.len() + self.buckets.len()
    }

    /// Records an event. Returns a request if the event must be sent now, and `Err` if the object has
    /// exceeded its rate of events.
    pub(crate) fn record(
        &mut self,
        event: Recorded,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<EventWrite>, ()> {
        if let Some(series) = self.series.get_mut(&event.key) {
            series.count = series.count.saturating_add(1);
            (series.last, series.last_at) = (wall, now);
            // The first event of a series creates an Event object, and the second adds a series to it. Later
            // events are only counted, and the count is sent with the next periodic update.
            let due = series.sent_count < 2;
            return Ok(if due { self.write(&event.key, now) } else { None });
        }
        if !self.take(&event.key, now) {
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

    /// Handles the result of the request `write`. Returns another request if the series of the event must be
    /// sent again.
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

    /// Returns the requests that are due: updated counts of running series, and final counts of series that
    /// have ended. Removes the ended series.
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

    /// Returns the requests that remain when the manager stops: those that were in flight, and those for
    /// recorded events and counts that were not sent.
    pub(crate) fn interrupted(&mut self, now: Instant) -> Vec<EventWrite> {
        for series in self.series.values_mut() {
            (series.interrupted, series.on_its_way) = (series.on_its_way, false);
        }
        self.flush(now)
    }

    /// Returns requests that send all recorded events and counts which the server does not have yet.
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

    fn take(&mut self, event: &EventKey, now: Instant) -> bool {
        let source = (Arc::clone(&event.controller), event.regarding.clone());
        if !self.buckets.contains_key(&source) {
            make_room(&mut self.buckets, |bucket| bucket.at);
        }
        let bucket = self.buckets.entry(source).or_insert(Bucket { tokens: BURST, at: now });
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

/// Returns a unique timestamp for the name of an Event: the current time, or the last timestamp plus one if
/// the clock has not advanced since.
fn next_stamp(last: &mut u64, wall: Timestamp) -> u64 {
    *last = (wall.as_nanosecond() as u64).max(last.saturating_add(1));
    *last
}

/// Returns the name of an Event: the name of the object and a timestamp. Names of some objects, for example
/// with colons, are invalid in the name of an Event; `event` then replaces them.
fn event_name(object: &str, stamp: u64) -> String {
    let stem: String = object.chars().take(MAX_STEM).collect();
    // A truncated name may end with `-` or `.`, which is invalid before the separator of the timestamp.
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

/// Makes room in a full map by evicting the oldest eighth of its entries. Evicting one entry at a time would
/// search the whole map for each insertion.
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
