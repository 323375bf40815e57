//! Waiting, in the blocking programs of this crate.

use std::time::{Duration, Instant};

/// A time by which something has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
    /// A deadline from now on.
    #[expect(clippy::disallowed_methods, reason = "these commands wait for other processes, in real time")]
    pub(crate) fn after(limit: Duration) -> Self {
        Self { began: Instant::now(), limit }
    }

    #[expect(clippy::disallowed_methods, reason = "these commands wait for other processes, in real time")]
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Asks again and again until there is an answer, or the time is over.
    #[expect(
        clippy::disallowed_methods,
        reason = "other processes give no sign of their own; there is no runtime here"
    )]
    pub(crate) fn poll<T>(&self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        const PERIOD: Duration = Duration::from_millis(50);
        loop {
            if let Some(answer) = ask() {
                return Some(answer);
            }
            if self.elapsed() >= self.limit {
                return None;
            }
            std::thread::sleep(PERIOD);
        }
    }
}
