//! Time as the server sees it. Everything that waits (bookmarks, deadlines, delays, the wait for a version that is
//! yet to come) and everything that is stamped goes through one [`Clock`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// What [`Clock::sleep_until`] returns.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time. Implementations must be monotonic.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Time since the clock was made.
    fn elapsed(&self) -> Duration;

    /// The wall clock, for `creationTimestamp` and the like.
    fn timestamp(&self) -> Timestamp;

    /// Completes once [`elapsed`](Self::elapsed) has reached `at`. Dropping it is free of effects.
    fn sleep_until(&self, at: Duration) -> Sleep;

    /// Moves the clock ahead of itself, and wakes whoever waited for a time that has come: as if so much time had passed.
    fn advance(&self, by: Duration);
}

/// The clock of the tokio runtime: real time, or paused time in tests that pause it; and ahead of that, once it was
/// [advanced](Clock::advance).
#[derive(Debug)]
pub struct TokioClock {
    origin: tokio::time::Instant,
    wall: Timestamp,
    /// How far it is ahead.
    ahead: watch::Sender<Duration>,
}

impl TokioClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        let ahead = watch::Sender::new(Duration::ZERO);
        Self { origin: tokio::time::Instant::now(), wall: Timestamp::now(), ahead }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed() + *self.ahead.borrow()
    }

    fn timestamp(&self) -> Timestamp {
        self.wall + self.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let (origin, mut ahead) = (self.origin, self.ahead.subscribe());
        Box::pin(async move {
            loop {
                let left = at.saturating_sub(*ahead.borrow_and_update());
                tokio::select! {
                    biased;
                    () = sleep_for(origin, left) => return,
                    changed = ahead.changed() => if changed.is_err() {
                        // The clock is gone, and will not be moved any more.
                        return sleep_for(origin, left).await;
                    }
                }
            }
        })
    }

    fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead += by);
    }
}

/// Sleeps until so long after `origin`; a time that no clock can show never comes.
async fn sleep_for(origin: tokio::time::Instant, left: Duration) {
    match origin.checked_add(left) {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A clock that stands still until a test moves it. It needs no runtime.
///
/// ```
/// use informer_apiserver::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new("2026-01-01T00:00:00Z".parse()?);
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.timestamp().to_string(), "2026-01-01T00:01:30Z");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug)]
pub struct ManualClock {
    elapsed: watch::Sender<Duration>,
    wall: Timestamp,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn new(wall: Timestamp) -> Self {
        Self { elapsed: watch::Sender::new(Duration::ZERO), wall }
    }

    /// Moves the clock and wakes whoever waited for a time that has come.
    pub fn advance(&self, by: Duration) {
        Clock::advance(self, by);
    }
}

impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    fn timestamp(&self) -> Timestamp {
        self.wall + self.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let mut elapsed = self.elapsed.subscribe();
        Box::pin(async move {
            if elapsed.wait_for(|elapsed| *elapsed >= at).await.is_err() {
                // The clock is gone, so its time never comes.
                std::future::pending::<()>().await;
            }
        })
    }

    fn advance(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed += by);
    }
}
