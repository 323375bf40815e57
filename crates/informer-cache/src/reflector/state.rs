//! The state machine of a reflector, without a clock, a socket or a task.
//!
//! [`step`](ReflectorState::step) returns the next action, and [`handle`](ReflectorState::handle) receives
//! its result. [`Reflector`](super::Reflector) is the driver for tokio; the simulator is another.
//!
//! ```text
//!              ┌───────────┐ rejected, no end mark ┌─────────┐
//!        ┌────▶│ Streaming │──────────────────────▶│ Listing │◀──┐ 410, too large, stale:
//!        │     └─────┬─────┘                       └────┬──┬─┘   │ at once, consistently
//!        │           │ end mark: the same stream        │  └─────┘
//!        │           ▼                         complete │
//!        │     ┌───────────┐◀───────────────────────────┘
//!  list  │     │ Watching  │──┐ closed in time, broken after events, silent:
//!        │     └───┬───▲───┘◀─┘ at once, from the last version
//!        │   fails │   │ watch
//!        │         ▼   │
//!        │     ┌───────┴───┐
//!        └─────│  Waiting  │◀── a failed list, a requested list
//!              └───────────┘
//! any ── stop ──▶ Stopped
//! ```
//!
//! The version check ([`ReflectorPhase::Checking`]) is a list of one object that must not be older than the
//! last version. If the server does not have that version, it lags or was restored from a backup, and a list
//! follows. The check runs before the next watch in these cases:
//!
//! - A watch ended, and the version was not confirmed for a long time.
//! - A watch has sent only bookmarks older than its start version.
//! - A watch request reached no server: the next server may have been restarted with an older state.
//!
//! After a failed watch and the backoff, the reflector sends one of these requests:
//!
//! - The same watch, if it was rejected with 429 or with a `Retry-After`, if the connection was refused, or
//!   if the connection broke before the first event or repeatedly.
//! - A list, if the version has expired (410), and after every other failure.
//!
//! A page after the first whose request was rejected with 429 or with a `Retry-After`, or got no response, is
//! requested again, and the list continues from that page.
//!
//! # Invariants
//!
//! 1. The last version never moves back, with two exceptions: a consistent list of a restored server, and
//!    versions that have no order ([`ReflectorState::set_unordered`]).
//! 2. A complete list produces exactly one [`Change::Replaced`]. A list that is cut off produces nothing.
//! 3. A watch that was closed after its timeout, or whose connection broke, is followed by a list only if the
//!    server does not have the last version.
//! 4. Two requests without a wait between them differ, unless the first one has delivered data or lasted
//!    longer than a short watch.

mod checking;
mod listing;
mod step;
mod streaming;
mod watching;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::deadline::{MAX_WAIT, later};
use informer_core::{Object, ResourceVersion};
use rand::Rng;

use self::checking::Checking;
use self::listing::Listing;
pub use self::step::{Effects, Input, ListPlan, ReflectorAction, ReflectorNotice, Step, WatchPlan};
use self::streaming::Streaming;
use self::watching::{InternalErrors, Watching};
use super::backoff::Backoff;
use super::list_builder::ListBuilder;
use super::{
    MAX_RETRY_AFTER, ReflectorConfig, ReflectorError, ReflectorPhase, ReflectorStatus, RelistReason,
    StreamingList,
};
use crate::Change;
use crate::source::{SourceError, SourceErrorKind};

/// The state machine of a reflector, without a clock, a socket, a task or a random source of its own. A
/// driver performs the action of [`step`](Self::step), passes the result to [`handle`](Self::handle), and
/// applies the returned [`Effects`].
///
/// [`Reflector`](super::Reflector) is the driver for tokio. A single thread in simulated time, without a
/// runtime, can also be a driver:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use informer_cache::Change;
/// use informer_cache::proto::{Input, ReflectorAction, ReflectorState};
/// use informer_cache::reflector::ReflectorConfig;
/// use informer_cache::source::{ListEnd, ListPart, SourceError, SourceErrorKind};
/// use informer_cache::testing::TestObject;
/// use rand::SeedableRng;
///
/// let mut rng = rand::rngs::StdRng::seed_from_u64(1);
/// let mut now = tokio::time::Instant::now().into_std();
/// let mut state = ReflectorState::<TestObject>::new(Arc::new(ReflectorConfig::default()), now);
/// state.handle(Input::Timer, now, &mut rng);
/// assert!(matches!(state.step().action, ReflectorAction::List(list) if list.version.is_any()));
///
/// // A wait follows a failure. Its end is an input like any other.
/// let error = SourceError::new(SourceErrorKind::Unavailable, "list pods: try later");
/// state.handle(Input::Failed(error), now, &mut rng);
/// assert_eq!(state.step().action, ReflectorAction::Wait);
/// now += Duration::from_secs(2);
/// state.handle(Input::Timer, now, &mut rng);
///
/// state.handle(Input::Opened, now, &mut rng);
/// let end = ListEnd { version: "10".into(), ..ListEnd::default() };
/// let effects = state.handle(Input::Part(ListPart::End(end)), now, &mut rng);
/// assert!(matches!(&effects.changes[..], [Change::Replaced(list)] if list.version == "10"));
/// assert!(matches!(state.step().action, ReflectorAction::Watch(watch) if watch.version == "10"));
/// ```
pub struct ReflectorState<O: Object> {
    config: Arc<ReflectorConfig>,
    phase: Phase<O>,
    backoff: Backoff,
    streaming_supported: bool,
    complete_lists: bool,
    /// The version of the API server that sent the last applied list, if the version is known.
    server: Option<Arc<str>>,
    /// The version of the API server that sends the list in flight, if the version is known. It becomes
    /// `server` when that list is applied.
    next_server: Option<Arc<str>>,
    /// True if `server` and `next_server` are known and differ, for example after an upgrade of the API
    /// server. The new version may encode an unchanged object differently. Every object of the current list
    /// is therefore decoded, and no cached object with the same uid and resourceVersion is reused.
    reread: bool,
    /// True if the server has sent a list in pages that it could have served from its watch cache. Relists
    /// are then requested in pages too, since a server without a watch cache gains nothing from a list
    /// without a limit.
    paged: bool,
    /// True if the next list must be a consistent read: the requested version expired, was too new or was
    /// rejected, or a list or an event was older than a state that was already seen.
    consistent: bool,
    /// True if every object of the next list must be decoded, instead of reusing cached objects. A server
    /// that was restored from a backup may have assigned their versions again, to other content.
    withhold_known: bool,
    /// Number of consecutive streaming lists that ended before their final bookmark or got no response. After
    /// too many of them, an ordinary list is used.
    streaming_cuts: u32,
    /// Number of consecutive watches that were short (see `SHORT_WATCH`). After several of them the reflector
    /// waits or lists.
    short_watches: u32,
    internal_errors: InternalErrors,
    /// True if a list has followed an error of kind `EncodingChanged` without a wait. A source changes its
    /// encoding once, so further errors of this kind are failures, with a backoff.
    listed_for_encoding: bool,
    /// True if the last watch request reached no server. The next server that accepts a connection may have
    /// an older state, without the last version.
    unreached: bool,
    /// The time at which the server last confirmed that it has the last version or a later one. If that was
    /// long ago, a version check precedes the next watch.
    vouched_at: Option<Instant>,
    resync_at: Option<Instant>,
    status: ReflectorStatus,
}

enum Phase<O: Object> {
    Waiting { until: Instant, next: Next },
    Listing(Listing<O>),
    Streaming(Streaming<O>),
    Checking(Checking),
    Watching(Watching),
    Stopped,
}

impl<O: Object> Phase<O> {
    fn reads_truth(&self) -> bool {
        match self {
            Self::Listing(listing) => listing.is_truth(),
            Self::Streaming(streaming) => streaming.is_truth(),
            Self::Waiting { .. } | Self::Checking(_) | Self::Watching(_) | Self::Stopped => false,
        }
    }

    /// Returns the time at which the reflector sends its next request if it is waiting, either in a backoff
    /// or before it requests a rejected page again. Returns `None` if it is not waiting.
    fn waits_until(&self) -> Option<Instant> {
        match self {
            Self::Waiting { until, .. } => Some(*until),
            Self::Listing(listing) => listing.resume_at(),
            Self::Streaming(_) | Self::Checking(_) | Self::Watching(_) | Self::Stopped => None,
        }
    }
}

/// The request that the reflector sends after a backoff.
#[derive(Debug, Clone, Copy)]
enum Next {
    Relist(RelistReason),
    Watch,
}

/// The context of one call of [`ReflectorState::handle`]: the time, the random numbers and the collected
/// effects.
struct Turn<'a, O: Object> {
    now: Instant,
    rng: &'a mut dyn Rng,
    effects: Effects<O>,
    /// True if the watch event that is being handled has shown that the server has the last version or a
    /// later one. It is reset before each event of a watch.
    vouched: bool,
}

impl<O: Object> ReflectorState<O> {
    /// Returns the state of a reflector before its first request. The first list is due at `now`.
    pub fn new(config: Arc<ReflectorConfig>, now: Instant) -> Self {
        Self::resume(config, now, ResourceVersion::unset())
    }

    /// Returns the state of a reflector that continues after an earlier one, which had seen `last_version`.
    /// The first list requests at least that version, like a relist, so that a lagging server does not move
    /// the cache back. If the version has expired or is not available yet, a consistent list follows
    /// immediately. If `last_version` is unset or 0, the first list accepts any state.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use informer_cache::proto::{Input, ReflectorAction, ReflectorState};
    /// use informer_cache::reflector::ReflectorConfig;
    /// use informer_cache::testing::TestObject;
    /// use rand::SeedableRng;
    ///
    /// let mut rng = rand::rngs::StdRng::seed_from_u64(1);
    /// let now = tokio::time::Instant::now().into_std();
    /// let config = Arc::new(ReflectorConfig::default());
    /// let mut state = ReflectorState::<TestObject>::resume(config, now, "10".into());
    /// state.handle(Input::Timer, now, &mut rng);
    /// assert!(matches!(state.step().action, ReflectorAction::List(list) if list.version == "10"));
    /// ```
    pub fn resume(config: Arc<ReflectorConfig>, now: Instant, last_version: ResourceVersion) -> Self {
        let last_version = if last_version.is_any() { ResourceVersion::unset() } else { last_version };
        Self {
            phase: Phase::Waiting { until: now, next: Next::Relist(RelistReason::First) },
            backoff: Backoff::new(config.backoff.clone()),
            config,
            streaming_supported: false,
            complete_lists: false,
            server: None,
            next_server: None,
            reread: false,
            paged: false,
            consistent: false,
            withhold_known: false,
            streaming_cuts: 0,
            short_watches: 0,
            internal_errors: InternalErrors::default(),
            listed_for_encoding: false,
            unreached: false,
            vouched_at: None,
            resync_at: None,
            status: ReflectorStatus { last_version, ..ReflectorStatus::default() },
        }
    }

    /// Sets whether the source supports streaming lists. The driver calls this method before the start of
    /// each list.
    pub fn set_streaming_supported(&mut self, supported: bool) {
        self.streaming_supported = supported;
    }

    /// Sets whether the source [prefers](crate::source::ListWatch::prefers_complete_lists) complete lists
    /// without a limit. The driver calls this method before the start of each list.
    pub fn set_complete_lists(&mut self, preferred: bool) {
        self.complete_lists = preferred;
    }

    /// Returns true if the next request starts a complete list. In this case the driver also requests the
    /// [version of the server](crate::source::ListWatch::server_version).
    pub fn begins_list(&self) -> bool {
        match &self.phase {
            Phase::Listing(listing) => listing.begins(),
            Phase::Streaming(streaming) => !streaming.is_open(),
            Phase::Waiting { .. } | Phase::Checking(_) | Phase::Watching(_) | Phase::Stopped => false,
        }
    }

    /// Returns the [server version](crate::source::ListWatch::server_version) at the last applied list, if it
    /// is known.
    pub fn server(&self) -> Option<&Arc<str>> {
        self.server.as_ref()
    }

    /// Sets the server version that belongs to the last list which an earlier reflector has applied.
    pub fn resume_server(&mut self, server: Option<Arc<str>>) {
        self.server = server;
    }

    /// Sets the server version for the list that [begins](Self::begins_list); `None` if the version is not
    /// known. If the version differs from that of the last list, every object of the new list is decoded.
    pub fn set_server(&mut self, server: Option<Arc<str>>) {
        if server.is_some() {
            self.reread = self.server.is_some() && self.server != server;
            self.next_server = server;
        }
        if self.reread {
            match &mut self.phase {
                Phase::Listing(listing) => listing.withhold_known(),
                Phase::Streaming(streaming) => streaming.withhold_known(),
                Phase::Waiting { .. } | Phase::Checking(_) | Phase::Watching(_) | Phase::Stopped => {}
            }
        }
    }

    /// Turns the comparison of resource versions off, for a source whose versions are numbers without an
    /// order. From then on, no list, event or bookmark counts as older than the last version.
    pub fn set_unordered(&mut self) {
        self.status.unordered = true;
    }

    /// Returns true if the resourceVersion `version` is older than `than`, so that the reflector must not go
    /// back from `than` to `version`. Always returns false after [`set_unordered`](Self::set_unordered),
    /// since versions without an order cannot be compared.
    fn is_older(&self, version: &ResourceVersion, than: &ResourceVersion) -> bool {
        !self.status.unordered && version.is_older_than(than)
    }

    /// Returns the next action for the driver. The action stays the same until the next input.
    pub fn step(&self) -> Step {
        match &self.phase {
            Phase::Waiting { until, .. } => Step { action: ReflectorAction::Wait, until: Some(*until) },
            Phase::Listing(listing) => listing.step(&self.config),
            Phase::Streaming(streaming) => streaming.step(&self.config),
            Phase::Checking(checking) => checking.step(&self.config),
            Phase::Watching(watching) => watching.step(&self.config, self.resync_at),
            Phase::Stopped => Step { action: ReflectorAction::Done, until: None },
        }
    }

    /// Handles an input that occurred at `now`.
    pub fn handle(&mut self, input: Input<O>, now: Instant, rng: &mut impl Rng) -> Effects<O> {
        let mut turn = Turn { now, rng, effects: Effects::default(), vouched: false };
        let phase = mem::replace(&mut self.phase, Phase::Stopped);
        self.phase = match (phase, input) {
            (Phase::Stopped, _) | (_, Input::Stop) => Phase::Stopped,
            (phase, Input::RelistRequested) => self.on_relist_requested(phase, &mut turn),
            (Phase::Waiting { until, next }, Input::Timer) if until <= now => self.go_on(next, &mut turn),
            (phase @ Phase::Waiting { .. }, _) => phase,
            (Phase::Listing(listing), input) => self.on_listing(listing, input, &mut turn),
            (Phase::Streaming(streaming), input) => self.on_streaming(streaming, input, &mut turn),
            (Phase::Checking(checking), input) => self.on_checking(checking, input, &mut turn),
            (Phase::Watching(watching), input) => self.on_watching(watching, input, &mut turn),
        };
        self.describe_phase();
        turn.effects
    }

    /// Reports that the reflector read nothing from the source for `how_long` before `now`, because the queue
    /// was full. The deadlines of the open request are extended by that time.
    pub fn held_up(&mut self, how_long: Duration, now: Instant) {
        match &mut self.phase {
            Phase::Listing(listing) => listing.held_up(how_long, now),
            Phase::Streaming(streaming) => streaming.held_up(how_long, now),
            Phase::Checking(checking) => checking.held_up(how_long, now),
            Phase::Watching(watching) => watching.held_up(now),
            Phase::Waiting { .. } | Phase::Stopped => {}
        }
    }

    /// Returns true while a consistent read that decodes every object is in flight.
    /// [`Input::RelistRequested`] then has no effect, since it would start the same read.
    pub fn reads_truth(&self) -> bool {
        self.phase.reads_truth()
    }

    /// Returns the phase and the counters of the reflector.
    pub fn status(&self) -> &ReflectorStatus {
        &self.status
    }

    fn go_on(&mut self, next: Next, turn: &mut Turn<'_, O>) -> Phase<O> {
        match next {
            Next::Relist(reason) => self.begin_relist(reason, turn),
            Next::Watch if self.unreached => self.begin_check(turn),
            Next::Watch => self.begin_watch(turn),
        }
    }

    fn begin_relist(&mut self, reason: RelistReason, turn: &mut Turn<'_, O>) -> Phase<O> {
        let streaming = match self.config.streaming_list {
            StreamingList::Auto => self.streaming_supported,
            StreamingList::On => true,
            StreamingList::Off => false,
        };
        if streaming { self.begin_streaming(reason, turn) } else { self.begin_list(reason, turn) }
    }

    /// Handles a relist request. A list in flight may be as old as the event that made the consumer of the
    /// queue request the relist. That list is therefore abandoned, unless it is a consistent read that
    /// decodes every object.
    fn on_relist_requested(&mut self, phase: Phase<O>, turn: &mut Turn<'_, O>) -> Phase<O> {
        if phase.reads_truth() {
            return phase;
        }
        (self.consistent, self.withhold_known) = (true, true);
        // A wait that is already in progress is not shortened. It follows a failure, whose `Retry-After` it
        // includes, or an earlier relist request.
        let until = phase.waits_until().unwrap_or_else(|| {
            let wait = self.backoff.failure(turn.now, turn.rng);
            later(turn.now, wait)
        });
        Phase::Waiting { until, next: Next::Relist(RelistReason::Requested) }
    }

    /// Counts and reports a failed request, and waits for the backoff. After the wait, the reflector sends
    /// the request `next`.
    fn fail(&mut self, error: SourceError, next: Next, turn: &mut Turn<'_, O>) -> Phase<O> {
        Phase::Waiting { until: self.back_off(error, turn), next }
    }

    /// Counts and reports a failed request. Returns the time of the next attempt: the end of the backoff, or
    /// of the error's `Retry-After` if that is later.
    fn back_off(&mut self, error: SourceError, turn: &mut Turn<'_, O>) -> Instant {
        let wait = self.backoff.failure(turn.now, turn.rng);
        self.wait_after(error, wait, turn)
    }

    fn wait_after(&mut self, error: SourceError, wait: Duration, turn: &mut Turn<'_, O>) -> Instant {
        let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
        let retry_after = wait.max(asked);
        let error = self.note_error(error, turn);
        turn.effects.notices.push(ReflectorNotice::Failed { error, retry_after });
        later(turn.now, retry_after)
    }

    /// Records a failure after which the next request follows immediately, either because the next one is
    /// another kind of request, or because the failed one is a watch that had worked before it broke.
    fn recover(&mut self, error: SourceError, turn: &mut Turn<'_, O>) {
        let error = self.note_error(error, turn);
        turn.effects.notices.push(ReflectorNotice::Recovering(error));
    }

    /// Handles a watch or a streaming list whose source must be read in another encoding. The first such
    /// error is followed by a list without a wait, later ones by a list after a backoff.
    fn on_encoding_changed(&mut self, error: SourceError, turn: &mut Turn<'_, O>) -> Phase<O> {
        if mem::replace(&mut self.listed_for_encoding, true) {
            return self.fail(error, Next::Relist(RelistReason::EncodingChanged), turn);
        }
        self.recover(error, turn);
        self.begin_relist(RelistReason::EncodingChanged, turn)
    }

    fn note_error(&mut self, error: SourceError, turn: &Turn<'_, O>) -> Arc<SourceError> {
        let error = Arc::new(error);
        self.status.failures += 1;
        let is_not_found = error.kind() == SourceErrorKind::NotFound;
        self.status.not_found = if is_not_found { self.status.not_found + 1 } else { 0 };
        self.status.last_error = Some(ReflectorError::new(Arc::clone(&error), turn.now));
        error
    }

    fn note_success(&mut self, now: Instant) {
        self.backoff.success(now);
        self.status.failures = 0;
        self.status.not_found = 0;
    }

    /// Applies a complete list. A list that is older than the last version is applied only if it is known to
    /// be authoritative.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is stale. The next list is then a consistent read in which every object
    /// is decoded.
    fn accept(
        &mut self,
        builder: ListBuilder<O>,
        version: ResourceVersion,
        truth: bool,
        turn: &mut Turn<'_, O>,
    ) -> Result<(), Stale> {
        let seen = self.status.last_version.clone();
        let rewound = self.is_older(&version, &seen);
        if rewound && !truth {
            self.status.stale_lists += 1;
            turn.effects.notices.push(ReflectorNotice::StaleList { version, seen });
            (self.consistent, self.withhold_known) = (true, true);
            return Err(Stale);
        }
        if rewound {
            self.status.rewound += 1;
            turn.effects.notices.push(ReflectorNotice::Rewound { version: version.clone(), seen });
        }
        (self.consistent, self.withhold_known, self.streaming_cuts) = (false, false, 0);
        self.unreached = false;
        self.status.synced = true;
        self.note_success(turn.now);
        self.move_to(&version, turn);
        if self.resync_at.is_none() {
            self.resync_at = self.next_resync(turn.now);
        }
        self.server = self.next_server.take().or_else(|| self.server.take());
        let reread = mem::take(&mut self.reread);
        self.status.server_changes += u64::from(reread);
        turn.effects.changes.push(Change::Replaced(builder.finish(version, rewound, reread)));
        Ok(())
    }

    /// Moves the last version forward to `version`, which an event or a bookmark has. The last version never
    /// moves back, and never becomes unset. Returns false if `version` is older, unset or 0.
    fn advance(&mut self, version: &ResourceVersion, turn: &mut Turn<'_, O>) -> bool {
        if self.is_older(version, &self.status.last_version) {
            self.status.older_versions += 1;
            return false;
        }
        self.move_to(version, turn)
    }

    fn move_to(&mut self, version: &ResourceVersion, turn: &mut Turn<'_, O>) -> bool {
        // Versions that are unset or 0 are ignored: a request with version 0 would accept any state, however
        // old.
        if version.is_empty() || version.is_any() {
            return false;
        }
        self.status.last_version_at = Some(turn.now);
        (self.vouched_at, turn.vouched) = (Some(turn.now), true);
        if *version != self.status.last_version {
            self.status.last_version = version.clone();
            turn.effects.versions.push(version.clone());
        }
        true
    }

    fn next_resync(&self, now: Instant) -> Option<Instant> {
        let period = self.config.resync_period.filter(|period| !period.is_zero())?;
        Some(later(now, period))
    }

    fn describe_phase(&mut self) {
        let (phase, next) = match &self.phase {
            Phase::Waiting { until, .. } => (ReflectorPhase::BackingOff, Some(*until)),
            Phase::Listing(listing) if listing.resume_at().is_some() => {
                (ReflectorPhase::BackingOff, listing.resume_at())
            }
            Phase::Listing(_) => (ReflectorPhase::Listing, None),
            Phase::Streaming(_) => (ReflectorPhase::StreamingList, None),
            Phase::Checking(_) => (ReflectorPhase::Checking, None),
            Phase::Watching(watching) if watching.is_open() => (ReflectorPhase::Watching, None),
            Phase::Watching(_) => (ReflectorPhase::OpeningWatch, None),
            Phase::Stopped => (ReflectorPhase::Stopped, None),
        };
        (self.status.phase, self.status.next_attempt_at) = (phase, next);
    }
}

/// The error for a list that is older than the last version and is therefore not applied.
struct Stale;

fn asks_for_retry(error: &SourceError) -> bool {
    match error.kind() {
        SourceErrorKind::TooManyRequests => true,
        SourceErrorKind::Unavailable => error.retry_after().is_some(),
        _ => false,
    }
}

impl<O: Object> fmt::Debug for ReflectorState<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorState")
            .field("name", &self.config.name)
            .field("phase", &self.status.phase)
            .field("last_version", &self.status.last_version)
            .finish_non_exhaustive()
    }
}
