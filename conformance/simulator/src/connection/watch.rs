use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_cache::Undecodable;
use informer_cache::source::{ServerStatus, SourceErrorKind, WatchEvent};
use informer_core::ResourceVersion;

use super::list::undecodable;
use super::{Network, Open, Peer, Read, Response, failure, number};
use crate::fault::Fault;
use crate::object::SimObject;
use crate::server::Happened;

pub(crate) struct WatchAsk<'a> {
    pub(crate) version: &'a ResourceVersion,
    pub(crate) send_initial_events: bool,
    pub(crate) timeout: Duration,
}

pub(crate) struct WatchBody {
    replica: usize,
    /// Events that precede the changes: the initial events of a streaming list, or an error.
    initial: VecDeque<WatchEvent<SimObject>>,
    /// The version from which the watch was requested, or the version of its initial state. Changes up to
    /// this version are never sent.
    start: u64,
    /// The version of the last change that the watch has sent.
    position: u64,
    next_bookmark: Instant,
    closes_at: Instant,
    /// True if the watch will send neither an event nor its end.
    stalled: bool,
    close_at_once: bool,
    twice: bool,
    swap: bool,
    /// The most recently sent events, which a fault may send again.
    recent: VecDeque<WatchEvent<SimObject>>,
    pub(crate) delivered: bool,
    pub(crate) opened: Instant,
}

const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

const MAX_READ: usize = 5;

const MAX_RECENT: usize = 4;

impl Network {
    pub(crate) fn watch(&mut self, ask: &WatchAsk<'_>, peer: &mut Peer<'_>) -> Response {
        if let Some(response) = self.refuse(peer) {
            return response;
        }
        let plain = !ask.send_initial_events;
        if self.take(|fault| plain && fault == Fault::EncodingRefused, peer).is_some() {
            return Response::Failed(failure(SourceErrorKind::EncodingChanged));
        }
        let replica = peer.random.below(peer.server.replicas());
        let closed = ask.send_initial_events && self.close_at_once == 0;
        let fits = |fault| closed && matches!(fault, Fault::StreamingRefused | Fault::StreamingIgnored);
        let fault = self.take(fits, peer);
        let refused = ask.send_initial_events && (!self.streaming || fault == Some(Fault::StreamingRefused));
        if refused {
            self.hits += 1;
            return Response::Failed(failure(SourceErrorKind::Rejected));
        }
        let streaming = ask.send_initial_events && fault != Some(Fault::StreamingIgnored);
        let body = WatchBody::new(replica, number(ask.version), ask.timeout, peer.now);
        let mut body = match self.begin(body, ask, streaming, peer) {
            Ok(body) => body,
            Err(kind) => {
                self.hits += 1;
                return Response::Failed(failure(kind));
            }
        };
        if self.close_at_once > 0 {
            self.close_at_once -= 1;
            self.hit(Fault::ClosedAtOnce, peer);
            body.close_at_once = true;
        }
        Response::Open(Open::Watch(body))
    }

    fn begin(
        &mut self,
        mut body: WatchBody,
        ask: &WatchAsk<'_>,
        streaming: bool,
        peer: &mut Peer<'_>,
    ) -> Result<WatchBody, SourceErrorKind> {
        let server = peer.server;
        let at = server.at(body.replica);
        let any = ask.version.is_empty() || ask.version.is_any();
        if streaming || any {
            if !any && at < body.start {
                return Err(SourceErrorKind::VersionTooLarge);
            }
            // A watch request without a version is a consistent read. It starts from the current version of
            // the server even if the replica lags.
            let version = if ask.version.is_empty() { server.version } else { at };
            self.snapshot(&mut body, version, streaming, peer)?;
        } else if body.start < server.compacted {
            let either = peer.random.one_in(2);
            if self.expired_by_status.unwrap_or(either) {
                return Err(SourceErrorKind::Expired);
            }
            body.initial.push_back(error_event(410, "Expired"));
            self.hits += 1;
        }
        Ok(body)
    }

    /// Returns the objects as of a version, as the initial events of a streaming list.
    fn snapshot(
        &mut self,
        body: &mut WatchBody,
        version: u64,
        streaming: bool,
        peer: &mut Peer<'_>,
    ) -> Result<(), SourceErrorKind> {
        // The initial state may be older than the requested version. The changes in between precede the event
        // that ends the initial events.
        let history = peer.server.history.iter().filter(|happened| happened.version <= version);
        let since = history.clone().count();
        let skipped = if streaming && peer.random.one_in(3) { peer.random.below(since + 1) } else { since };
        let from = history.clone().map(|happened| happened.version).take(skipped).last();
        let from = if skipped == since { version } else { from.unwrap_or(peer.server.compacted) };
        let content = peer.server.content_at(from).ok_or(SourceErrorKind::Expired)?;
        (body.start, body.position) = (version, version);
        let shown = |object: &&Arc<SimObject>| object.in_view || !self.selector;
        body.initial = content.iter().flatten().filter(shown).map(|object| put(object, true)).collect();
        body.initial.extend(history.skip(skipped).filter_map(|happened| event_of(happened, self.selector)));
        if streaming {
            let fault = self.take(|fault| matches!(fault, Fault::NoEndMark | Fault::EndMarkTwice), peer);
            let end = || WatchEvent::Bookmark { version: version.into(), initial_events_end: true };
            let marks = match fault {
                Some(Fault::NoEndMark) => 0,
                Some(_) => 2,
                None => 1,
            };
            body.initial.extend((0..marks).map(|_| end()));
        }
        Ok(())
    }

    pub(super) fn read_watch(&mut self, body: &mut WatchBody, peer: &mut Peer<'_>) -> Read {
        if body.stalled {
            return Read::Nothing;
        }
        if body.close_at_once {
            return Read::Ended;
        }
        if let Some(fault) = self.stream.pop_front() {
            self.hit(fault, peer);
            if let Some(read) = body.suffer(fault, peer) {
                return read;
            }
        }
        if body.position < peer.server.forgotten && body.initial.is_empty() {
            // The watch was too slow: events that it has not sent yet were removed from the history.
            self.hits += 1;
            return if peer.random.one_in(2) {
                Read::Ended
            } else {
                Read::Events(vec![error_event(410, "Expired")])
            };
        }
        let events = body.events(self.selector, peer);
        if !events.is_empty() {
            return Read::Events(events);
        }
        if peer.now >= body.next_bookmark {
            body.next_bookmark = peer.now + BOOKMARK_PERIOD;
            let at = peer.server.at(body.replica);
            if self.bookmarks && (at > body.start && at >= body.position || self.frank) {
                body.position = body.position.max(at);
                return Read::Events(vec![bookmark(at)]);
            }
        }
        if peer.now >= body.closes_at { Read::Ended } else { Read::Nothing }
    }
}

impl WatchBody {
    fn new(replica: usize, start: u64, timeout: Duration, now: Instant) -> Self {
        Self {
            replica,
            initial: VecDeque::new(),
            start,
            position: start,
            next_bookmark: now + BOOKMARK_PERIOD,
            closes_at: now + timeout,
            stalled: false,
            close_at_once: false,
            twice: false,
            swap: false,
            recent: VecDeque::new(),
            delivered: false,
            opened: now,
        }
    }

    pub(super) fn wakes_at(&self, bookmarks: bool) -> Option<Instant> {
        let wakes = if bookmarks { self.next_bookmark.min(self.closes_at) } else { self.closes_at };
        (!self.stalled).then_some(wakes)
    }

    /// Applies a fault to the watch. Returns what the client reads; `None` if the watch continues.
    fn suffer(&mut self, fault: Fault, peer: &mut Peer<'_>) -> Option<Read> {
        let events = match fault {
            Fault::Closed => return Some(Read::Ended),
            Fault::Reset => return Some(Read::Failed(failure(SourceErrorKind::Connection))),
            Fault::Garbage => return Some(Read::Failed(failure(SourceErrorKind::Protocol))),
            Fault::EncodingChanged => {
                return Some(Read::Failed(failure(SourceErrorKind::EncodingChanged)));
            }
            Fault::Stall => {
                self.stalled = true;
                return Some(Read::Nothing);
            }
            Fault::EventTwice | Fault::EventsSwapped => {
                (self.twice, self.swap) = (fault == Fault::EventTwice, fault == Fault::EventsSwapped);
                return None;
            }
            Fault::EventsReplayed => self.recent.iter().cloned().collect(),
            Fault::ExpiredEvent => vec![error_event(410, "Expired")],
            Fault::ErrorEvent => vec![error_event(500, "InternalError")],
            Fault::TooManyEvent => vec![error_event(429, "TooManyRequests")],
            Fault::BareErrorEvent => vec![error_event(0, peer.random.pick(&["", "Gone"]))],
            Fault::UnknownEvent => {
                let version = self.position.into();
                vec![WatchEvent::Unknown { event_type: "FROBNICATED".to_owned(), version }]
            }
            Fault::Nameless => {
                vec![WatchEvent::Undecodable(Undecodable::new(None, "undecodable in this simulation"))]
            }
            Fault::BookmarkTwice if self.position > self.start => {
                vec![bookmark(self.position), bookmark(self.position)]
            }
            Fault::BookmarkOld => vec![bookmark(self.position.saturating_sub(7).max(1))],
            _ => Vec::new(),
        };
        (!events.is_empty()).then_some(Read::Events(events))
    }

    /// Returns the events that the watch can send now, or, at random, only the first of them.
    fn events(&mut self, selector: bool, peer: &mut Peer<'_>) -> Vec<WatchEvent<SimObject>> {
        let room = 1 + peer.random.below(MAX_READ);
        if !self.initial.is_empty() {
            self.delivered = true;
            let count = self.initial.len().min(room);
            let events: Vec<_> = self.initial.drain(..count).collect();
            // Changes may arrive together with the last of the initial events, unless the watch has already
            // missed a change.
            let late = self.position < peer.server.forgotten;
            if late || !self.initial.is_empty() || peer.random.one_in(2) {
                return events;
            }
            return self.live(events, room, selector, peer);
        }
        self.live(Vec::new(), room, selector, peer)
    }

    fn live(
        &mut self,
        mut events: Vec<WatchEvent<SimObject>>,
        room: usize,
        selector: bool,
        peer: &mut Peer<'_>,
    ) -> Vec<WatchEvent<SimObject>> {
        let (at, initial) = (peer.server.at(self.replica), events.len());
        while events.len() < room
            && let Some(happened) = peer.server.after(self.position).filter(|next| next.version <= at)
        {
            self.position = happened.version;
            events.extend(event_of(happened, selector));
        }
        if events.len() == initial {
            return events;
        }
        self.delivered = true;
        if initial > 0 {
            return events;
        }
        // A deletion event for an undecodable object has no version that could be compared with a later
        // state.
        let read = |event: &WatchEvent<SimObject>| !matches!(event, WatchEvent::DeletedUndecodable(_));
        if std::mem::take(&mut self.twice) {
            let last = events[events.len() - 1].clone();
            events.push(last);
        }
        if self.swap && events.len() > 1 && events.iter().all(read) {
            self.swap = false;
            let last = events.len() - 1;
            events.swap(last - 1, last);
        }
        self.recent.extend(events.iter().filter(|event| read(event)).cloned());
        let surplus = self.recent.len().saturating_sub(MAX_RECENT);
        self.recent.drain(..surplus);
        events
    }

    pub(crate) fn is_drained(&self, selector: bool, peer: &Peer<'_>) -> bool {
        let shown = |happened: &Happened| {
            let seen =
                |object: &Option<Arc<SimObject>>| object.as_ref().is_some_and(|it| it.in_view || !selector);
            happened.version > self.position && (seen(&happened.old) || seen(&happened.new))
        };
        !self.stalled && self.initial.is_empty() && !peer.server.history.iter().any(shown)
    }

    /// Returns true if the watch started from a version that the server has not reached, so that no event can
    /// arrive.
    pub(crate) fn is_ahead(&self, peer: &Peer<'_>) -> bool {
        self.start > peer.server.version
    }
}

/// Returns the event with which a watch reports a change. With a selector, a change may make the object
/// appear or disappear.
fn event_of(happened: &Happened, selector: bool) -> Option<WatchEvent<SimObject>> {
    let seen = |object: &&Arc<SimObject>| object.in_view || !selector;
    let old = happened.old.as_ref().filter(seen);
    let new = happened.new.as_ref().filter(seen);
    match (old, new) {
        (None, None) => None,
        (old, Some(new)) => Some(put(new, old.is_none())),
        (Some(old), None) => {
            let last = old.deleted_at(happened.version);
            Some(if last.readable {
                WatchEvent::Deleted(Arc::new(last))
            } else {
                WatchEvent::DeletedUndecodable(undecodable(&last))
            })
        }
    }
}

fn put(object: &Arc<SimObject>, added: bool) -> WatchEvent<SimObject> {
    match (object.readable, added) {
        (false, _) => WatchEvent::Undecodable(undecodable(object)),
        (true, true) => WatchEvent::Added(Arc::clone(object)),
        (true, false) => WatchEvent::Modified(Arc::clone(object)),
    }
}

fn bookmark(version: u64) -> WatchEvent<SimObject> {
    WatchEvent::Bookmark { version: version.into(), initial_events_end: false }
}

fn error_event(code: u16, reason: &str) -> WatchEvent<SimObject> {
    WatchEvent::Error(ServerStatus { code, reason: reason.to_owned(), ..ServerStatus::default() })
}
