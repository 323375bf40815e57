//! Records Kubernetes events of objects, in the API `events.k8s.io/v1`.
//!
//! # Invariants
//!
//! Recording never waits: an event is added to a buffer of [`BUFFER`] events, or is counted as dropped if the
//! buffer is full. Events with the same key (the same object, type, reason and action) form a series. At most
//! one request is in flight per series, and at most [`MAX_REQUESTS`] in total.
//!
//! # Lock order
//!
//! The list of sinks has a lock, under which no other lock is taken and no code of the program runs. Only the
//! task of `EventSender` reads and writes the state of the series.
//!
//! # Shutdown
//!
//! When the program stops, recorded events and unsent counts of series are sent for at most
//! [`FLUSH_TIMEOUT`], without retries.

mod driver;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_core::panics::panic_text;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{EventSubject, Fetched, KubeObject};

pub(crate) use driver::EventSender;

/// The capacity of the buffer between recorders and the task that sends events, as in client-go. When the
/// buffer is full, new events are dropped, because older events are more useful for finding a cause.
const BUFFER: usize = 1000;

/// The maximum number of event requests in flight, as in client-go. The limit keeps events from delaying the
/// other requests of a program.
const MAX_REQUESTS: usize = 8;

const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length in bytes of an event's note. The API server rejects events with a longer note, or with
/// a reason or an action of more than 128 bytes, so the recorder truncates these strings.
const MAX_NOTE_BYTES: usize = 1024;
const MAX_REASON_BYTES: usize = 128;

impl<K: KubeObject> From<&Fetched<K>> for EventSubject {
    fn from(object: &Fetched<K>) -> Self {
        Self::from(&**object)
    }
}

/// The type of a Kubernetes event, which tells users whether the event reports a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// An event of this type reports normal operation of the object.
    Normal,
    /// An event of this type reports a problem of the object.
    Warning,
}

impl EventType {
    /// Returns the type as in the API: `Normal` or `Warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A recorded event in the buffer between [`EventRecorder`] and the task that sends events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) key: EventKey,
    pub(crate) note: String,
}

/// An event as it was recorded. `Display` prints `TYPE REASON OBJECT: NOTE`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// The type of the event: normal operation, or a problem.
    pub event_type: EventType,
    /// The reason, such as `Created`.
    pub reason: String,
    /// The action that the controller took.
    pub action: String,
    /// The text for humans.
    pub note: String,
    /// The object of the event.
    pub regarding: EventSubject,
    /// The secondary object; see [`EventRecorder::related`].
    pub related: Option<EventSubject>,
    /// The name of the controller that recorded the event.
    pub controller: String,
}

impl From<Recorded> for RecordedEvent {
    fn from(Recorded { key, note }: Recorded) -> Self {
        Self {
            event_type: key.event_type,
            reason: key.reason,
            action: key.action,
            note,
            regarding: key.regarding,
            related: key.related,
            controller: key.controller.to_string(),
        }
    }
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}: {}", self.event_type.name(), self.reason, self.regarding, self.note)
    }
}

/// Receives the events of a manager in addition to the API server, for example for a log or an audit system.
/// It is implemented for closures.
///
/// A sink is called with every recorded event, also with those that the API server gets only as a count of
/// their series or that exceed its rate limit. It runs in the task that sends events and must not block. A
/// panic is logged.
///
/// Upstream: `EventBroadcaster.StartEventWatcher`.
pub trait EventSink: Send + Sync + 'static {
    /// Receives an event.
    fn receive(&self, event: &RecordedEvent);
}

impl<F: Fn(&RecordedEvent) + Send + Sync + 'static> EventSink for F {
    fn receive(&self, event: &RecordedEvent) {
        self(event);
    }
}

/// The sinks of a manager. They are copied under the lock and called without it.
#[derive(Clone, Default)]
pub(crate) struct EventSinks(Arc<Mutex<Vec<Arc<dyn EventSink>>>>);

impl EventSinks {
    pub(crate) fn add(&self, sink: impl EventSink) {
        self.0.lock().push(Arc::new(sink));
    }

    fn send(&self, event: &Recorded) {
        let sinks = self.0.lock().clone();
        if sinks.is_empty() {
            return;
        }
        let event = RecordedEvent::from(event.clone());
        for sink in sinks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| sink.receive(&event))) {
                tracing::error!(panic = panic_text(&*panic), reason = event.reason, "an event sink panicked");
            }
        }
    }
}

/// The identity of an event: its object, type, reason and action. Events with equal keys form a series.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) controller: Arc<str>,
    pub(crate) regarding: EventSubject,
    pub(crate) related: Option<EventSubject>,
    /// The note, if events with other notes form other series; see [`EventRecorder::record_distinct`].
    pub(crate) distinct_note: Option<String>,
}

/// Records events of one controller. Cheap to clone.
///
/// Recording never waits and never fails. Events with the same type, reason, action and object form a series,
/// whatever their notes. The first event is created with its note; the second turns it into a series, whose
/// count is updated every 30 min and when the series ends, 6 min after its last event. An object gets at most
/// 25 different events at once, and one more every 5 min. Events beyond that rate, or while the server
/// rejects events, are dropped and counted.
///
/// This type corresponds to
/// [`events.EventRecorder`](https://pkg.go.dev/k8s.io/client-go/tools/events#EventRecorder), plus the rate
/// limit of the older `record` API.
///
/// # Permissions
///
/// The recorder needs permission to `create` and `patch` `events` of `events.k8s.io`.
#[derive(Clone)]
pub struct EventRecorder {
    controller: Arc<str>,
    related: Option<EventSubject>,
    events: mpsc::Sender<Recorded>,
    dropped: Arc<AtomicU64>,
}

impl EventRecorder {
    /// Creates a recorder and the receiver of its events.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Recorded>) {
        let (events, recorded) = mpsc::channel(BUFFER);
        let recorder = Self { controller: "informer".into(), related: None, events, dropped: Arc::default() };
        (recorder, recorded)
    }

    pub(crate) fn of(&self, controller: &str) -> Self {
        Self { controller: cut(controller, MAX_REASON_BYTES).into(), ..self.clone() }
    }

    /// Returns a recorder that sets the field `related` of its events to a secondary object, for example to
    /// an object that a controller has created for the main one.
    pub fn related(&self, object: impl Into<EventSubject>) -> Self {
        Self { related: Some(object.into()), ..self.clone() }
    }

    /// Records an event of type `Normal` about the object `regarding`. `reason` is a word in UpperCamelCase,
    /// `action` is the action that the controller took, and `note` is a text for humans.
    pub fn normal(
        &self,
        regarding: impl Into<EventSubject>,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        self.record(EventType::Normal, regarding.into(), (reason, action), note.into());
    }

    /// Records an event of type `Warning`, which reports a problem. The arguments are those of
    /// [`normal`](Self::normal).
    pub fn warning(
        &self,
        regarding: impl Into<EventSubject>,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        self.record(EventType::Warning, regarding.into(), (reason, action), note.into());
    }

    /// Returns the number of events that were not sent because the buffer was full, the object had too many
    /// events, or the server rejected them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn record(
        &self,
        event_type: EventType,
        regarding: EventSubject,
        (reason, action): (&str, &str),
        note: String,
    ) {
        let key = self.key(event_type, regarding, (reason, action));
        self.add(Recorded { key, note: cut(&note, MAX_NOTE_BYTES).to_owned() });
    }

    /// Records an event that forms a series only with events of the same note, for audits: other series keep
    /// only the note of their first event. The reason is also the action.
    #[cfg(feature = "console")]
    pub(crate) fn record_distinct(
        &self,
        event_type: EventType,
        regarding: EventSubject,
        reason: &str,
        note: String,
    ) {
        let note = cut(&note, MAX_NOTE_BYTES).to_owned();
        let key = self.key(event_type, regarding, (reason, reason));
        self.add(Recorded { key: EventKey { distinct_note: Some(note.clone()), ..key }, note });
    }

    fn key(
        &self,
        event_type: EventType,
        regarding: EventSubject,
        (reason, action): (&str, &str),
    ) -> EventKey {
        let (reason, action) =
            (cut(reason, MAX_REASON_BYTES).to_owned(), cut(action, MAX_REASON_BYTES).to_owned());
        let (controller, related) = (Arc::clone(&self.controller), self.related.clone());
        EventKey { event_type, reason, action, controller, regarding, related, distinct_note: None }
    }

    fn add(&self, recorded: Recorded) {
        if self.events.try_send(recorded).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("EventRecorder");
        debug.field("controller", &self.controller).field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// Truncates a string to at most `max` bytes, at a character boundary, to satisfy the API server's limits.
fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
