//! The single simulated connection between the reflector and the server, and its faults.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use informer_cache::UndecodableLog;
use informer_cache::proto::{Input, ListPlan, WatchPlan};
use informer_cache::source::{
    KnownObjects, ListEnd, ListPart, Listed, ServerStatus, SourceContext, SourceErrorKind, WatchEvent,
};
use informer_cache::testing::{TestObject, bookmark, error_event, failure, initial_events_end};
use informer_core::{Object, ResourceVersion};
use informer_store::Indexer;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::server::{Content, Server};

type In = Input<TestObject>;

/// The probabilities of faults, and the features of the simulated server. In the final phase of a run, all
/// probabilities are zero and `endless` is false, so that the informer must catch up with the server.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    /// The probability per step that a request is rejected or a stream is cut.
    pub(crate) rate: f64,
    pub(crate) streaming: bool,
    /// True if the server never sends the final bookmark of a streaming list.
    pub(crate) endless: bool,
    /// The probability that a written object is undecodable.
    pub(crate) unreadable: f64,
}

pub(crate) enum Open {
    Nothing,
    List(VecDeque<ListPart<TestObject>>),
    Watch(Watch),
}

pub(crate) struct Watch {
    /// The initial events of a streaming list, which are sent before events of the history.
    initial: VecDeque<WatchEvent<TestObject>>,
    /// The resourceVersion of the last event that was sent on the connection.
    pub(crate) position: u64,
    /// The resourceVersion of the last bookmark that was sent on the connection. Another bookmark is sent
    /// only for a newer version.
    marked: u64,
    closes_at: Instant,
    /// True if the watch sends no more events and never ends, like a connection that broke without notice.
    /// The reflector can detect this only by a timeout.
    stalled: bool,
}

const PAGE: usize = 3;

fn number(version: &ResourceVersion) -> u64 {
    version.as_u64().unwrap_or_default()
}

pub(crate) fn list(
    plan: &ListPlan,
    server: &Server,
    held: &Indexer<TestObject>,
    (faults, rng): (Faults, &mut StdRng),
) -> Result<Open, In> {
    if rng.random_bool(faults.rate) {
        return Err(Input::Failed(failure(refusal(rng))));
    }
    if plan.continue_token.is_some() && rng.random_bool(faults.rate) {
        return Err(Input::Failed(failure(SourceErrorKind::Expired)));
    }
    if number(&plan.version) > server.now.version {
        return Err(Input::Failed(failure(SourceErrorKind::VersionTooLarge)));
    }
    let content = match (&plan.continue_token, plan.version.is_empty()) {
        (Some(token), _) => match server.content_at(token_parts(token).0) {
            Some(content) => content,
            None => return Err(Input::Failed(failure(SourceErrorKind::Expired))),
        },
        (None, true) => server.now.clone(),
        (None, false) => server.any_content(number(&plan.version), rng),
    };
    Ok(Open::List(parts(plan, &content, held, rng)))
}

/// Splits a continue token of the simulated server into the version of the list and the last key of the
/// previous page.
fn token_parts(token: &str) -> (u64, &str) {
    let (version, key) = token.split_once(' ').expect("every token is created here");
    (version.parse().expect("a token begins with a version"), key)
}

fn parts(
    plan: &ListPlan,
    content: &Content,
    held: &Indexer<TestObject>,
    rng: &mut StdRng,
) -> VecDeque<ListPart<TestObject>> {
    let known: Option<std::sync::Arc<dyn KnownObjects<TestObject>>> =
        if plan.use_known { Some(std::sync::Arc::new(held.clone())) } else { None };
    let context = SourceContext::new(known, UndecodableLog::default());
    let after = plan.continue_token.as_deref().map_or("", |token| token_parts(token).1);
    let limit = plan.limit.map_or(usize::MAX, |_| PAGE);
    let mut rest = content.objects.iter().filter(|(key, _)| key.as_str() > after).peekable();
    let (mut parts, mut last) = (VecDeque::new(), String::new());
    for (key, state) in rest.by_ref().take(limit) {
        let (object, version) = (&state.object, state.object.resource_version());
        parts.push_back(match (state.readable, context.unchanged(key, object.uid(), version)) {
            (_, Some(known)) if rng.random_bool(0.9) => ListPart::Items(vec![Listed::Known(known)]),
            (true, _) => ListPart::Items(vec![Listed::Fresh(std::sync::Arc::clone(object))]),
            (false, _) => ListPart::Undecodable(state.undecodable()),
        });
        last.clone_from(key);
    }
    let continue_token = rest.peek().map(|_| format!("{} {last}", content.version));
    let end = ListEnd { version: content.version.into(), continue_token, remaining: None };
    parts.push_back(ListPart::End(end));
    parts
}

pub(crate) fn watch(
    plan: &WatchPlan,
    server: &Server,
    now: Instant,
    (faults, rng): (Faults, &mut StdRng),
) -> Result<Open, In> {
    if rng.random_bool(faults.rate) {
        return Err(Input::Failed(failure(refusal(rng))));
    }
    if plan.send_initial_events && !faults.streaming {
        return Err(Input::Failed(failure(SourceErrorKind::Rejected)));
    }
    let from = number(&plan.version);
    if from > server.now.version {
        return Err(Input::Failed(failure(SourceErrorKind::VersionTooLarge)));
    }
    let mut watch = Watch {
        initial: VecDeque::new(),
        position: from,
        marked: from,
        closes_at: now + plan.timeout.min(Duration::from_secs(3600)),
        stalled: rng.random_bool(faults.rate / 2.0),
    };
    if plan.send_initial_events {
        let content = &server.now;
        watch.position = content.version;
        for state in content.objects.values() {
            watch.initial.push_back(if state.readable {
                WatchEvent::Added(std::sync::Arc::clone(&state.object))
            } else {
                WatchEvent::Undecodable(state.undecodable())
            });
        }
        if !faults.endless {
            watch.initial.push_back(initial_events_end(content.version));
        }
    } else if from < server.compacted {
        // The error that the version has expired is sent as an HTTP status or as an event, each half of the
        // time.
        if rng.random_bool(0.5) {
            return Err(Input::Failed(failure(SourceErrorKind::Expired)));
        }
        watch.initial.push_back(error_event(410, "Expired"));
    }
    Ok(Open::Watch(watch))
}

fn refusal(rng: &mut StdRng) -> SourceErrorKind {
    const KINDS: [SourceErrorKind; 7] = [
        SourceErrorKind::TooManyRequests,
        SourceErrorKind::Unavailable,
        SourceErrorKind::ConnectionRefused,
        SourceErrorKind::Connection,
        SourceErrorKind::Timeout,
        SourceErrorKind::Forbidden,
        SourceErrorKind::Expired,
    ];
    KINDS[rng.random_range(0..KINDS.len())]
}

impl Open {
    /// Returns the next input that the reflector can read from its open request; `None` if no data is
    /// available. With a small probability, the connection breaks instead.
    pub(crate) fn read(
        &mut self,
        server: &Server,
        now: Instant,
        (faults, rng): (Faults, &mut StdRng),
    ) -> Option<In> {
        if !matches!(self, Self::Nothing) && rng.random_bool(faults.rate / 4.0) {
            return Some(cut(rng));
        }
        match self {
            Self::Nothing => Some(Input::Ended),
            Self::List(parts) => Some(parts.pop_front().map_or(Input::Ended, Input::Part)),
            Self::Watch(watch) => watch.read(server, now, (faults, rng)),
        }
    }
}

fn cut(rng: &mut StdRng) -> In {
    match rng.random_range(0..4) {
        0 => Input::Failed(failure(SourceErrorKind::Connection)),
        1 => Input::Events(vec![error_event(410, "Expired")]),
        2 => Input::Events(vec![WatchEvent::Error(ServerStatus { code: 500, ..ServerStatus::default() })]),
        _ => Input::Ended,
    }
}

impl Watch {
    fn read(&mut self, server: &Server, now: Instant, (faults, rng): (Faults, &mut StdRng)) -> Option<In> {
        if self.stalled {
            return None;
        }
        if self.position < server.compacted && self.initial.is_empty() {
            return Some(Input::Events(vec![error_event(410, "Expired")]));
        }
        let room = rng.random_range(1..6);
        let mut events: Vec<_> = self.initial.drain(..self.initial.len().min(room)).collect();
        while self.initial.is_empty()
            && self.position >= server.compacted
            && events.len() < room
            && let Some(happened) = server.after(self.position)
        {
            self.position = happened.version;
            events.push(happened.event());
        }
        // If the next event was removed from the history before it was sent, the watch expires. Such a watch
        // is not idle, since its error can still be read.
        let current = self.position >= server.compacted && server.after(self.position).is_none();
        let quiet = self.initial.is_empty() && current;
        if quiet
            && self.marked < self.position.max(server.now.version)
            && !faults.endless
            && rng.random_bool(0.3)
        {
            self.position = self.position.max(server.now.version);
            self.marked = self.position;
            events.push(bookmark(self.position));
        }
        match events.is_empty() {
            false => Some(Input::Events(events)),
            true if now >= self.closes_at => Some(Input::Ended),
            true => None,
        }
    }

    pub(crate) fn is_drained(&self, server: &Server) -> bool {
        !self.stalled && self.initial.is_empty() && server.after(self.position).is_none()
    }
}
