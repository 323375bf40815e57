//! Watches: where they start, and the driver that pulls from the history.
//!
//! # Invariants
//!
//! 1. A stream delivers the events after its cursor as a consecutive prefix; it may end but never skips.
//! 2. A bookmark of version X follows every event up to X that the stream has to deliver.
//! 3. A watcher holds at most [`BATCH_MAX`] references to events, and lines of at most [`BATCH_BYTES_MAX`] and one more, whatever its
//!    reader does: what it has not pulled stays in the shared history, and one that falls behind that ends.
//!
//! # Shutdown
//!
//! A stream ends at its deadline, when its kind is disconnected, or when its reader drops it.

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
use crate::http::table::TableForm;
use crate::http::{Frontend, ListOptions, framed};
use crate::model::error::ApiError;
use crate::model::metadata::parse_version;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::{Ended, Event, EventType, Form, OrderedMap, Pulled, Stored};

/// What happens to a watcher that falls behind the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lagging {
    /// Its stream ends properly, and the watch that follows gets the 410: as upstream.
    #[default]
    Ended,
    /// It gets the 410 as its last event.
    Expired,
}

/// Events pulled at a time: bounds what a stalled reader holds.
const BATCH_MAX: usize = 256;
/// Bytes of lines pulled at a time, for kinds of large objects: what a connection sends at once.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Time between two bookmarks, as upstream.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long before the deadline the last bookmark is sent, as upstream.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Where the client names no timeout, upstream draws one from this many seconds.
const DEFAULT_TIMEOUT_SECONDS: std::ops::Range<u64> = 1800..3600;

/// One piece of a watch stream.
#[derive(Debug)]
pub(crate) enum Item {
    /// An event; or, where nobody tells them apart, many initial ones.
    Event(Bytes),
    Bookmark(Bytes),
    /// The bookmark that ends the initial events.
    InitialEnd(Bytes),
    /// The ERROR event; nothing follows it.
    Error(Bytes),
}

/// A running watch.
pub(crate) struct WatchDriver {
    shared: Arc<Frontend>,
    resource: Arc<Resource>,
    filter: Filter,
    form: Form,
    table: Option<Rows>,
    /// Events are frames of protobuf.
    protobuf: bool,
    /// Everything up to here is delivered or in `queue`.
    cursor: u64,
    /// Up to where the last pull found everything, until something may have changed.
    complete: Option<u64>,
    epoch: u64,
    changed: watch::Receiver<()>,
    initial: Option<Initial>,
    queue: VecDeque<Bytes>,
    deadline: Duration,
    next_bookmark: Option<Duration>,
    /// The sleep until some time, kept from one change to the next: a timer costs more than an event.
    sleep: Option<(Duration, Sleep)>,
    /// May many initial events be one item?
    pub(crate) coalesce: bool,
    error: Option<ApiError>,
    ended: bool,
}

/// The snapshot of a streaming list, as far as it is yet to be sent.
struct Initial {
    items: std::vec::IntoIter<Arc<Stored>>,
    version: u64,
    bookmark: bool,
}

/// How a watch writes tables.
struct Rows {
    form: TableForm,
    /// The columns are told once.
    defined: bool,
}

impl Rows {
    fn line(&mut self, shared: &Frontend, resource: &Resource, event: (EventType, &Stored, u64)) -> Bytes {
        let first = !std::mem::replace(&mut self.defined, true);
        self.form.line(&resource.kind, event, first, shared.clock.timestamp()).into()
    }
}

/// Refuses a watch of a version in which the objects cannot be had.
async fn driver_can_show(shared: &Frontend, request: &WatchRequest<'_>) -> Result<(), ApiError> {
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

/// What a watch request asks for.
pub(crate) struct WatchRequest<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) filter: Filter,
    pub(crate) form: Form,
    /// As a table, where that is wanted.
    pub(crate) table: Option<TableForm>,
    /// Events as frames of protobuf; what is none, as bookmarks, is JSON still.
    pub(crate) protobuf: bool,
    pub(crate) options: &'a ListOptions,
    /// Fault: repeat the last so many versions.
    pub(crate) rewind: u64,
    pub(crate) ignore_initial: bool,
}

impl WatchDriver {
    /// Starts a watch. Waits where a streaming list asks for a version that is yet to come.
    pub(crate) async fn start(shared: &Arc<Frontend>, request: WatchRequest<'_>) -> Result<Self, ApiError> {
        let mut options = request.options.clone();
        if request.ignore_initial {
            options.initial_events = None;
            options.matching = String::new();
        } else {
            options.rewrite_legacy_watch();
        }
        options.check_watch()?;
        let asked = parse_version(&options.version).map_err(|text| ApiError::new(500, "", text))?;
        let wants_initial = options.initial_events == Some(true);
        let mut error = None;
        if wants_initial && let Some(version) = asked {
            error = shared.reach(version).await.err();
        }
        driver_can_show(shared, &request).await?;
        let mut driver = Self::at_now(shared, &request, &options);
        match asked {
            _ if error.is_some() => driver.error = error,
            _ if wants_initial => driver.load_initial(request.rewind, options.bookmarks).await?,
            Some(version) if version > 0 => driver.resume(version, request.rewind),
            _ => {}
        }
        Ok(driver)
    }

    /// Ends the stream with an error as its next and last event.
    pub(crate) fn fail(&mut self, error: ApiError) {
        self.error = Some(error);
    }

    /// The clock of the server.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Ends the stream properly so long from now, or before.
    pub(crate) fn end_within(&mut self, lifetime: Duration) {
        self.deadline = self.deadline.min(self.shared.clock.elapsed() + lifetime);
    }

    /// Brings the initial events out of their order.
    pub(crate) fn shuffle_initial(&mut self, seed: u64) {
        if let Some(initial) = &mut self.initial {
            initial.items.as_mut_slice().shuffle(&mut StdRng::seed_from_u64(seed));
        }
    }

    fn at_now(shared: &Arc<Frontend>, request: &WatchRequest<'_>, options: &ListOptions) -> Self {
        let now = shared.clock.elapsed();
        let drawn = || Duration::from_secs(rand::rng().random_range(DEFAULT_TIMEOUT_SECONDS));
        let deadline = now + options.timeout.unwrap_or_else(drawn);
        // Subscribed before the state is read, so that no change falls between the two.
        let changed = request.resource.changed.subscribe();
        let storage = shared.storage.read();
        let mut driver = Self {
            shared: Arc::clone(shared),
            resource: Arc::clone(request.resource),
            filter: request.filter.clone(),
            form: request.form,
            table: request.table.map(|form| Rows { form, defined: false }),
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
        self.initial = Some(Initial { items: items.into_iter(), version, bookmark });
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

    /// The next piece; `None` at the end. Dropping the future loses nothing.
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
            // After most events there is nothing more, and nobody has to look.
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
                let event = (EventType::Added, &*stored, stored.version);
                lines.put_slice(&rows.line(&self.shared, &self.resource, event));
                break;
            }
            match self.protobuf.then(|| stored.frame(EventType::Added, self.shared.wiring())).flatten() {
                Some(frame) => lines.put_slice(&frame),
                None => {
                    lines.put_slice(EventType::Added.head());
                    stored.write(self.form, &mut lines);
                    lines.put_slice(b"}\n");
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

    /// Pulls events into the queue. `Some(version)` where there are none and the stream is complete up to there.
    fn pull(&mut self, max: usize) -> Result<Option<u64>, Ended> {
        let pulled = self.shared.storage.read().pull(self.resource.table, self.cursor, self.epoch, max)?;
        let Pulled { events, version, complete } = pulled;
        let none = events.is_empty();
        let mut bytes = 0;
        for event in events {
            if bytes > BATCH_BYTES_MAX {
                // The rest is pulled again, from where this ends.
                return Ok(None);
            }
            let (at, Some(event)) = (event.version, self.presented(event)) else {
                // What was converted is forgotten already: whoever watches on gets it.
                self.ended = true;
                break;
            };
            self.cursor = self.cursor.max(at);
            let event = &*event;
            if let Some(kind) = self.view(event) {
                let line = match (&mut self.table, event.shown(kind)) {
                    (Some(rows), Some((stored, version))) => {
                        rows.line(&self.shared, &self.resource, (kind, stored, version))
                    }
                    _ if self.protobuf => event
                        .frame(kind, self.shared.wiring())
                        .unwrap_or_else(|| framed(&self.shared.schema, &event.line(kind, self.form))),
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

    /// The event in the version that is watched.
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

    /// Asks for what is to come in the version that is watched; answers how many events can be had. Where the next one cannot,
    /// the stream ends as upstream, and the watch that follows is told why. Dropping the future loses nothing, since nothing is
    /// taken.
    async fn convert(&mut self) -> usize {
        if self.resource.converter.is_none() {
            return BATCH_MAX;
        }
        let pulled = self.shared.storage.read().pull(self.resource.table, self.cursor, self.epoch, BATCH_MAX);
        let Ok(Pulled { events, .. }) = pulled else { return BATCH_MAX };
        let states =
            |event: &Arc<Event>| [&event.previous, &event.next].into_iter().flatten().cloned().collect();
        let all: Vec<Arc<Stored>> = events.iter().flat_map(|event| -> Vec<_> { states(event) }).collect();
        if self.shared.presented(&self.resource, &all, EventType::Modified).await.is_ok() {
            return BATCH_MAX;
        }
        for (index, event) in events.iter().enumerate() {
            let both: Vec<_> = states(event);
            if self.shared.presented(&self.resource, &both, EventType::Modified).await.is_err() {
                return index;
            }
        }
        events.len()
    }

    /// How this stream sees an event: objects enter and leave its selectors.
    fn view(&self, event: &Event) -> Option<EventType> {
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

    /// Waits for a change, the next bookmark or the end.
    async fn wait(&mut self, version: u64) -> Option<Item> {
        let expiry = self.shared.next_expiry(&self.resource);
        let until = [self.next_bookmark, expiry].into_iter().flatten().fold(self.deadline, Duration::min);
        let clock = &self.shared.clock;
        let (_, sleep) = match self.sleep.take_if(|(at, _)| *at == until) {
            Some(kept) => self.sleep.insert(kept),
            None => self.sleep.insert((until, clock.sleep_until(until))),
        };
        tokio::select! {
            // Changes first: a bookmark that is due must not overtake them.
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
        // Before the version that the watch began at, there is nothing to confirm.
        (version >= self.cursor).then(|| Item::Bookmark(self.bookmark(version, false)))
    }

    fn bookmark(&self, version: u64, initial_end: bool) -> Bytes {
        let kind = &self.resource.kind;
        if let Some(rows) = &self.table {
            return rows.form.bookmark(kind, version, initial_end, self.shared.clock.timestamp()).into();
        }
        let mark = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
        let (name, api_version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            _ => (kind.kind.as_str(), kind.api_version.as_str()),
        };
        let object = if kind.is_custom() && self.form != Form::Metadata {
            let mark = if initial_end { format!("{mark},") } else { String::new() };
            format!(
                r#"{{"apiVersion":"{api_version}","kind":"{name}","metadata":{{{mark}"resourceVersion":"{version}"}}}}"#
            )
        } else {
            let mark = if initial_end { format!(",{mark}") } else { String::new() };
            let rest = if self.form == Form::Metadata { "" } else { kind.bookmark };
            format!(
                r#"{{"kind":"{name}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"{mark}}}{rest}}}"#
            )
        };
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }
}
