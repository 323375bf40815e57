use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};

use super::super::list_builder::{Inserted, ListBuilder};
use super::super::{MAX_INITIAL_EVENTS_TIME, MAX_STREAMING_RETRIES, ReflectorConfig, RelistReason};
use super::watching::Watching;
use super::{
    Input, Next, Phase, ReflectorAction, ReflectorNotice, ReflectorState, Step, Turn, WatchPlan,
    asks_for_retry, later,
};
use crate::source::{Listed, SourceError, SourceErrorKind, WatchEvent};

/// A streaming list that is in flight, until its final bookmark arrives.
pub(super) struct Streaming<O: Object> {
    plan: WatchPlan,
    consistent: bool,
    open: bool,
    /// The time at which the streaming list was requested or, once the server has accepted it, the time at
    /// which it was accepted. The time limits for the acceptance and for the final bookmark begin at this
    /// time.
    since: Instant,
    /// The time at which an object with a new key last arrived in the streaming list. If no further one and
    /// no final bookmark arrives for too long, an ordinary list replaces the streaming list.
    fresh_at: Instant,
    events: u64,
    builder: ListBuilder<O>,
}

enum Verdict {
    GoOn,
    End(ResourceVersion),
    Failed(SourceError),
}

impl<O: Object> Streaming<O> {
    pub(super) fn step(&self, config: &ReflectorConfig) -> Step {
        let action =
            if self.open { ReflectorAction::Read } else { ReflectorAction::Watch(self.plan.clone()) };
        Step { action, until: Some(self.until(config)) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn withhold_known(&mut self) {
        self.plan.use_known = false;
    }

    /// Returns true if the streaming list is a consistent read that decodes every object. Such a list is
    /// applied even if it is older than the last version.
    pub(super) fn is_truth(&self) -> bool {
        self.consistent && !self.plan.use_known
    }

    pub(super) fn held_up(&mut self, how_long: Duration, now: Instant) {
        self.since = later(self.since, how_long).min(now);
        self.fresh_at = later(self.fresh_at, how_long).min(now);
    }

    fn until(&self, config: &ReflectorConfig) -> Instant {
        if self.open {
            let quiet = later(self.fresh_at, config.initial_events_deadline);
            quiet.min(later(self.since, MAX_INITIAL_EVENTS_TIME))
        } else {
            later(self.since, config.progress_timeout)
        }
    }
}

impl<O: Object> ReflectorState<O> {
    pub(super) fn begin_streaming(&mut self, reason: RelistReason, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.status.relists.add(reason);
        turn.effects.notices.push(ReflectorNotice::Relist(reason));
        let consistent = self.consistent;
        let plan = WatchPlan {
            version: if consistent { ResourceVersion::unset() } else { self.status.last_version.clone() },
            send_initial_events: true,
            timeout: self.draw_watch_timeout(turn),
            use_known: !self.withhold_known,
        };
        let builder = ListBuilder::new(self.config.max_objects);
        let (since, fresh_at) = (turn.now, turn.now);
        Phase::Streaming(Streaming { plan, consistent, open: false, since, fresh_at, events: 0, builder })
    }

    pub(super) fn on_streaming(
        &mut self,
        mut streaming: Streaming<O>,
        input: Input<O>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        match input {
            Input::Opened => {
                (streaming.open, streaming.since, streaming.fresh_at) = (true, turn.now, turn.now);
                self.status.watches_opened += 1;
                Phase::Streaming(streaming)
            }
            Input::Events(events) => self.on_initial_events(streaming, events, turn),
            Input::Ended if streaming.events > 0 => self.streaming_cut(None, turn),
            Input::Ended => {
                let error = self.error(SourceErrorKind::Other, "a streaming list was closed without events");
                self.fall_back(error, false, turn)
            }
            Input::Failed(error) => self.streaming_failed(&streaming, error, turn),
            Input::Timer => self.check_initial_deadline(streaming, turn),
            Input::Part(_) | Input::RelistRequested | Input::Stop => Phase::Streaming(streaming),
        }
    }

    fn check_initial_deadline(&mut self, streaming: Streaming<O>, turn: &mut Turn<'_, O>) -> Phase<O> {
        if turn.now < streaming.until(&self.config) {
            return Phase::Streaming(streaming);
        }
        let error = self.error(SourceErrorKind::Timeout, "a streaming list did not complete in time");
        self.fall_back(error, streaming.open, turn)
    }

    fn on_initial_events(
        &mut self,
        mut streaming: Streaming<O>,
        events: Vec<WatchEvent<O>>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            streaming.events += 1;
            self.count(&event);
            match self.take_initial(&mut streaming, event, turn) {
                Verdict::GoOn => {}
                Verdict::End(version) => return self.end_initial(streaming, version, events.collect(), turn),
                Verdict::Failed(error) => return self.streaming_failed(&streaming, error, turn),
            }
        }
        // The deadline is also checked after events, because the timer never fires for a stream that always
        // has events ready.
        self.check_initial_deadline(streaming, turn)
    }

    /// Adds an initial event to the list. The versions of initial events are those of the objects, in no
    /// order, so they do not move the last version.
    fn take_initial(
        &mut self,
        streaming: &mut Streaming<O>,
        event: WatchEvent<O>,
        turn: &mut Turn<'_, O>,
    ) -> Verdict {
        let builder = &mut streaming.builder;
        let put = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => builder.put(Listed::Fresh(object)),
            WatchEvent::Known(object) => builder.put(Listed::Known(object)),
            WatchEvent::Deleted(object) => {
                builder.remove(object.key());
                Inserted::Replaced
            }
            WatchEvent::Undecodable(undecodable) => builder.set_aside(undecodable),
            WatchEvent::DeletedUndecodable(undecodable) => {
                undecodable.key().into_iter().for_each(|key| builder.remove(key));
                Inserted::Replaced
            }
            WatchEvent::Rejected { key, .. } => {
                builder.remove(&key);
                // A rejected object is progress of the list. `MAX_INITIAL_EVENTS_TIME` limits a stream that
                // only repeats rejected objects.
                Inserted::New
            }
            WatchEvent::Bookmark { version, initial_events_end: true } => return Verdict::End(version),
            WatchEvent::Bookmark { .. } => Inserted::Replaced,
            WatchEvent::Error(status) => {
                return Verdict::Failed(status.into_error(&self.attempt("streaming")));
            }
            WatchEvent::Unknown { event_type, .. } => {
                turn.effects.notices.push(ReflectorNotice::UnknownEvent(event_type));
                Inserted::Replaced
            }
        };
        match put {
            Inserted::New => streaming.fresh_at = turn.now,
            Inserted::Replaced => {}
            Inserted::Full => return Verdict::Failed(self.too_many_objects()),
        }
        Verdict::GoOn
    }

    /// Applies the list that the final bookmark has completed. The stream of the streaming list continues as
    /// a watch.
    fn end_initial(
        &mut self,
        streaming: Streaming<O>,
        version: ResourceVersion,
        rest: Vec<WatchEvent<O>>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        let truth = streaming.is_truth();
        if self.accept(streaming.builder, version, truth, turn).is_err() {
            return self.begin_relist(RelistReason::StaleList, turn);
        }
        let watching = Watching::continued(streaming.plan, streaming.since, streaming.events, turn.now);
        self.on_watching(watching, Input::Events(rest), turn)
    }

    fn streaming_failed(
        &mut self,
        streaming: &Streaming<O>,
        error: SourceError,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        match error.kind() {
            SourceErrorKind::TooManyRequests | SourceErrorKind::ConnectionRefused => {
                self.fail(error, Next::Relist(RelistReason::ListFailed), turn)
            }
            SourceErrorKind::Expired | SourceErrorKind::VersionTooLarge if !streaming.consistent => {
                self.recover(error, turn);
                self.consistent = true;
                self.begin_relist(RelistReason::ListExpired, turn)
            }
            SourceErrorKind::EncodingChanged => self.on_encoding_changed(error, turn),
            SourceErrorKind::Connection if streaming.events > 0 => self.streaming_cut(Some(error), turn),
            // The server did not respond or is overloaded, so no ordinary list follows. It would be more
            // expensive for the server than the rejected streaming list.
            SourceErrorKind::Connection if !streaming.open => self.streaming_without_response(error, turn),
            _ if !streaming.open && asks_for_retry(&error) => self.streaming_without_response(error, turn),
            kind => self.fall_back(error, kind == SourceErrorKind::Rejected, turn),
        }
    }

    /// Handles a streaming list that was closed or broke before its final bookmark. If it was closed, and is
    /// the first one that failed, it is retried immediately. Otherwise it is retried after a backoff. After
    /// too many consecutive failures an ordinary list follows.
    fn streaming_cut(&mut self, error: Option<SourceError>, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.streaming_cuts += 1;
        let first = self.streaming_cuts == 1 && error.is_none();
        let error = error.unwrap_or_else(|| {
            self.error(SourceErrorKind::Connection, "a streaming list was closed before its final bookmark")
        });
        if self.streaming_cuts > MAX_STREAMING_RETRIES {
            return self.fall_back(error, true, turn);
        }
        if first {
            self.recover(error, turn);
            return self.begin_relist(RelistReason::StreamingCut, turn);
        }
        self.fail(error, Next::Relist(RelistReason::StreamingCut), turn)
    }

    /// Handles a streaming list that got no response. The request is retried after a backoff, a limited
    /// number of times. The source is not notified of this failure, since it does not show that streaming
    /// lists are unsupported.
    fn streaming_without_response(&mut self, error: SourceError, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.streaming_cuts += 1;
        if self.streaming_cuts > MAX_STREAMING_RETRIES {
            return self.fall_back(error, false, turn);
        }
        self.fail(error, Next::Relist(RelistReason::StreamingCut), turn)
    }

    /// Replaces a streaming list by an ordinary list. `remember` is true if the server does not support
    /// streaming lists or does not complete them.
    fn fall_back(&mut self, error: SourceError, remember: bool, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.recover(error, turn);
        self.status.streaming_fallbacks += 1;
        if remember {
            turn.effects.notices.push(ReflectorNotice::StreamingListFailed);
        }
        self.begin_list(RelistReason::StreamingFallback, turn)
    }

    pub(super) fn attempt(&self, what: &str) -> String {
        let kind_text = self.config.expected_kind.as_deref().unwrap_or("objects");
        format!("{what} {kind_text} for {}", self.config.name)
    }
}
