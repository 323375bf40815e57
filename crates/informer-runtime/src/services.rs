use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::{Cache, CachedClient, EventRecorder};

/// The services that a manager shares with its runnables: client, cache, event recorder and clock.
#[derive(Clone)]
#[non_exhaustive]
pub struct Services {
    /// The client, which reads from the cache and writes to the API server.
    pub client: CachedClient,
    /// The cache with the informers of the program.
    pub cache: Cache,
    /// Records Kubernetes events. In a reconciler, the recorder has the name of its controller.
    pub recorder: EventRecorder,
    pub(crate) clock: Clock,
}

impl Services {
    pub(crate) fn new(client: CachedClient, recorder: EventRecorder) -> Self {
        Self { cache: client.cache().clone(), client, recorder, clock: Clock::start() }
    }

    /// Returns the current time, which tests can simulate. It is the time of the system clock, plus the time
    /// by which tokio's clock was advanced, minus the time for which it was paused, since the manager was
    /// created.
    ///
    /// In a program the result is the time of the system clock. In a test with paused time, it advances only
    /// with tokio's clock, so that deadlines and ages in objects can be tested without waiting.
    ///
    /// ```
    /// # use informer_runtime::{Context, Outcome, ReconcileError};
    /// use std::time::Duration;
    ///
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    ///
    /// # fn example(ctx: &Context, created: &Time) -> Result<Outcome, ReconcileError> {
    /// let age = ctx.now().duration_since(created.0);
    /// if age.as_secs() < 600 {
    ///     return Ok(Outcome::requeue_after(Duration::from_secs(60)));
    /// }
    /// # Ok(Outcome::Done) }
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("client", &self.client).field("cache", &self.cache).finish()
    }
}

/// The time at which the manager was created, by the system clock and by tokio's clock. The difference
/// between the time passed on both clocks shows whether a test simulates time.
#[derive(Clone)]
pub(crate) struct Clock {
    tokio: Instant,
    system: std::time::Instant,
    /// The time that a test has set, and tokio's time at that moment.
    #[cfg(feature = "testing")]
    set: std::sync::Arc<parking_lot::Mutex<Option<(Timestamp, Instant)>>>,
}

impl Clock {
    /// The difference between the system clock and tokio's clock up to which it counts as zero. Small
    /// differences arise because the clocks are read one after the other.
    const NOISE: Duration = Duration::from_millis(1);

    pub(crate) fn start() -> Self {
        Self {
            tokio: Instant::now(),
            system: system_now(),
            #[cfg(feature = "testing")]
            set: std::sync::Arc::default(),
        }
    }

    /// Sets the current time of all clones of this clock. From then on the time follows tokio's clock.
    #[cfg(feature = "testing")]
    pub(crate) fn set(&self, now: Timestamp) {
        *self.set.lock() = Some((now, Instant::now()));
    }

    pub(crate) fn now(&self) -> Timestamp {
        #[cfg(feature = "testing")]
        if let Some((then, since)) = *self.set.lock() {
            let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
            return then.saturating_add(passed).unwrap_or(then);
        }
        let (simulated, passed) = (self.tokio.elapsed(), system_now() - self.system);
        let now = Timestamp::now();
        if simulated.abs_diff(passed) < Self::NOISE {
            return now;
        }
        let [simulated, passed] =
            [simulated, passed].map(|time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX));
        // The sum is out of range only for dates thousands of years from now. The system time is then
        // returned.
        now.checked_add(simulated.saturating_sub(passed)).unwrap_or(now)
    }
}

#[expect(clippy::disallowed_methods, reason = "the difference to tokio's clock shows whether time is paused")]
fn system_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_clock_advances_by_simulated_time_only() {
        let clock = Clock::start();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let before = clock.now();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let passed = clock.now().duration_since(before);
        assert_eq!(passed.round(jiff::Unit::Second).unwrap(), SignedDuration::from_secs(60));
    }
}
