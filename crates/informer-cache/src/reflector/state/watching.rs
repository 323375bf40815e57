use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion, Tombstone};
use rand::RngExt;

use super::super::{MAX_SHORT_WATCHES, MIN_WATCH_TIMEOUT, ReflectorConfig, RelistReason, SHORT_WATCH};
use super::{
    Input, MAX_WAIT, Next, Phase, ReflectorAction, ReflectorNotice, ReflectorState, Step, Turn, WatchPlan,
    asks_for_retry, later,
};
use crate::Change;
use crate::source::{SourceError, SourceErrorKind, WatchEvent};

pub(super) struct Watching {
    plan: WatchPlan,
    open: bool,
    /// The time at which the watch was requested or, once the server has accepted it, the time at which it
    /// was accepted. A watch that ends soon after this time is a short watch, and its timeout begins at this
    /// time.
    since: Instant,
    event_at: Instant,
    events: u64,
    /// True if the versions of events move the last version forward. For a watch without a start version,
    /// this is false until an event other than `ADDED` arrives. The first `ADDED` events of such a watch are
    /// the current state. Each has the old version of its object, from which no watch could continue.
    versions_count: bool,
    /// True if the watch has sent its start version or a later one, which confirms that the server has
    /// reached the start version.
    confirmed: bool,
    /// True if the watch has sent a bookmark older than its start version, and nothing yet that confirms this
    /// version. The server of the watch may lag behind, so a version check follows if the version was not
    /// confirmed recently.
    doubted: bool,
}

impl Watching {
    /// Returns the state of the watch that follows a streaming list after its final bookmark, on the same
    /// stream. The bookmark has confirmed the start version.
    pub(super) fn continued(plan: WatchPlan, since: Instant, events: u64, now: Instant) -> Self {
        let (versions_count, confirmed, doubted) = (true, true, false);
        Self { plan, open: true, since, event_at: now, events, versions_count, confirmed, doubted }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn step(&self, config: &ReflectorConfig, resync_at: Option<Instant>) -> Step {
        let deadline = self.deadline(config);
        if self.open {
            let until = resync_at.map_or(deadline, |resync_at| resync_at.min(deadline));
            Step { action: ReflectorAction::Read, until: Some(until) }
        } else {
            Step { action: ReflectorAction::Watch(self.plan.clone()), until: Some(deadline) }
        }
    }

    /// Returns true if the server accepted the watch and the watch has been open for at least
    /// [`SHORT_WATCH`], so that it does not count as a short watch.
    fn lasted(&self, now: Instant) -> bool {
        self.open && now.saturating_duration_since(self.since) >= SHORT_WATCH
    }

    pub(super) fn held_up(&mut self, now: Instant) {
        self.event_at = now;
    }

    /// Returns the deadline of the watch: the time by which the server must have accepted it, or by which it
    /// must have ended. After the deadline, the connection counts as dead.
    fn deadline(&self, config: &ReflectorConfig) -> Instant {
        if self.open {
            later(later(self.since, self.plan.timeout).max(self.event_at), config.watch_grace)
        } else {
            later(self.since, config.progress_timeout)
        }
    }
}

impl<O: Object> ReflectorState<O> {
    pub(super) fn begin_watch(&mut self, turn: &mut Turn<'_, O>) -> Phase<O> {
        let version = self.status.last_version.clone();
        let versions_count = !version.is_empty() && !version.is_any();
        let timeout = self.draw_watch_timeout(turn);
        let plan = WatchPlan { version, send_initial_events: false, timeout, use_known: true };
        let (since, event_at) = (turn.now, turn.now);
        let (events, confirmed, doubted) = (0, false, false);
        Phase::Watching(Watching {
            plan,
            open: false,
            since,
            event_at,
            events,
            versions_count,
            confirmed,
            doubted,
        })
    }

    pub(super) fn draw_watch_timeout(&self, turn: &mut Turn<'_, O>) -> Duration {
        let min = self.config.min_watch_timeout.clamp(MIN_WATCH_TIMEOUT, MAX_WAIT);
        min.saturating_add(min.mul_f64(turn.rng.random_range(0.0..1.0)))
    }

    pub(super) fn on_watching(
        &mut self,
        mut watching: Watching,
        input: Input<O>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        match input {
            Input::Opened => {
                (watching.open, watching.since, watching.event_at) = (true, turn.now, turn.now);
                self.status.watches_opened += 1;
                self.note_success(turn.now);
                Phase::Watching(watching)
            }
            Input::Events(events) => self.on_events(watching, events, turn),
            Input::Ended => self.watch_closed(&watching, turn),
            Input::Failed(error) => self.watch_broke(&watching, error, turn),
            Input::Timer => self.on_watch_timer(watching, turn),
            Input::Part(_) | Input::RelistRequested | Input::Stop => Phase::Watching(watching),
        }
    }

    fn on_events(
        &mut self,
        mut watching: Watching,
        events: Vec<WatchEvent<O>>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        turn.effects.changes.reserve(events.len());
        watching.event_at = turn.now;
        for event in events {
            watching.events += 1;
            self.count(&event);
            let is_internal = matches!(&event, WatchEvent::Error(status) if status.is_internal_error());
            if let Err(error) = self.on_event(&mut watching, event, turn) {
                let within = self.config.max_internal_error_retry;
                let next = match error.kind() {
                    _ if is_internal && self.internal_errors.may_retry(within, turn.now) => Next::Watch,
                    kind => after_failure(kind, true),
                };
                return self.fail(error, next, turn);
            }
        }
        self.resync_if_due(turn);
        if watching.doubted && !self.is_vouched_for(turn.now) {
            return self.begin_check(turn);
        }
        Phase::Watching(watching)
    }

    fn on_event(
        &mut self,
        watching: &mut Watching,
        event: WatchEvent<O>,
        turn: &mut Turn<'_, O>,
    ) -> Result<(), SourceError> {
        turn.vouched = false;
        let outcome = self.take_event(watching, event, turn);
        watching.confirmed |= turn.vouched;
        watching.doubted &= !watching.confirmed;
        outcome
    }

    fn take_event(
        &mut self,
        watching: &mut Watching,
        event: WatchEvent<O>,
        turn: &mut Turn<'_, O>,
    ) -> Result<(), SourceError> {
        let is_initial = matches!(
            event,
            WatchEvent::Added(_)
                | WatchEvent::Known(_)
                | WatchEvent::Undecodable(_)
                | WatchEvent::Rejected { .. }
        );
        watching.versions_count |= !is_initial;
        let counts = watching.versions_count;
        let change = match event {
            WatchEvent::Added(object) => {
                self.seen(counts, object.resource_version(), turn);
                Change::Added(object)
            }
            WatchEvent::Known(object) => {
                // The cache already contains the object of this event in this state, so no change of the
                // object is queued. Only the resourceVersion of the watch may be new.
                self.seen_alone(counts, object.resource_version().clone(), turn);
                return Ok(());
            }
            WatchEvent::Modified(object) => {
                self.seen(counts, object.resource_version(), turn);
                Change::Updated(object)
            }
            WatchEvent::Deleted(object) => {
                self.seen(counts, object.resource_version(), turn);
                Change::Deleted(Tombstone::observed(object.key().clone(), object))
            }
            WatchEvent::Bookmark { version, .. } => {
                if !self.advance(&version, turn) {
                    watching.doubted |= !watching.confirmed && !version.is_empty();
                    return Ok(());
                }
                Change::Bookmark(version)
            }
            WatchEvent::Error(status) => return Err(status.into_error(&self.attempt("watching"))),
            WatchEvent::Undecodable(undecodable) => {
                let version = undecodable.resource_version().clone();
                turn.effects.changes.push(Change::Undecodable(undecodable));
                self.seen_alone(counts, version, turn);
                return Ok(());
            }
            WatchEvent::DeletedUndecodable(undecodable) => {
                let version = undecodable.resource_version().clone();
                turn.effects.changes.push(match undecodable.key() {
                    // The tombstone contains no last state, because the state in the `DELETED` event could
                    // not be decoded. The consumer of the queue has the last known state in its cache.
                    Some(key) => Change::Deleted(Tombstone::missed(key.clone(), None)),
                    None => Change::Undecodable(undecodable),
                });
                self.seen_alone(counts, version, turn);
                return Ok(());
            }
            WatchEvent::Rejected { key, version } => {
                self.seen(counts, &version, turn);
                // The versions of initial events are in no order, so they must not move the version of the
                // cache.
                let version = if counts { version } else { ResourceVersion::unset() };
                Change::Deleted(Tombstone::missed(key, None).with_version(version))
            }
            WatchEvent::Unknown { event_type, version } => {
                turn.effects.notices.push(ReflectorNotice::UnknownEvent(event_type));
                self.seen_alone(counts, version, turn);
                return Ok(());
            }
        };
        turn.effects.changes.push(change);
        Ok(())
    }

    fn seen(&mut self, counts: bool, version: &ResourceVersion, turn: &mut Turn<'_, O>) {
        if counts {
            self.advance(version, turn);
        }
    }

    /// Moves the last version forward for an event that queues no change, or a change that does not move the
    /// version of the cache, such as one with an undecodable object. A bookmark with the version is queued.
    /// Otherwise the version of the cache would fall behind that of the reflector.
    fn seen_alone(&mut self, counts: bool, version: ResourceVersion, turn: &mut Turn<'_, O>) {
        if counts && self.advance(&version, turn) {
            turn.effects.changes.push(Change::Bookmark(version));
        }
    }

    /// Handles a watch that was closed without an error. The end of the watch counts as a failure only if the
    /// watch was short and had no event.
    fn watch_closed(&mut self, watching: &Watching, turn: &mut Turn<'_, O>) -> Phase<O> {
        let Some(next) = self.after_end(watching, turn.now) else {
            return self.resume_watch(turn);
        };
        let error = self.error(SourceErrorKind::Other, &format!("a watch was closed within {SHORT_WATCH:?}"));
        self.pause_after(watching, error, next, turn)
    }

    /// Waits after a short watch. If the watch had events, it worked, so the wait is the shortest one and the
    /// backoff does not grow; this avoids delaying the next events.
    fn pause_after(
        &mut self,
        watching: &Watching,
        error: SourceError,
        next: Next,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        if watching.events == 0 {
            return self.fail(error, next, turn);
        }
        let pause = self.backoff.pause(turn.rng);
        Phase::Waiting { until: self.wait_after(error, pause, turn), next }
    }

    /// Handles a watch that was rejected or broke. If an accepted watch broke, this is treated like a closed
    /// watch. A load balancer that closes idle connections thus causes no backoff.
    fn watch_broke(&mut self, watching: &Watching, error: SourceError, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.status.silent_watches += u64::from(watching.open && error.kind() == SourceErrorKind::Timeout);
        if watching.open && breaks(error.kind()) {
            if let Some(next) = self.after_end(watching, turn.now) {
                return self.pause_after(watching, error, next, turn);
            }
            self.recover(error, turn);
            return self.resume_watch(turn);
        }
        if watching.lasted(turn.now) {
            self.short_watches = 0;
        }
        if error.kind() == SourceErrorKind::EncodingChanged {
            return self.on_encoding_changed(error, turn);
        }
        self.unreached |= !watching.open && unreached(error.kind());
        let next = match error.kind() {
            // A refused or failed connection does not mean that the version is invalid, so a watch follows. A
            // list follows only after repeated failures, because a proxy may support lists but no watches.
            SourceErrorKind::Connection if !watching.open => self.note_short_watch(watching),
            SourceErrorKind::Unavailable if !watching.open && asks_for_retry(&error) => {
                self.note_short_watch(watching)
            }
            kind => after_failure(kind, watching.open),
        };
        self.fail(error, next, turn)
    }

    /// Decides whether to wait after a watch whose stream ended. Returns the request that follows the wait,
    /// or `None` if the watch worked and the next one follows immediately. After too many consecutive short
    /// watches there is a wait, even if each had events.
    fn after_end(&mut self, watching: &Watching, now: Instant) -> Option<Next> {
        if watching.lasted(now) {
            self.short_watches = 0;
            return None;
        }
        let next = self.note_short_watch(watching);
        let worked = watching.events > 0 && self.short_watches <= MAX_SHORT_WATCHES;
        (!worked).then_some(next)
    }

    /// Counts a short watch and returns the next request. If the watch had an event, the server has accepted
    /// the version, and another watch follows. After several short watches without an event a list follows,
    /// because the server may not have that version, or a proxy may block watches.
    fn note_short_watch(&mut self, watching: &Watching) -> Next {
        self.short_watches += 1;
        self.status.short_watches += 1;
        if self.short_watches > MAX_SHORT_WATCHES && watching.events == 0 {
            self.short_watches = 0;
            return Next::Relist(RelistReason::ShortWatches);
        }
        Next::Watch
    }

    fn on_watch_timer(&mut self, watching: Watching, turn: &mut Turn<'_, O>) -> Phase<O> {
        if turn.now >= watching.deadline(&self.config) {
            if !watching.open {
                let silent = format!("the watch was not accepted within {:?}", self.config.progress_timeout);
                let error = self.error(SourceErrorKind::Timeout, &silent);
                return self.fail(error, Next::Relist(RelistReason::WatchFailed), turn);
            }
            self.status.silent_watches += 1;
            turn.effects.notices.push(ReflectorNotice::SilentWatch);
            return self.resume_watch(turn);
        }
        if watching.open {
            self.resync_if_due(turn);
        }
        Phase::Watching(watching)
    }

    /// Triggers a resync if the resync period has passed. This check also runs after events, since the timer
    /// never fires for a watch that always has events ready.
    fn resync_if_due(&mut self, turn: &mut Turn<'_, O>) {
        if self.resync_at.is_some_and(|resync_at| turn.now >= resync_at) {
            self.status.resyncs += 1;
            self.resync_at = self.next_resync(turn.now);
            turn.effects.notices.push(ReflectorNotice::ResyncDue);
        }
    }

    pub(super) fn count(&mut self, event: &WatchEvent<O>) {
        let counts = &mut self.status.events;
        match event {
            WatchEvent::Added(_) | WatchEvent::Known(_) => counts.added += 1,
            WatchEvent::Modified(_) => counts.modified += 1,
            WatchEvent::Deleted(_) => counts.deleted += 1,
            WatchEvent::Rejected { .. } => counts.rejected += 1,
            WatchEvent::Bookmark { .. } => counts.bookmarks += 1,
            WatchEvent::Error(_) => counts.errors += 1,
            WatchEvent::Unknown { .. } => counts.unknown += 1,
            WatchEvent::Undecodable(_) | WatchEvent::DeletedUndecodable(_) => {
                counts.undecodable += 1;
                self.status.undecodable += 1;
            }
        }
    }
}

/// The time without an internal error after which the retry period restarts.
const INTERNAL_ERRORS_RESET: Duration = Duration::from_secs(60);

/// The error events of kind `InternalError` after which a watch was resumed.
#[derive(Debug, Default)]
pub(super) struct InternalErrors {
    /// The times of the first and the last of these events.
    seen: Option<(Instant, Instant)>,
}

impl InternalErrors {
    /// Records an event. Returns true if it is at most `within` after the first one, so that the watch may be
    /// resumed.
    fn may_retry(&mut self, within: Duration, now: Instant) -> bool {
        let recent =
            self.seen.filter(|(_, last)| now.saturating_duration_since(*last) < INTERNAL_ERRORS_RESET);
        let first = recent.map_or(now, |(first, _)| first);
        let may_retry = !within.is_zero() && now.saturating_duration_since(first) <= within;
        self.seen = may_retry.then_some((first, now));
        may_retry
    }
}

/// Returns true if a watch with this error failed because its connection ended or was silent, as opposed to
/// an error response of the server. The last version is then still valid.
fn breaks(kind: SourceErrorKind) -> bool {
    matches!(kind, SourceErrorKind::Connection | SourceErrorKind::Timeout)
}

/// Returns true if a request with this failure may have reached no server, because the connection was refused
/// or failed. The next server that accepts a connection may then have an older state.
pub(super) fn unreached(kind: SourceErrorKind) -> bool {
    matches!(kind, SourceErrorKind::Connection | SourceErrorKind::ConnectionRefused)
}

/// Returns the next request after a watch that was rejected (`open` is false) or broke. After a broken
/// connection the last version is still valid, so a watch follows.
fn after_failure(kind: SourceErrorKind, open: bool) -> Next {
    match kind {
        SourceErrorKind::TooManyRequests | SourceErrorKind::ConnectionRefused => Next::Watch,
        kind if open && breaks(kind) => Next::Watch,
        SourceErrorKind::Expired | SourceErrorKind::VersionTooLarge => {
            Next::Relist(RelistReason::WatchExpired)
        }
        _ => Next::Relist(RelistReason::WatchFailed),
    }
}
