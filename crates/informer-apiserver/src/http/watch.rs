//! Watches: the start version, and the driver that pulls events from the shared history.
//!
//! # Invariants
//!
//! 1. A watch stream delivers the events after its cursor in order and without gaps. It may end at any time.
//! 2. A bookmark of version X follows every event up to X that the stream delivers.
//! 3. A watcher buffers at most [`MAX_BATCH_EVENTS`] events. Their encoded lines exceed [`MAX_BATCH_BYTES`]
//!    by at most one line. All later events stay in the shared history. The stream of a watcher that falls
//!    behind the history ends.
//!
//! # Shutdown
//!
//! A watch stream ends at its deadline, when its resource is disconnected, or when the client drops the body.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::clock::{Clock, Sleep};
use crate::http::list::CHUNK_BYTES;
use crate::http::table::{RowEvent, TableForm};
use crate::http::{Frontend, ListOptions, frame_events};
use crate::model::error::ApiError;
use crate::model::metadata::parse_version;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::{Ended, Event, EventType, ObjectForm, OrderedMap, Pulled, Stored};

/// The way in which the server ends a watch that falls behind the event history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lagging {
    /// The watch stream ends normally, as in kube-apiserver. The client gets the 410 when it watches again.
    #[default]
    Ended,
    /// The last event of the watch stream is an ERROR with the 410 status.
    Expired,
}

/// Maximum number of events that a watch reads from the history at a time. Bounds the memory that a stalled
/// client holds.
const MAX_BATCH_EVENTS: usize = 256;
/// Maximum size in bytes of the encoded events that a watch reads at a time, so that large objects do not
/// fill its buffer.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Interval between the bookmarks of a watch; the same as in kube-apiserver.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Time between the last bookmark of a watch and its deadline; the same as in kube-apiserver.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Range of the random timeout of a watch without `timeoutSeconds`; the same as in kube-apiserver.
const DEFAULT_TIMEOUT_SECONDS: std::ops::Range<u64> = 1800..3600;

#[derive(Debug)]
pub(crate) enum Item {
    /// One watch event, or several initial events if `coalesce` is set.
    Event(Bytes),
    Bookmark(Bytes),
    /// The bookmark with the annotation `k8s.io/initial-events-end`, which ends the initial events.
    InitialEnd(Bytes),
    /// The ERROR event, which is the last item of the stream.
    Error(Bytes),
}

pub(crate) struct WatchDriver {
    shared: Arc<Frontend>,
    resource: Arc<Resource>,
    filter: Filter,
    form: ObjectForm,
    table: Option<TableRows>,
    /// The events are encoded as protobuf frames instead of JSON lines.
    protobuf: bool,
    /// The resourceVersion up to which all events were delivered or are in `queue`.
    cursor: u64,
    /// The resourceVersion up to which the last read of the history returned all events. It is used once, to
    /// wait without reading again.
    complete: Option<u64>,
    epoch: u64,
    changed: watch::Receiver<()>,
    initial: Option<InitialEvents>,
    queue: VecDeque<Bytes>,
    deadline: Duration,
    next_bookmark: Option<Duration>,
    /// The timer of the last wait. The next wait reuses it if it has the same end, because creating a timer
    /// costs more than delivering an event.
    sleep: Option<(Duration, Sleep)>,
    /// True if several initial events may be one item of the stream.
    pub(crate) coalesce: bool,
    error: Option<ApiError>,
    ended: bool,
}

struct InitialEvents {
    items: std::vec::IntoIter<Arc<Stored>>,
    version: u64,
    bookmark: bool,
}

struct TableRows {
    form: TableForm,
    /// The first event was sent. It alone contains the column definitions of the `Table`.
    defined: bool,
}

impl TableRows {
    fn line(&mut self, shared: &Frontend, resource: &Resource, event: RowEvent<'_>) -> Bytes {
        let first = !std::mem::replace(&mut self.defined, true);
        self.form.line(&resource.kind, event, first, shared.clock.timestamp()).into()
    }
}

/// Returns 429 if existing objects of the resource cannot be converted to the requested API version.
async fn check_convertible(shared: &Frontend, request: &WatchRequest<'_>) -> Result<(), ApiError> {
    let resource = request.resource;
    if resource.converter.is_none() {
        return Ok(());
    }
    let live = shared.storage.read().live(resource.table);
    shared.presentable(resource, &live, "").await.map(drop).map_err(|error| {
        let (api_version, kind) = (&resource.kind.api_version, &resource.kind.kind);
        let why = error.message();
        let message =
            format!("storage is (re)initializing: failed to list {api_version}, Kind={kind}: {why}");
        ApiError::retry_later(429, "TooManyRequests", &message, 1)
    })
}

pub(crate) struct WatchRequest<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) filter: Filter,
    pub(crate) form: ObjectForm,
    pub(crate) table: Option<TableForm>,
    /// Encode watch events as protobuf frames. Bookmarks and errors are JSON, which [`FaultyWatch`] converts
    /// to frames.
    ///
    /// [`FaultyWatch`]: crate::http::watch_faults::FaultyWatch
    pub(crate) protobuf: bool,
    pub(crate) options: &'a ListOptions,
    /// Injected fault: the watch starts this many resourceVersions earlier than requested.
    pub(crate) rewind: u64,
    pub(crate) ignore_initial: bool,
}

impl WatchDriver {
    /// Starts a watch. A streaming list first waits until the storage has reached the requested
    /// `resourceVersion`.
    pub(crate) async fn start(shared: &Arc<Frontend>, request: WatchRequest<'_>) -> Result<Self, ApiError> {
        let mut options = request.options.clone();
        if request.ignore_initial {
            options.initial_events = None;
            options.matching = String::new();
        } else {
            options.rewrite_legacy_watch();
        }
        options.check_watch()?;
        let requested = parse_version(&options.version).map_err(|text| ApiError::new(500, "", text))?;
        let wants_initial = options.initial_events == Some(true);
        let mut error = None;
        if wants_initial && let Some(version) = requested {
            error = shared.reach(version).await.err();
        }
        check_convertible(shared, &request).await?;
        let mut driver = Self::at_current_version(shared, &request, &options);
        match requested {
            _ if error.is_some() => driver.error = error,
            _ if wants_initial => driver.load_initial(request.rewind, options.bookmarks).await?,
            Some(version) if version > 0 => driver.resume(version, request.rewind),
            _ => {}
        }
        Ok(driver)
    }

    pub(crate) fn fail(&mut self, error: ApiError) {
        self.error = Some(error);
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn end_within(&mut self, lifetime: Duration) {
        self.deadline = self.deadline.min(self.shared.clock.elapsed() + lifetime);
    }

    pub(crate) fn shuffle_initial(&mut self, seed: u64) {
        if let Some(initial) = &mut self.initial {
            initial.items.as_mut_slice().shuffle(&mut StdRng::seed_from_u64(seed));
        }
    }

    fn at_current_version(shared: &Arc<Frontend>, request: &WatchRequest<'_>, options: &ListOptions) -> Self {
        let now = shared.clock.elapsed();
        let random_timeout = || {
            let seconds = rand::rng().random_range(DEFAULT_TIMEOUT_SECONDS);
            let seeded =
                informer_core::random::seeded().map(|number| DEFAULT_TIMEOUT_SECONDS.start + number % 1800);
            Duration::from_secs(seeded.unwrap_or(seconds))
        };
        let deadline = now + options.timeout.unwrap_or_else(random_timeout);
        // Subscribe to changes before reading the state, so that a change in between ends the first wait.
        let changed = request.resource.changed.subscribe();
        let storage = shared.storage.read();
        let mut driver = Self {
            shared: Arc::clone(shared),
            resource: Arc::clone(request.resource),
            filter: request.filter.clone(),
            form: request.form,
            table: request.table.map(|form| TableRows { form, defined: false }),
            protobuf: request.protobuf,
            cursor: storage.version(),
            complete: None,
            epoch: storage.epoch(request.resource.table),
            changed,
            initial: None,
            queue: VecDeque::new(),
            deadline,
            next_bookmark: None,
            sleep: None,
            coalesce: true,
            error: None,
            ended: false,
        };
        if options.bookmarks {
            driver.plan_bookmark(now);
        }
        driver
    }

    async fn load_initial(&mut self, rewind: u64, bookmark: bool) -> Result<(), ApiError> {
        let (version, map) = self.initial_state(rewind);
        self.cursor = version;
        let shown = self.shared.presentable(&self.resource, &map, &self.filter.prefix()).await?;
        let items = self.matching(&shown);
        self.initial = Some(InitialEvents { items: items.into_iter(), version, bookmark });
        Ok(())
    }

    fn initial_state(&mut self, rewind: u64) -> (u64, OrderedMap) {
        let storage = self.shared.storage.read();
        let table = self.resource.table;
        self.epoch = storage.epoch(table);
        let version = storage.version().saturating_sub(rewind).max(storage.floor(table));
        match rewind {
            0 => (storage.version(), storage.live(table)),
            _ => (version, storage.at(table, version).unwrap_or_default()),
        }
    }

    fn matching(&self, map: &OrderedMap) -> Vec<Arc<Stored>> {
        let prefix = self.filter.prefix();
        let scope = map.from(&prefix).take_while(|stored| stored.key.as_str().starts_with(&prefix));
        scope.filter_map(|stored| self.filter.pick(&self.resource, stored, EventType::Added)).collect()
    }

    fn resume(&mut self, version: u64, rewind: u64) {
        let floor = self.shared.storage.read().floor(self.resource.table);
        if version < floor {
            self.error = Some(ApiError::watch_too_old(version, floor));
        }
        self.cursor = match rewind {
            0 => version,
            by => version.saturating_sub(by).max(floor),
        };
    }

    fn plan_bookmark(&mut self, now: Duration) {
        let last = self.deadline.saturating_sub(BOOKMARK_BEFORE_END);
        let next = (now + BOOKMARK_PERIOD).min(last);
        self.next_bookmark = Some(next).filter(|next| *next > now);
    }

    /// Returns the next item of the watch, or `None` at its end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(error) = self.error.take() {
                self.ended = true;
                return Some(Item::Error(error.to_event_line().into()));
            }
            if let Some(item) = self.take_initial() {
                return Some(item);
            }
            if let Some(line) = self.queue.pop_front() {
                return Some(Item::Event(line));
            }
            // Usually no event has happened since the last read. Waiting without another read avoids the lock
            // of the storage.
            if let Some(version) = self.complete.take()
                && matches!(self.changed.has_changed(), Ok(false))
            {
                if let Some(item) = self.wait(version).await {
                    return Some(item);
                }
                continue;
            }
            self.changed.mark_unchanged();
            let converted = self.convert().await;
            if converted == 0 {
                self.ended = true;
                continue;
            }
            match self.pull(converted) {
                Err(ended) => self.end(ended),
                Ok(None) => {}
                Ok(Some(version)) => {
                    if let Some(item) = self.wait(version).await {
                        return Some(item);
                    }
                }
            }
        }
    }

    fn take_initial(&mut self) -> Option<Item> {
        let initial = self.initial.as_mut()?;
        let mut lines = BytesMut::new();
        while lines.len() < CHUNK_BYTES
            && let Some(stored) = initial.items.next()
        {
            if lines.is_empty() && self.coalesce && initial.items.len() > 8 {
                lines.reserve(CHUNK_BYTES + stored.len());
            }
            if let Some(rows) = &mut self.table {
                let event =
                    RowEvent { event_type: EventType::Added, stored: &stored, version: stored.version };
                lines.put_slice(&rows.line(&self.shared, &self.resource, event));
                break;
            }
            let whole = self.protobuf && self.form == ObjectForm::Object;
            match whole.then(|| stored.frame(EventType::Added, self.shared.wiring())).flatten() {
                Some(frame) => lines.put_slice(&frame),
                None => {
                    let at = lines.len();
                    lines.put_slice(EventType::Added.head());
                    stored.write(self.form, &mut lines);
                    lines.put_slice(b"}\n");
                    if self.protobuf {
                        let line = lines.split_off(at).freeze();
                        lines.put_slice(&frame_events(&self.shared.schema, &line));
                    }
                }
            }
            if !self.coalesce {
                break;
            }
        }
        if !lines.is_empty() {
            return Some(Item::Event(lines.freeze()));
        }
        let (version, bookmark) = (initial.version, initial.bookmark);
        self.initial = None;
        bookmark.then(|| Item::InitialEnd(self.bookmark(version, true)))
    }

    /// Reads events from the history into the queue. Returns `Some(version)` if there were no events up to
    /// that resourceVersion.
    fn pull(&mut self, max: usize) -> Result<Option<u64>, Ended> {
        let pulled = self.shared.storage.read().pull(self.resource.table, self.cursor, self.epoch, max)?;
        let Pulled { events, version, complete } = pulled;
        let none = events.is_empty();
        let mut bytes = 0;
        for event in events {
            if bytes > MAX_BATCH_BYTES {
                // The size limit is reached. The next read starts at the cursor and gets the remaining
                // events.
                return Ok(None);
            }
            let (at, Some(event)) = (event.version, self.presented(event)) else {
                // The converted object is no longer cached, so the watch ends. The client gets this event
                // when it watches again.
                self.ended = true;
                break;
            };
            self.cursor = self.cursor.max(at);
            let event = &*event;
            if let Some(kind) = self.event_type(event) {
                let line = match (&mut self.table, event.shown(kind)) {
                    (Some(rows), Some((stored, version))) => rows.line(
                        &self.shared,
                        &self.resource,
                        RowEvent { event_type: kind, stored, version },
                    ),
                    _ if self.protobuf => self.frame(event, kind),
                    _ => event.line(kind, self.form),
                };
                bytes += line.len();
                self.queue.push_back(line);
            }
        }
        self.cursor = self.cursor.max(version);
        self.complete = Some(version).filter(|_| complete && !none && !self.ended);
        Ok(none.then_some(version))
    }

    /// Returns the event as a protobuf frame. The frames of whole objects are cached with the event.
    fn frame(&self, event: &Event, kind: EventType) -> Bytes {
        let whole = self.form == ObjectForm::Object;
        let cached = whole.then(|| event.frame(kind, self.shared.wiring())).flatten();
        cached.unwrap_or_else(|| frame_events(&self.shared.schema, &event.line(kind, self.form)))
    }

    /// Returns the event with its objects in the watched API version, or `None` if they have not been
    /// converted.
    fn presented(&self, event: Arc<Event>) -> Option<Arc<Event>> {
        let states = [&event.previous, &event.next];
        if states.into_iter().flatten().all(|stored| self.resource.is_shown(stored)) {
            return Some(event);
        }
        let natural = if event.previous.is_some() { EventType::Modified } else { EventType::Added };
        let of = |stored: &Option<Arc<Stored>>| match stored {
            Some(stored) => self.resource.present(stored, natural).map(Some),
            None => Some(None),
        };
        Some(Arc::new(Event::new(event.version, of(&event.previous)?, of(&event.next)?)))
    }

    /// Converts the next events to the watched API version. Returns the number of events whose objects could
    /// be converted.
    ///
    /// If the next event cannot be converted, the watch ends, and the next watch request returns the error.
    /// kube-apiserver does the same. Cancel safe: no event is removed.
    async fn convert(&mut self) -> usize {
        if self.resource.converter.is_none() {
            return MAX_BATCH_EVENTS;
        }
        // The future of a webhook call is large. In a box it takes no memory in watches without conversion.
        Box::pin(self.convert_by_webhook()).await
    }

    async fn convert_by_webhook(&mut self) -> usize {
        let pulled =
            self.shared.storage.read().pull(self.resource.table, self.cursor, self.epoch, MAX_BATCH_EVENTS);
        let Ok(Pulled { events, .. }) = pulled else { return MAX_BATCH_EVENTS };
        let states =
            |event: &Arc<Event>| [&event.previous, &event.next].into_iter().flatten().cloned().collect();
        let all: Vec<Arc<Stored>> = events.iter().flat_map(|event| -> Vec<_> { states(event) }).collect();
        if self.shared.presented(&self.resource, &all, EventType::Modified).await.is_ok() {
            return MAX_BATCH_EVENTS;
        }
        for (index, event) in events.iter().enumerate() {
            let both: Vec<_> = states(event);
            if self.shared.presented(&self.resource, &both, EventType::Modified).await.is_err() {
                return index;
            }
        }
        events.len()
    }

    /// Returns the event type for the selectors of this watch. An object that starts to match them is ADDED,
    /// and one that no longer matches is DELETED.
    fn event_type(&self, event: &Event) -> Option<EventType> {
        let matches = |stored: &Option<Arc<Stored>>| stored.as_ref().is_some_and(|s| self.filter.matches(s));
        match (matches(&event.previous), matches(&event.next)) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Lagged { floor } if self.shared.lagging == Lagging::Expired => {
                self.error = Some(ApiError::watch_too_old(self.cursor, floor));
            }
            Ended::Lagged { .. } | Ended::Disconnected => self.ended = true,
        }
    }

    /// Waits until the resource changes, the next bookmark is due, or the deadline is reached.
    async fn wait(&mut self, version: u64) -> Option<Item> {
        let expiry = self.shared.next_expiry(&self.resource);
        let until = [self.next_bookmark, expiry].into_iter().flatten().fold(self.deadline, Duration::min);
        let clock = &self.shared.clock;
        let (_, sleep) = match self.sleep.take_if(|(at, _)| *at == until) {
            Some(kept) => self.sleep.insert(kept),
            None => self.sleep.insert((until, clock.sleep_until(until))),
        };
        tokio::select! {
            // Changes are polled first, because a bookmark must not overtake pending events.
            biased;
            changed = self.changed.changed() => {
                self.ended = changed.is_err();
                return None;
            }
            () = sleep => {}
        }
        self.sleep = None;
        let now = self.shared.clock.elapsed();
        if now >= self.deadline {
            self.ended = true;
            return None;
        }
        if self.next_bookmark.is_none_or(|next| now < next) {
            self.shared.expire();
            return None;
        }
        self.plan_bookmark(now);
        // Until the storage reaches the start version of the watch, a bookmark would have an older version
        // than the client requested.
        (version >= self.cursor).then(|| Item::Bookmark(self.bookmark(version, false)))
    }

    fn bookmark(&self, version: u64, initial_end: bool) -> Bytes {
        let kind = &self.resource.kind;
        if let Some(rows) = &self.table {
            return rows.form.bookmark(kind, version, initial_end, self.shared.clock.timestamp()).into();
        }
        let mark = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
        let (name, api_version) = match self.form {
            ObjectForm::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            _ => (kind.kind.as_str(), kind.api_version.as_str()),
        };
        let object = if kind.is_custom() && self.form != ObjectForm::Metadata {
            let mark = if initial_end { format!("{mark},") } else { String::new() };
            format!(
                r#"{{"apiVersion":"{api_version}","kind":"{name}","metadata":{{{mark}"resourceVersion":"{version}"}}}}"#
            )
        } else {
            let mark = if initial_end { format!(",{mark}") } else { String::new() };
            let rest = if self.form == ObjectForm::Metadata { "" } else { kind.bookmark };
            format!(
                r#"{{"kind":"{name}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"{mark}}}{rest}}}"#
            )
        };
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }
}
