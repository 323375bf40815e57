use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

/// The future that [`Clock::sleep_until`] returns.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time of a server's timeouts. Implementations must be monotonic.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the elapsed time since the clock was created.
    fn elapsed(&self) -> Duration;

    /// Waits until [`elapsed`](Self::elapsed) reaches `at`. Cancel safe.
    fn sleep_until(&self, at: Duration) -> Sleep;
}

/// The clock of the tokio runtime, whose time a test may pause.
#[derive(Debug)]
pub struct TokioClock {
    origin: Instant,
}

impl Default for TokioClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let at = self.origin.checked_add(at);
        Box::pin(async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                // The instant is not representable.
                None => std::future::pending().await,
            }
        })
    }
}
