//! The trace of one run of a script, and the lines of text in which traces are compared.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::script::RequestKind;

/// The trace of one run of one script with one of the compared libraries.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The requests that the server received, in order of arrival.
    pub requests: Vec<Record>,
    /// The entries that the library under test (client-go or this library) recorded, such as the calls of its
    /// handlers.
    pub entries: Vec<Entry>,
    /// True if the script did not end within the time limit of a run.
    pub unfinished: bool,
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct Record {
    /// The time that the client waited before the request, as a class.
    pub wait: Wait,
    /// The kind of the request and its query parameters, sorted by name.
    pub text: String,
    /// The attempts of the script that the server skipped, because they expected another kind of request than
    /// this one.
    pub skipped: Vec<RequestKind>,
    /// True if no attempt of the script expected this request.
    pub unscripted: bool,
}

/// The classes of a client's wait between the end of a response and its next request. Traces contain classes
/// instead of times, because times differ from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// There was no wait: the request is the first one of the run.
    First,
    /// The client sent the request immediately, apart from processing time.
    AtOnce,
    /// The client waited for a backoff, between `800 ms * 2^step` and twice that time.
    Backoff {
        /// The step of the backoff, counted from 0 for the shortest wait.
        step: u32,
        /// True if the step follows the step of the previous backoff, or is 0 for the first backoff. After
        /// refused connections, every step counts as following, because the number of attempts is unknown.
        in_order: bool,
    },
    /// The client waited as long as the server requested with `Retry-After`.
    RetryAfter,
    /// The port of the server was closed before the request, so the client's wait cannot be measured.
    AfterRefusal,
    /// The client waited for a time that fits no other class. The value is the wait in milliseconds.
    Odd(u64),
}

/// One entry of a peer's trace: a call of a handler, a call of the transform, or a read of the store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The name of the called handler; empty if the entry is no call of a handler.
    pub handler: String,
    /// The kind of call: `add`, `update` or `delete`.
    pub call: String,
    /// The key of the object in the call.
    pub key: String,
    /// The resourceVersion of the object before the event.
    pub old: String,
    /// The resourceVersion of the object after the event.
    pub new: String,
    /// True if an added object was reported as part of the initial list.
    pub initial: bool,
    /// True if a deletion was detected by a relist, because its watch event was missed.
    pub last_known: bool,
    /// True if the previous object of an update had the same name and another uid.
    pub other_uid: bool,
    /// The key and the resourceVersion of the object with which the transform was called; empty if the entry
    /// is no such call.
    pub transform: String,
    /// The content of the store, if the entry is a read of the store.
    pub check: Option<Check>,
}

/// The result of reading the store and the sync state of an informer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Check {
    /// The keys and resource versions of the objects in the store.
    pub store: Vec<String>,
    /// The keys in the store by index name and index value.
    pub indexes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The last resourceVersion that the informer has seen.
    pub version: String,
    /// For the informer and each of its handlers, by name: true if it has synced.
    pub synced: BTreeMap<String, bool>,
}

/// Kinds of handler calls whose order among each other is undefined: adds of a first list, deletions that a
/// relist has found, and updates of a resync.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Unordered {
    Initial,
    LastKnown,
    Unchanged,
}

impl Entry {
    fn unordered(&self) -> Option<Unordered> {
        match self.call.as_str() {
            "add" if self.initial => Some(Unordered::Initial),
            "delete" if self.last_known => Some(Unordered::LastKnown),
            "update" if self.old == self.new => Some(Unordered::Unchanged),
            _ => None,
        }
    }

    fn line(&self) -> String {
        let Self { key, old, new, .. } = self;
        let note = |shown: bool, note: &'static str| if shown { note } else { "" };
        match self.call.as_str() {
            "add" => format!("add {key} @{new}{}", note(self.initial, " initial")),
            "delete" => format!("delete {key} @{old}{}", note(self.last_known, " last known")),
            call => format!("{call} {key} @{old} -> @{new}{}", note(self.other_uid, " another uid")),
        }
    }
}

impl Trace {
    /// Returns the lines of the trace by stream: `requests`, `store`, one stream for each handler, and with
    /// `transforms` also `transform`. Consecutive calls without a defined order (objects of a first list,
    /// deletions found by a relist, a resync) and the calls of the transform are sorted. If `resyncs` is set,
    /// several consecutive rounds of a resync count as one.
    pub fn streams(&self, resyncs: bool, transforms: bool) -> BTreeMap<String, Vec<String>> {
        let mut streams = BTreeMap::from([("requests".to_owned(), self.request_lines())]);
        let mut calls: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.handler.is_empty()) {
            calls.entry(&entry.handler).or_default().push(entry);
        }
        for (handler, calls) in calls {
            streams.insert(format!("handler {handler}"), call_lines(&calls, resyncs));
        }
        let checks = self.entries.iter().filter_map(|entry| entry.check.as_ref());
        let lines = checks.enumerate().flat_map(|(index, check)| check.lines(index + 1));
        streams.insert("store".to_owned(), lines.collect());
        if transforms {
            let transformed = self.entries.iter().map(|entry| &entry.transform);
            let mut lines: Vec<String> = transformed.filter(|text| !text.is_empty()).cloned().collect();
            lines.sort();
            streams.insert("transform".to_owned(), lines);
        }
        streams
    }

    fn request_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.requests.iter().map(ToString::to_string).collect();
        if self.unfinished {
            lines.push("(the script did not end in time)".to_owned());
        }
        lines
    }
}

fn call_lines(calls: &[&Entry], resyncs: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for run in calls.chunk_by(|a, b| a.unordered().is_some() && a.unordered() == b.unordered()) {
        let mut run_lines: Vec<String> = run.iter().map(|entry| entry.line()).collect();
        if run[0].unordered().is_some() {
            run_lines.sort();
        }
        if resyncs && run[0].unordered() == Some(Unordered::Unchanged) {
            run_lines.dedup();
        }
        lines.append(&mut run_lines);
    }
    lines
}

impl Check {
    fn lines(&self, number: usize) -> impl Iterator<Item = String> {
        let synced = self.synced.iter().map(|(who, synced)| format!("{who}={synced}"));
        let synced = synced.collect::<Vec<_>>().join(" ");
        let mut lines = vec![
            format!("check {number}: store: {}", self.store.join(" ")),
            format!("check {number}: version: {}", self.version),
            format!("check {number}: synced: {synced}"),
        ];
        for (index, values) in &self.indexes {
            let mut line = format!("check {number}: index {index}:");
            for (value, keys) in values {
                let _ = write!(line, " {value}=[{}]", keys.join(" "));
            }
            lines.push(line);
        }
        lines.into_iter()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.wait, self.text)?;
        for skipped in &self.skipped {
            write!(f, " (no {skipped})")?;
        }
        if self.unscripted { f.write_str(" (unscripted)") } else { Ok(()) }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::AtOnce => f.write_str("at once"),
            Self::Backoff { step, in_order: true } => write!(f, "backoff {step}"),
            Self::Backoff { step, in_order: false } => write!(f, "backoff {step} out of order"),
            Self::RetryAfter => f.write_str("retry after"),
            Self::AfterRefusal => f.write_str("after refusal"),
            Self::Odd(milliseconds) => write!(f, "after {milliseconds} ms, outside all backoff steps"),
        }
    }
}

#[cfg(test)]
mod tests;
