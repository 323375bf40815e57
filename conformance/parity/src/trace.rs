//! The trace of one run, and its lines in the format in which runs are compared.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::script::RequestKind;

/// The trace of one run of one script with one of the compared libraries.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The requests that the server received, in order of arrival.
    pub requests: Vec<Record>,
    /// The entries that the library under test recorded, such as the calls of its handlers.
    pub entries: Vec<Entry>,
    /// True if the script did not end in time.
    pub unfinished: bool,
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct Record {
    /// The class of the wait before the request.
    pub wait: Wait,
    /// The verb and the query of the request.
    pub text: String,
    /// The attempts of the script that the server skipped, because this request did not fit what they
    /// expected.
    pub skipped: Vec<RequestKind>,
    /// True if the script has no response to the request.
    pub unscripted: bool,
}

/// The classes of the time between the end of a response and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The request is the first one, so there was no response before it.
    First,
    /// The request followed immediately, apart from processing time.
    AtOnce,
    /// A backoff between `800 ms * 2^step` and twice that time.
    Backoff {
        /// The step of the backoff, counted from 0.
        step: u32,
        /// True if the step is the one after the previous step, or the first step.
        in_order: bool,
    },
    /// The wait that the server requested with `Retry-After`.
    RetryAfter,
    /// The server's port was closed before the request.
    AfterRefusal,
    /// A wait of another length, in milliseconds.
    Odd(u64),
}

/// One entry of a peer's trace: a call of a handler, a call of the transform, or a read of the store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The name of the called handler.
    pub handler: String,
    /// The kind of call: `add`, `update` or `delete`.
    pub call: String,
    /// The key of the object.
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
    /// The object with which the transform was called.
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
    /// Whether the informer and each of its handlers have synced, by name.
    pub synced: BTreeMap<String, bool>,
}

/// The kinds of consecutive calls whose order is undefined.
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
    /// Returns the lines of the trace by stream: `requests`, `store`, and one stream for each handler.
    /// Consecutive calls without a defined order (objects of a first list, deletions found by a relist, a
    /// resync) are sorted. If `resyncs` is set, several rounds of a resync count as one.
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
