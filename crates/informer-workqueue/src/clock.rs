//! Time inside a queue: nanoseconds since the queue was created, in eight bytes.
//!
//! The pure state of a queue takes [`Nanos`] as arguments. Only the code that drives it owns a [`Clock`],
//! which reads tokio's clock, so paused time controls the whole queue.

use std::time::Duration;

use tokio::time::Instant;

/// An instant in nanoseconds since the queue was created. Saturates after 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nanos(pub(crate) u64);

const NANOS_A_SECOND: u64 = 1_000_000_000;

impl Nanos {
    /// Returns the instant after a delay. An overflow saturates at the last representable instant, which is
    /// never reached.
    pub(crate) fn after(self, delay: Duration) -> Self {
        let whole = delay.as_secs().saturating_mul(NANOS_A_SECOND);
        Self(self.0.saturating_add(whole).saturating_add(u64::from(delay.subsec_nanos())))
    }

    /// Returns the duration since `earlier`. If `earlier` is the later instant, because a clock may jump,
    /// returns zero.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The delay that replaces delays that the platform cannot represent. It is longer than any program runs, and
/// short enough for every clock.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    pub(crate) fn now(self) -> Nanos {
        self.nanos(Instant::now())
    }

    pub(crate) fn nanos(self, at: Instant) -> Nanos {
        Nanos::default().after(at.saturating_duration_since(self.epoch))
    }

    pub(crate) fn instant(self, at: Nanos) -> Instant {
        let at = Duration::from_nanos(at.0);
        self.epoch.checked_add(at).unwrap_or_else(|| self.epoch + FAR_FUTURE)
    }
}
