use std::time::{Duration, Instant};

use informer_core::Object;

use super::super::{MAX_WATCH_SILENCE, ReflectorConfig, RelistReason};
use super::watching::unreached;
use super::{Input, ListPlan, Next, Phase, ReflectorAction, ReflectorState, Step, Turn, later};
use crate::source::{ListPart, SourceError, SourceErrorKind, VersionMatch};

/// The version check: a list of one object that must not be older than the last version.
///
/// A watch alone does not detect that its server has an older state. After a restore from a backup, an API
/// server accepts a watch from a version that it has not reached. The server sends nothing until it reaches
/// that version, so changes before that would be lost.
pub(super) struct Checking {
    plan: ListPlan,
    open: bool,
    /// The time of the last progress of the version check: its request was sent or accepted, or a part of the
    /// response arrived. After too long a time without progress, the check fails.
    progress_at: Instant,
}

impl Checking {
    pub(super) fn step(&self, config: &ReflectorConfig) -> Step {
        let action = if self.open { ReflectorAction::Read } else { ReflectorAction::List(self.plan.clone()) };
        Step { action, until: Some(later(self.progress_at, config.progress_timeout)) }
    }

    pub(super) fn held_up(&mut self, how_long: Duration, now: Instant) {
        self.progress_at = later(self.progress_at, how_long).min(now);
    }
}

impl<O: Object> ReflectorState<O> {
    /// Continues after the end of a watch that the server had accepted. If the server has not confirmed the
    /// last version for a long time, a version check follows, otherwise the next watch. Early events of the
    /// ended watch do not count as confirmation, because the server may have been restored after them.
    pub(super) fn resume_watch(&mut self, turn: &mut Turn<'_, O>) -> Phase<O> {
        if self.is_vouched_for(turn.now) { self.begin_watch(turn) } else { self.begin_check(turn) }
    }

    /// Returns true if the server has recently confirmed that it has the last version or a later one.
    pub(super) fn is_vouched_for(&self, now: Instant) -> bool {
        self.vouched_at.is_some_and(|at| now.saturating_duration_since(at) < MAX_WATCH_SILENCE)
    }

    pub(super) fn begin_check(&mut self, turn: &mut Turn<'_, O>) -> Phase<O> {
        let version = self.status.last_version.clone();
        if version.is_any() || version.as_u64().is_none() || self.status.unordered {
            // Versions that are not numbers, or have no order, cannot be compared. The watch begins without a
            // version check.
            return self.begin_watch(turn);
        }
        self.status.version_checks += 1;
        let plan = ListPlan {
            version,
            version_match: VersionMatch::NotOlderThan,
            limit: Some(1),
            continue_token: None,
            use_known: true,
        };
        Phase::Checking(Checking { plan, open: false, progress_at: turn.now })
    }

    pub(super) fn on_checking(
        &mut self,
        mut checking: Checking,
        input: Input<O>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        match input {
            Input::Opened => checking.open = true,
            Input::Part(ListPart::End(end)) if self.is_older(&end.version, &checking.plan.version) => {
                let older = format!("the server is at version {}", end.version);
                let error = self.error(SourceErrorKind::VersionTooLarge, &older);
                return self.check_failed(error, turn);
            }
            Input::Part(ListPart::End(_)) => {
                (self.unreached, self.vouched_at) = (false, Some(turn.now));
                return self.begin_watch(turn);
            }
            Input::Part(_) => {}
            Input::Ended => {
                let error = self.error(SourceErrorKind::Connection, "the list was cut off before its end");
                return self.check_failed(error, turn);
            }
            Input::Failed(error) => return self.check_failed(error, turn),
            Input::Timer if turn.now >= later(checking.progress_at, self.config.progress_timeout) => {
                let silent = format!("the list was silent for {:?}", self.config.progress_timeout);
                let error = self.error(SourceErrorKind::Timeout, &silent);
                return self.check_failed(error, turn);
            }
            Input::Timer | Input::Events(_) | Input::RelistRequested | Input::Stop => {
                return Phase::Checking(checking);
            }
        }
        checking.progress_at = turn.now;
        Phase::Checking(checking)
    }

    /// Handles a failed version check. If the server does not have the version, a list follows. After any
    /// other failure the result of the check is unknown, and the reflector tries a watch. If the check
    /// reached no server, the next attempt begins with another check.
    fn check_failed(&mut self, error: SourceError, turn: &mut Turn<'_, O>) -> Phase<O> {
        self.unreached &= unreached(error.kind());
        let next = match error.kind() {
            SourceErrorKind::Expired | SourceErrorKind::VersionTooLarge => {
                Next::Relist(RelistReason::WatchExpired)
            }
            _ => Next::Watch,
        };
        self.fail(error, next, turn)
    }
}
