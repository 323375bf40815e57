use std::time::Duration;

use informer_cache::Change;
use informer_cache::proto::{Input, ReflectorAction, ReflectorNotice, Step};
use informer_cache::reflector::ReflectorPhase;
use informer_cache::source::{SourceErrorKind, VersionMatch, WatchEvent};

use super::requests::Kind;
use super::{World, tell};
use crate::check::{Checked, ensure};
use crate::connection::{ListAsk, Open, Peer, Read, Response, WatchAsk};
use crate::coverage::phase;
use crate::object::SimObject;

type In = Input<SimObject>;

/// The time that a watch must last to reset the reflector's backoff.
const LASTED: Duration = Duration::from_secs(1);

impl World {
    /// Runs the current step of the reflector, as the shipped driver does. Returns false if the step has
    /// nothing to do yet.
    pub(super) fn reflect(&mut self) -> Checked<bool> {
        let step = self.reflector.step();
        let input = self.perform_action(&step)?;
        match (input, step.until) {
            (Some(input), _) => self.tell(input)?,
            (None, Some(until)) if until <= self.now => self.tell(Input::Timer)?,
            (None, _) => return Ok(false),
        }
        Ok(true)
    }

    fn perform_action(&mut self, step: &Step) -> Checked<Option<In>> {
        if !matches!(step.action, ReflectorAction::Read) {
            self.open = Open::Nothing;
        }
        match &step.action {
            ReflectorAction::Read => Ok(if self.queue.has_room() { self.read() } else { None }),
            ReflectorAction::List(_) | ReflectorAction::Watch(_)
                if self.hanging.as_ref() == Some(&step.action) =>
            {
                Ok(None)
            }
            ReflectorAction::List(_) | ReflectorAction::Watch(_) => self.send(&step.action),
            _ => {
                self.hanging = None;
                Ok(None)
            }
        }
    }

    fn send(&mut self, action: &ReflectorAction) -> Checked<Option<In>> {
        let peer = &mut Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        let (kind, response) = match action {
            ReflectorAction::List(plan) => {
                let kind = match (&plan.continue_token, plan.version_match) {
                    (Some(_), _) => Kind::Page,
                    (None, VersionMatch::NotOlderThan) => Kind::Check,
                    (None, _) => Kind::List,
                };
                self.requests.sent(kind, self.now)?;
                let known = plan.use_known.then(|| self.store.clone());
                let token = plan.continue_token.as_deref();
                let ask = ListAsk { version: &plan.version, limit: plan.limit, token, known };
                (kind, self.network.list(&ask, peer))
            }
            ReflectorAction::Watch(plan) => {
                let kind = if plan.send_initial_events { Kind::Streaming } else { Kind::Watch };
                self.requests.sent(kind, self.now)?;
                let send_initial_events = plan.send_initial_events;
                let ask = WatchAsk { version: &plan.version, send_initial_events, timeout: plan.timeout };
                (kind, self.network.watch(&ask, peer))
            }
            _ => return Ok(None),
        };
        tell!(self, "request: {action:?}: {}", shown(&response));
        Ok(match response {
            Response::Failed(error) => {
                self.requests.failed(kind, &error, self.now);
                Some(Input::Failed(error))
            }
            Response::Hangs => {
                self.hanging = Some(action.clone());
                None
            }
            Response::Open(open) => {
                self.hanging = None;
                if kind == Kind::Watch {
                    self.requests.worked();
                }
                self.open = open;
                Some(Input::Opened)
            }
        })
    }

    fn read(&mut self) -> Option<In> {
        let peer = &mut Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        let read = self.network.read(&mut self.open, peer);
        let ended = matches!(&read, Read::Ended)
            || matches!(&read, Read::Failed(error) if error.kind() == SourceErrorKind::Connection);
        if ended
            && self.reflector.status().phase == ReflectorPhase::Watching
            && let Open::Watch(body) = &self.open
        {
            let lasted = self.now.saturating_duration_since(body.opened) >= LASTED;
            self.requests.expect_watch |= lasted && body.delivered;
        }
        if let Read::Failed(error) = &read
            && error.kind() == SourceErrorKind::EncodingChanged
        {
            self.requests.failed(Kind::Watch, error, self.now);
        }
        match read {
            Read::Nothing => None,
            Read::Part(part) => Some(Input::Part(part)),
            Read::Events(events) => {
                self.steps += events.len() as u64 - 1;
                Some(Input::Events(events))
            }
            Read::Ended => Some(Input::Ended),
            Read::Failed(error) => Some(Input::Failed(error)),
        }
    }

    /// Passes an input to the reflector's state machine, and carries out the actions that it returns.
    pub(super) fn tell(&mut self, input: In) -> Checked {
        self.steps += 1;
        tell!(self, "reflector: {}", heard(&input));
        let before = self.reflector.status().phase;
        let seen = self.reflector.status().last_version.clone();
        let is_request = matches!(input, Input::RelistRequested);
        self.reflector.set_streaming_supported(self.network.streaming && !self.streaming_failed);
        let effects = self.reflector.handle(input, self.now, &mut self.random);
        if is_request {
            self.requests.expect_watch = false;
        }
        let after = self.reflector.status().phase;
        self.coverage.moved(before, after);
        if before != after {
            tell!(self, "reflector: {} -> {}", phase(before), phase(after));
        }
        let lists = effects.changes.iter().filter(|change| matches!(change, Change::Replaced(_))).count();
        ensure!("one-list-at-a-time", lists <= 1, "one input caused {lists} lists");
        let last = &self.reflector.status().last_version;
        let back = last.is_older_than(&seen) && !self.server.restored;
        ensure!("no-going-back", !back, "the last version decreased from {seen} to {last}");
        let newest = effects.versions.iter().filter_map(|version| version.as_u64()).max();
        self.queued = self.queued.max(newest.unwrap_or_default());
        for change in effects.changes {
            if matches!(change, Change::Replaced(_)) {
                self.requests.worked();
            }
            ensure!("nothing-lost", self.queue.push(change).is_ok(), "the queue is closed");
        }
        for notice in &effects.notices {
            self.coverage.notice(notice);
            tell!(self, "notice: {notice:?}");
            match notice {
                ReflectorNotice::StreamingListFailed => self.streaming_failed = true,
                ReflectorNotice::ResyncDue => drop(self.queue.push(Change::Resync)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn shown(response: &Response) -> String {
    match response {
        Response::Failed(error) => format!("rejected: {error}"),
        Response::Hangs => "no response".to_owned(),
        Response::Open(_) => "accepted".to_owned(),
    }
}

fn heard(input: &In) -> String {
    match input {
        Input::Events(events) => {
            let events: Vec<_> = events.iter().map(short).collect();
            format!("receives {}", events.join(", "))
        }
        input => format!("receives {input:?}"),
    }
}

fn short(event: &WatchEvent<SimObject>) -> String {
    format!("{event:?}")
}
