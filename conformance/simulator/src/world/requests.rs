//! Checks the requests that the reflector sends: their time, number and kind.

use std::mem;
use std::time::{Duration, Instant};

use informer_cache::source::{SourceError, SourceErrorKind};

use crate::check::{Checked, ensure};

pub(super) struct Requests {
    pub(super) lists: u64,
    pub(super) total: u64,
    /// Number of requests since the simulated clock last advanced.
    at_once: u32,
    last_at: Instant,
    /// Number of consecutive failed requests. If it is not zero, the next request must wait for the backoff.
    refusals: u32,
    not_before: Option<Instant>,
    /// True if the last watch delivered events before it ended. The next request must then be a watch from
    /// the last version instead of a list.
    pub(super) expect_watch: bool,
    /// True if the source of the current reflector has reported another encoding before.
    encoding_changed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Page,
    Streaming,
    Watch,
    /// A list with `resourceVersionMatch=NotOlderThan`, which reads the current resourceVersion.
    Check,
}

/// The maximum number of requests while the simulated clock does not advance: one list in each of its
/// variants, with all pages.
const MAX_AT_ONCE: u32 = 40;

/// The first and the longest backoff of the reflector, without jitter.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

impl Requests {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            lists: 0,
            total: 0,
            at_once: 0,
            last_at: now,
            refusals: 0,
            not_before: None,
            expect_watch: false,
            encoding_changed: false,
        }
    }

    pub(super) fn sent(&mut self, kind: Kind, now: Instant) -> Checked {
        self.total += 1;
        self.lists += u64::from(matches!(kind, Kind::List | Kind::Streaming));
        self.at_once = if now > self.last_at { 0 } else { self.at_once + 1 };
        self.last_at = now;
        ensure!(
            "no-request-storm",
            self.at_once < MAX_AT_ONCE,
            "{} requests without time passing",
            self.at_once
        );
        if let Some(not_before) = self.not_before.take() {
            let early = not_before.saturating_duration_since(now);
            ensure!(
                "waits-after-failures",
                early.is_zero(),
                "a request was sent {early:?} before the end of the backoff"
            );
        }
        let relists = matches!(kind, Kind::List | Kind::Streaming);
        let needless = mem::take(&mut self.expect_watch) && relists;
        ensure!(
            "no-needless-list",
            !needless,
            "a list was requested after a watch that had worked and ended"
        );
        Ok(())
    }

    pub(super) fn worked(&mut self) {
        self.refusals = 0;
    }

    /// Records a request to which the server responded with an error, or a watch that ended because of its
    /// encoding. The next request must wait for the backoff, unless the reflector may retry immediately.
    pub(super) fn failed(&mut self, kind: Kind, error: &SourceError, now: Instant) {
        let again_at_once = match error.kind() {
            SourceErrorKind::EncodingChanged => !mem::replace(&mut self.encoding_changed, true),
            SourceErrorKind::TooManyRequests | SourceErrorKind::ConnectionRefused => false,
            SourceErrorKind::Expired | SourceErrorKind::VersionTooLarge => {
                matches!(kind, Kind::List | Kind::Page | Kind::Streaming)
            }
            // After a failed streaming list, the reflector sends an ordinary list request immediately.
            _ => kind == Kind::Streaming,
        };
        if again_at_once {
            return;
        }
        let (initial, cap) = BACKOFF;
        let wait = initial.saturating_mul(1 << self.refusals.min(10)).min(cap);
        self.refusals += 1;
        self.not_before = Some(now + wait.max(error.retry_after().unwrap_or_default()));
    }

    /// Resets the expected requests, because a new reflector starts.
    pub(super) fn begin_anew(&mut self) {
        (self.refusals, self.not_before) = (0, None);
        (self.expect_watch, self.encoding_changed) = (false, false);
    }
}
