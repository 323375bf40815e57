//! The network between the client and the server: requests, responses, and faults of requests and responses.

mod list;
mod watch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use informer_cache::source::{ListPart, SourceError, SourceErrorKind, WatchEvent};
use informer_core::ResourceVersion;

pub(crate) use self::list::ListAsk;
pub(crate) use self::watch::{WatchAsk, WatchBody};
use crate::coverage::Coverage;
use crate::fault::Fault;
use crate::object::SimObject;
use crate::random::Random;
use crate::script::Setup;
use crate::server::Server;

pub(crate) enum Response {
    Failed(SourceError),
    Hangs,
    Open(Open),
}

pub(crate) enum Open {
    Nothing,
    List(ListBody),
    Watch(WatchBody),
    /// The server closed the connection, but the client has not noticed that yet.
    Broken,
}

pub(crate) struct ListBody {
    parts: VecDeque<ListPart<SimObject>>,
    end: ListTail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListTail {
    Ends,
    Breaks,
    Stalls,
}

pub(crate) enum Read {
    Nothing,
    Part(ListPart<SimObject>),
    Events(Vec<WatchEvent<SimObject>>),
    Ended,
    Failed(SourceError),
}

pub(crate) struct Peer<'a> {
    pub(crate) server: &'a Server,
    pub(crate) now: Instant,
    pub(crate) random: &'a mut Random,
    pub(crate) coverage: &'a mut Coverage,
}

pub(crate) struct Network {
    pub(crate) streaming: bool,
    pub(crate) bookmarks: bool,
    /// True if bookmarks report the current version of the server, even if the watch started from a later
    /// version.
    frank: bool,
    pub(crate) selector: bool,
    /// How the server reports an expired version: by the response status if true, by an error event if false,
    /// and in either way if `None`.
    pub(crate) expired_by_status: Option<bool>,
    /// Faults that the next matching request will have.
    armed: Vec<Fault>,
    /// Faults that the next open watch will have.
    stream: VecDeque<Fault>,
    close_at_once: u32,
    pub(crate) hits: u64,
}

impl Network {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            streaming: setup.streaming == 1,
            bookmarks: setup.bookmarks > 0,
            frank: setup.bookmarks == 3,
            selector: setup.selector == 2,
            expired_by_status: None,
            armed: Vec::new(),
            stream: VecDeque::new(),
            close_at_once: 0,
            hits: 0,
        }
    }

    pub(crate) fn arm(&mut self, fault: Fault, random: &mut Random) {
        match fault {
            Fault::ClosedAtOnce => self.close_at_once = 1 + random.below(7) as u32,
            fault if fault.is_of_request() => self.armed.push(fault),
            fault => self.stream.push_back(fault),
        }
    }

    pub(crate) fn heal(&mut self) {
        self.armed.clear();
        self.stream.clear();
        self.close_at_once = 0;
    }

    fn hit(&mut self, fault: Fault, peer: &mut Peer<'_>) {
        self.hits += 1;
        peer.coverage.hit(fault);
    }

    /// Removes and returns the first pending request fault for which `fits` is true.
    fn take(&mut self, fits: impl Fn(Fault) -> bool, peer: &mut Peer<'_>) -> Option<Fault> {
        let index = self.armed.iter().position(|fault| fits(*fault))?;
        let fault = self.armed.remove(index);
        self.hit(fault, peer);
        Some(fault)
    }

    /// Applies a pending fault that is possible for every kind of request, and returns the resulting
    /// response.
    fn refuse(&mut self, peer: &mut Peer<'_>) -> Option<Response> {
        if peer.server.down_until.is_some_and(|until| peer.now < until) {
            self.hit(Fault::Down, peer);
            return Some(Response::Failed(failure(SourceErrorKind::ConnectionRefused)));
        }
        let fault = self.take(|fault| fault as usize <= Fault::NoResponse as usize, peer)?;
        Some(match fault {
            Fault::NoResponse => Response::Hangs,
            Fault::TooMany => Response::Failed(too_many(peer.random)),
            fault => Response::Failed(failure(refusal(fault))),
        })
    }

    pub(crate) fn read(&mut self, open: &mut Open, peer: &mut Peer<'_>) -> Read {
        match open {
            Open::Nothing => Read::Ended,
            Open::Broken if peer.random.one_in(2) => Read::Ended,
            Open::Broken => Read::Failed(failure(SourceErrorKind::Connection)),
            Open::List(body) => body.read(),
            Open::Watch(body) => self.read_watch(body, peer),
        }
    }
}

impl ListBody {
    fn read(&mut self) -> Read {
        match (self.parts.pop_front(), self.end) {
            (Some(part), _) => Read::Part(part),
            (None, ListTail::Ends) => Read::Ended,
            (None, ListTail::Breaks) => Read::Failed(failure(SourceErrorKind::Connection)),
            (None, ListTail::Stalls) => Read::Nothing,
        }
    }
}

impl Open {
    /// Returns the time at which the next message can arrive even if no object changes, such as a bookmark.
    pub(crate) fn wakes_at(&self, bookmarks: bool) -> Option<Instant> {
        match self {
            Self::Watch(body) => body.wakes_at(bookmarks),
            _ => None,
        }
    }

    /// Closes the connection, because its server process has ended.
    pub(crate) fn cut(&mut self) {
        if !matches!(self, Self::Nothing) {
            *self = Self::Broken;
        }
    }
}

pub(crate) fn failure(kind: SourceErrorKind) -> SourceError {
    SourceError::new(kind, kind.as_str())
}

fn too_many(random: &mut Random) -> SourceError {
    let after = random.pick(&[None, Some(0), Some(1), Some(30)]).map(Duration::from_secs);
    failure(SourceErrorKind::TooManyRequests).with_retry_after(after)
}

fn refusal(fault: Fault) -> SourceErrorKind {
    match fault {
        Fault::TooMany => SourceErrorKind::TooManyRequests,
        Fault::Unavailable => SourceErrorKind::Unavailable,
        Fault::Refused => SourceErrorKind::ConnectionRefused,
        Fault::ResetRequest => SourceErrorKind::Connection,
        Fault::RequestTimeout => SourceErrorKind::Timeout,
        Fault::Unauthorized => SourceErrorKind::Unauthorized,
        Fault::Forbidden => SourceErrorKind::Forbidden,
        Fault::NotFound => SourceErrorKind::NotFound,
        Fault::Rejected => SourceErrorKind::Rejected,
        Fault::ExpiredStatus => SourceErrorKind::Expired,
        Fault::TooLarge => SourceErrorKind::VersionTooLarge,
        _ => SourceErrorKind::Other,
    }
}

/// Returns a version that the server issued as a number; 0 for an empty version.
fn number(version: &ResourceVersion) -> u64 {
    version.as_u64().unwrap_or_default()
}
