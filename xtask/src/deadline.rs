//! Deadlines and polling for the blocking commands of this crate.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
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

    /// Calls the closure `ask` every 50 ms until it returns `Some`, and returns the value in it. Returns
    /// `None` once the time limit, counted from [`after`](Self::after), has passed. `ask` is called at least
    /// once, even if the limit is zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "other processes send no notification, and there is no async runtime here"
    )]
    pub(crate) fn poll<T>(&self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        const PERIOD: Duration = Duration::from_millis(50);
        loop {
            if let Some(value) = ask() {
                return Some(value);
            }
            if self.elapsed() >= self.limit {
                return None;
            }
            std::thread::sleep(PERIOD);
        }
    }
}
