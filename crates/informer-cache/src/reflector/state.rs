//! The rules of a reflector, without a clock, a socket or a task.
//!
//! [`ReflectorState`] says by [`step`](ReflectorState::step) what is to be done next, and is told by
//! [`handle`](ReflectorState::handle) what came of it. [`Reflector`](super::Reflector) is the driver that does it; a
//! simulator is another.
//!
//! ```text
//!              ┌───────────┐ refused, no end mark  ┌─────────┐
//!        ┌────▶│ Streaming │──────────────────────▶│ Listing │◀──┐ 410, too large, stale:
//!        │     └─────┬─────┘                       └────┬──┬─┘   │ at once, consistently
//!        │           │ end mark: the same stream        │  └─────┘
//!        │           ▼                         complete │
//!        │     ┌───────────┐◀───────────────────────────┘
//!  list  │     │ Watching  │──┐ closed in time, broken after it worked, silent:
//!        │     └───┬───▲───┘◀─┘ at once, from the last version
//!        │   fails │   │ watch
//!        │         ▼   │
//!        │     ┌───────┴───┐
//!        └─────│  Waiting  │◀── a list that failed, a list that was asked for
//!              └───────────┘
//! any ── stop ──▶ Stopped
//! ```
//!
//! After a watch that has told nothing at all, for long, the server is asked whether it has the version, by a list of one
//! object ([`ReflectorPhase::Checking`]), before the next watch from there. One that has not was restored from a backup, or
//! lags: a list follows. It is asked, too, while a watch tells only of bookmarks older than the version it was asked for from, and
//! where nobody answered a watch: who does next may have been started again, with an older state.
//!
//! What follows the wait after a watch that failed: the same watch where it was refused as one too many (429), to be asked for
//! later (`Retry-After`), or by nobody listening, or where its connection broke before it had told anything or again and
//! again; a list where its version has expired (410) and after everything else. A page of a list that is to be asked for later
//! is: the list goes on from there.
//!
//! # Invariants
//!
//! 1. The last version never moves back, except to that of a consistent list of a server that was restored, or where versions have
//!    no order ([`ReflectorState::set_unordered`]).
//! 2. A complete list gives exactly one [`Change::Replaced`]; one that breaks off gives nothing.
//! 3. A watch that was closed in time, or whose connection broke, is never followed by a list, but where the server turns
//!    out not to have the last version.
//! 4. Two requests without a wait between them differ, or the one before has delivered something or lasted.

mod checking;
mod listing;
mod step;
mod streaming;
mod watching;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::deadline::{LONGEST, later};
use informer_core::{Object, ResourceVersion};
use rand::Rng;

use self::checking::Checking;
use self::listing::Listing;
pub use self::step::{Effects, Input, ListPlan, ReflectorAction, ReflectorNotice, Step, WatchPlan};
use self::streaming::Streaming;
use self::watching::Watching;
use super::backoff::Backoff;
use super::list_builder::ListBuilder;
use super::{
    MAX_RETRY_AFTER, ReflectorConfig, ReflectorError, ReflectorPhase, ReflectorStatus, RelistReason,
    StreamingList,
};
use crate::Change;
use crate::source::{SourceError, SourceErrorKind};

/// The rules of a reflector, without a clock, a socket, a task or an own source of randomness: whoever drives it does what
/// [`step`](Self::step) says, tells [`handle`](Self::handle) what came of it, and carries out its [`Effects`].
///
/// [`Reflector`](super::Reflector) is the driver for tokio. One thread without a runtime, in made-up time, does as well:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use informer_cache::Change;
/// use informer_cache::reflector::{ReflectorAction, Input, ReflectorConfig, ReflectorState};
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
/// // A failure is followed by a wait, whose end is told like anything else.
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
    /// The source answers streaming lists, as far as is known.
    streaming_supported: bool,
    /// The source answers a complete list sooner if the request has no limit.
    complete_lists: bool,
    /// The server of the last list that was applied, and the server of the list under way.
    server: Option<Arc<str>>,
    next_server: Option<Arc<str>>,
    /// Both servers are known and differ: the list under way is read in full.
    reread: bool,
    /// The server pages lists that it could answer from its cache.
    paged: bool,
    /// The next list is a consistent read.
    consistent: bool,
    /// The next list must not rely on what is held.
    withhold_known: bool,
    /// Streaming lists cut before their end mark, in a row.
    streaming_cuts: u32,
    /// Watches closed at once, in a row.
    short_watches: u32,
    /// Nobody answered: the next one who does may not have the last version.
    unreached: bool,
    /// When the server last said something of the last version or of a later one.
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

    /// When the wait ends that it is in: before anything is asked for, or before a page that was refused is asked for again.
    fn waits_until(&self) -> Option<Instant> {
        match self {
            Self::Waiting { until, .. } => Some(*until),
            Self::Listing(listing) => listing.resume_at(),
            Self::Streaming(_) | Self::Checking(_) | Self::Watching(_) | Self::Stopped => None,
        }
    }
}

/// What follows a wait.
#[derive(Debug, Clone, Copy)]
enum Next {
    Relist(RelistReason),
    Watch,
}

/// What one call of [`ReflectorState::handle`] works with.
struct Turn<'a, O: Object> {
    now: Instant,
    rng: &'a mut dyn Rng,
    effects: Effects<O>,
    /// Something has told of the last version, or of a later one.
    vouched: bool,
}

impl<O: Object> ReflectorState<O> {
    /// A reflector that has not asked for anything yet. Its first step ends at `now`.
    pub fn new(config: Arc<ReflectorConfig>, now: Instant) -> Self {
        Self::resume(config, now, ResourceVersion::unset())
    }

    /// As [`new`](Self::new), after an earlier one that had seen `last_version`: the first list is asked for at that
    /// version, as a relist is, so that a server which lags behind it takes nobody back; where the version has expired,
    /// or is not there yet, a consistent list follows at once. Unset or 0 is no version: any state will do.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use informer_cache::reflector::{ReflectorAction, Input, ReflectorConfig, ReflectorState};
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
            unreached: false,
            vouched_at: None,
            resync_at: None,
            status: ReflectorStatus { last_version, ..ReflectorStatus::default() },
        }
    }

    /// Says whether the source answers streaming lists. Asked for before each list that begins.
    pub fn set_streaming_supported(&mut self, supported: bool) {
        self.streaming_supported = supported;
    }

    /// Sets whether the source [prefers](crate::source::ListWatch::prefers_complete_lists) complete lists without a limit. The
    /// driver calls it before each list that begins.
    pub fn set_complete_lists(&mut self, preferred: bool) {
        self.complete_lists = preferred;
    }

    /// Returns true if the next request is a complete list: the driver then also requests the
    /// [version of the server](crate::source::ListWatch::server_version).
    pub fn begins_list(&self) -> bool {
        match &self.phase {
            Phase::Listing(listing) => listing.begins(),
            Phase::Streaming(streaming) => !streaming.is_open(),
            Phase::Waiting { .. } | Phase::Checking(_) | Phase::Watching(_) | Phase::Stopped => false,
        }
    }

    /// The server of the last list that was applied, if it is known.
    pub fn server(&self) -> Option<&Arc<str>> {
        self.server.as_ref()
    }

    /// Sets the server of the last list that an earlier reflector has applied.
    pub fn resume_server(&mut self, server: Option<Arc<str>>) {
        self.server = server;
    }

    /// Sets the server of the list that [begins](Self::begins_list); `None` if it is not known. If it is another server than that of
    /// the last list, this list must not reuse held objects.
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

    /// Turns the comparison of versions off: those of the source are numbers without an order.
    pub fn set_unordered(&mut self) {
        self.status.unordered = true;
    }

    /// True if `version` is known to be older than `than`.
    fn is_older(&self, version: &ResourceVersion, than: &ResourceVersion) -> bool {
        !self.status.unordered && version.is_older_than(than)
    }

    /// What is to be done next. The same until the next input.
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

    /// Takes in what has happened at `now`.
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

    /// The queue was full for `how_long` up to `now`, in which time nothing was read: deadlines move by it.
    pub fn held_up(&mut self, how_long: Duration, now: Instant) {
        match &mut self.phase {
            Phase::Listing(listing) => listing.held_up(how_long, now),
            Phase::Streaming(streaming) => streaming.held_up(how_long, now),
            Phase::Checking(checking) => checking.held_up(how_long, now),
            Phase::Watching(watching) => watching.held_up(now),
            Phase::Waiting { .. } | Phase::Stopped => {}
        }
    }

    /// True while a consistent read is under way that relies on nothing held: what
    /// [`Input::RelistRequested`] asks for, so that it then changes nothing.
    pub fn reads_truth(&self) -> bool {
        self.phase.reads_truth()
    }

    /// What it is doing, and what has happened to it.
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

    /// A list of either form.
    fn begin_relist(&mut self, reason: RelistReason, turn: &mut Turn<'_, O>) -> Phase<O> {
        let streaming = match self.config.streaming_list {
            StreamingList::Auto => self.streaming_supported,
            StreamingList::On => true,
            StreamingList::Off => false,
        };
        if streaming { self.begin_streaming(reason, turn) } else { self.begin_list(reason, turn) }
    }

    /// The reader of the queue has what the watch says, so a list in flight may be as old as the event that it
    /// complains of; only a consistent read that is already under way, and relies on nothing held, will do.
    fn on_relist_requested(&mut self, phase: Phase<O>, turn: &mut Turn<'_, O>) -> Phase<O> {
        if phase.reads_truth() {
            return phase;
        }
        (self.consistent, self.withhold_known) = (true, true);
        // A wait that is under way is that of a failure, with what the server has asked for, or of a request before this one.
        let until = phase.waits_until().unwrap_or_else(|| {
            let wait = self.backoff.failure(turn.now, turn.rng);
            later(turn.now, wait)
        });
        Phase::Waiting { until, next: Next::Relist(RelistReason::Requested) }
    }

    /// Waits, then goes on with `next`.
    fn fail(&mut self, error: SourceError, next: Next, turn: &mut Turn<'_, O>) -> Phase<O> {
        Phase::Waiting { until: self.back_off(error, turn), next }
    }

    /// Tells of a failure, and when the wait after it ends.
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

    /// A failure after which the next attempt is made at once: in another way, or since the last one worked.
    fn recover(&mut self, error: SourceError, turn: &mut Turn<'_, O>) {
        let error = self.note_error(error, turn);
        turn.effects.notices.push(ReflectorNotice::Recovering(error));
    }

    fn note_error(&mut self, error: SourceError, turn: &Turn<'_, O>) -> Arc<SourceError> {
        let error = Arc::new(error);
        self.status.failures += 1;
        self.status.last_error = Some(ReflectorError::new(Arc::clone(&error), turn.now));
        error
    }

    fn note_success(&mut self, now: Instant) {
        self.backoff.success(now);
        self.status.failures = 0;
    }

    /// Takes a complete list, if it is not older than what was seen before or is known to be the truth.
    ///
    /// # Errors
    ///
    /// When it is stale: the next list is a consistent read that relies on nothing held.
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

    /// Moves the last version on; never back, and never to none.
    fn advance(&mut self, version: &ResourceVersion, turn: &mut Turn<'_, O>) -> bool {
        if self.is_older(version, &self.status.last_version) {
            self.status.older_versions += 1;
            return false;
        }
        self.move_to(version, turn)
    }

    fn move_to(&mut self, version: &ResourceVersion, turn: &mut Turn<'_, O>) -> bool {
        // Version 0 would ask for any state again, however old.
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

/// A list was older than what was seen before.
struct Stale;

/// The server is there and refuses for now, and says so: the same request will do, later.
fn wants_to_be_asked_later(error: &SourceError) -> bool {
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
