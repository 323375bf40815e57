//! The server's clock. All timers (bookmarks, deadlines, delays, waiting for a resourceVersion) and all
//! timestamps use one [`Clock`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// The future that [`Clock::sleep_until`] returns.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time. Implementations must be monotonic.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the elapsed time since the clock was created.
    fn elapsed(&self) -> Duration;

    /// Returns the wall clock time, for timestamps such as `creationTimestamp`.
    fn timestamp(&self) -> Timestamp;

    /// Waits until [`elapsed`](Self::elapsed) reaches `at`. Cancel safe.
    fn sleep_until(&self, at: Duration) -> Sleep;

    /// Moves the clock forward as if `by` had passed, and wakes all tasks whose sleep has ended by then.
    fn advance(&self, by: Duration);
}

/// The clock of the tokio runtime. Its time is real, or simulated in tests that pause the runtime's time.
///
/// [`Clock::advance`] adds an offset to the runtime's time.
#[derive(Debug)]
pub struct TokioClock {
    origin: tokio::time::Instant,
    wall: Timestamp,
    ahead: watch::Sender<Duration>,
}

impl TokioClock {
    /// Creates a clock that starts at zero. Its wall clock starts at the current time of the system.
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
        self.origin.elapsed().saturating_add(*self.ahead.borrow())
    }

    fn timestamp(&self) -> Timestamp {
        timestamp_after(self.wall, self.elapsed())
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
                        // The clock was dropped, so `advance` cannot be called any more and the rest is a
                        // plain sleep.
                        return sleep_for(origin, left).await;
                    }
                }
            }
        })
    }

    fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead = ahead.saturating_add(by));
    }
}

/// Returns the time `elapsed` after `start`, or the last representable one if that is too far in the future.
fn timestamp_after(start: Timestamp, elapsed: Duration) -> Timestamp {
    start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
}

/// Sleeps until `left` after `origin`. Never returns if that instant is not representable.
async fn sleep_for(origin: tokio::time::Instant, left: Duration) {
    match origin.checked_add(left) {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A clock that a test advances by hand. It needs no runtime.
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
    /// Creates a clock at elapsed time zero whose wall clock shows `wall`.
    pub fn new(wall: Timestamp) -> Self {
        Self { elapsed: watch::Sender::new(Duration::ZERO), wall }
    }

    /// Moves the clock forward and wakes all tasks whose sleep has ended by then.
    pub fn advance(&self, by: Duration) {
        Clock::advance(self, by);
    }
}

impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    fn timestamp(&self) -> Timestamp {
        timestamp_after(self.wall, self.elapsed())
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let mut elapsed = self.elapsed.subscribe();
        Box::pin(async move {
            if elapsed.wait_for(|elapsed| *elapsed >= at).await.is_err() {
                // The clock was dropped without reaching the time, so this sleep never ends.
                std::future::pending::<()>().await;
            }
        })
    }

    fn advance(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed = elapsed.saturating_add(by));
    }
}
